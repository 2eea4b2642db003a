//! In which order a worker serves its queues: strictly, or by weight. Pure; knows nothing of engines.

/// The distance a queue of weight 1 moves per job.
const STRIDE: u64 = 1 << 20;

/// Whose turn it is.
pub(crate) struct Turns {
    order: Vec<usize>,
    /// By queue; empty where queues are served strictly in order.
    weighted: Vec<Weighted>,
}

struct Weighted {
    stride: u64,
    /// How far it has come. The one that is least far is next: over time each gets its share of the
    /// jobs, however large the claims were.
    pass: u64,
}

impl Turns {
    /// With the weights of the queues; none at all means strictly in order.
    pub(crate) fn new(queues: usize, weights: impl Iterator<Item = u32>) -> Self {
        let weighted =
            weights.map(|weight| Weighted { stride: STRIDE / u64::from(weight), pass: 0 });
        Self { order: (0..queues).collect(), weighted: weighted.collect() }
    }

    /// The queues in the order of the next claim.
    pub(crate) fn order(&mut self) -> &[usize] {
        if !self.weighted.is_empty() {
            self.order.sort_by_key(|at| (self.weighted[*at].pass, *at));
        }
        &self.order
    }

    /// Charges the queues for what they gave; `got` has one entry per queue.
    pub(crate) fn charge(&mut self, got: &[u32]) {
        if self.weighted.is_empty() {
            return;
        }
        // A queue that came before one that gave something and had nothing itself is empty. It must
        // not save up turns, or it would keep all others out when it fills.
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

    /// Serves jobs from queues that never end, except those that are empty, `claim` at a time.
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
