//! The order in which a worker serves its queues: strict, or by weight. Pure; independent of engines.

/// How far a queue of weight 1 advances per job.
const STRIDE: u64 = 1 << 20;

/// Stride scheduling of the queues.
pub(crate) struct Turns {
    order: Vec<usize>,
    /// One entry per queue; empty if queues are served strictly in order.
    weighted: Vec<Weighted>,
}

struct Weighted {
    stride: u64,
    /// The virtual time of the queue. The queue with the lowest value is next, so that over time each gets
    /// its share of the jobs whatever the size of the claims.
    pass: u64,
}

impl Turns {
    /// Takes the weights of the queues; no weights mean strict order.
    pub(crate) fn new(queues: usize, weights: impl Iterator<Item = u32>) -> Self {
        let weighted =
            weights.map(|weight| Weighted { stride: STRIDE / u64::from(weight), pass: 0 });
        Self { order: (0..queues).collect(), weighted: weighted.collect() }
    }

    /// The queues in the order for the next claim.
    pub(crate) fn order(&mut self) -> &[usize] {
        if !self.weighted.is_empty() {
            self.order.sort_by_key(|at| (self.weighted[*at].pass, *at));
        }
        &self.order
    }

    /// Advances the queues by the number of jobs claimed from each; `got` has one entry per queue.
    pub(crate) fn charge(&mut self, got: &[u32]) {
        if self.weighted.is_empty() {
            return;
        }
        // A queue that was ahead of one that returned jobs, but returned none itself, is empty. It must not
        // save up turns, or it would starve all others when it fills.
        let mut floor = 0;
        for at in self.order.iter().rev() {
            let queue = &mut self.weighted[*at];
            if got[*at] > 0 {
                floor = floor.max(queue.pass);
                queue.pass += queue.stride * u64::from(got[*at]);
            } else {
                queue.pass = queue.pass.max(floor);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Simulates claims of `claim` jobs each, from queues that never run out except those in `empty`.
    fn serve(turns: &mut Turns, empty: &[usize], claims: u32, claim: u32) -> Vec<u32> {
        let mut served = vec![0; turns.order.len()];
        for _ in 0..claims {
            let first = turns.order().iter().copied().find(|at| !empty.contains(at)).unwrap();
            let mut got = vec![0; served.len()];
            got[first] = claim;
            served[first] += claim;
            turns.charge(&got);
        }
        served
    }

    #[test]
    fn without_weights_the_first_queue_always_comes_first() {
        let mut turns = Turns::new(2, std::iter::empty());
        assert_eq!(serve(&mut turns, &[], 10, 1), [10, 0]);
    }

    #[test]
    fn each_queue_gets_its_share_whatever_the_size_of_claims() {
        for claim in [1, 7] {
            let mut turns = Turns::new(2, [3, 1].into_iter());
            assert_eq!(serve(&mut turns, &[], 40, claim), [30 * claim, 10 * claim]);
        }
    }

    #[test]
    fn turns_are_spread_evenly() {
        let mut turns = Turns::new(2, [3, 1].into_iter());
        for _ in 0..10 {
            let served = serve(&mut turns, &[], 4, 1);
            assert_eq!(served, [3, 1]);
        }
    }

    #[test]
    fn an_empty_queue_saves_no_turns() {
        let mut turns = Turns::new(2, [1, 1].into_iter());
        assert_eq!(serve(&mut turns, &[0], 100, 1), [0, 100]);
        let served = serve(&mut turns, &[], 10, 1);
        assert!(served[0] <= 6, "{served:?}");
    }
}
