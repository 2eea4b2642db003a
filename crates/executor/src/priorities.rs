//! Ready jobs by priority: from rank to rank, each counted up to a bound. It must not know how rows are stored.

use crate::entry::Entry;
use crate::executor::Executor;
use crate::rows::Rows;
use windlass_core::engine::{LaneStats, PriorityStats};
use windlass_core::limits::{PRIORITIES_MAX, READY_COUNTED_MAX};
use windlass_core::model::Order;
use windlass_core::{Result, Timestamp};

/// Ranks of a lane to read: one more than are reported, to learn whether there are others.
pub const RANKS_MAX: usize = PRIORITIES_MAX + 1;

/// Behind all jobs of a rank; stores keep numbers with a sign.
const LAST: u64 = i64::MAX.cast_unsigned();

/// Times that ranks are counted: what is few leaves more to count of what is not.
pub const ROUNDS: u64 = 2;

/// The ready jobs of one rank of a lane.
#[derive(Clone, Copy, Debug)]
pub struct Rank {
    /// The rank.
    pub rank: i64,
    /// The priority of the first, which is the rank of all jobs that became ready under strict order.
    priority: i32,
    /// Since when the first has been ready.
    head_ready_at: Timestamp,
    counted: u64,
    /// Whether there may be more.
    more: bool,
}

impl Rank {
    /// A rank whose first job was seen, and no other.
    pub const fn new(rank: i64, priority: i32, head_ready_at: Timestamp) -> Self {
        Self { rank, priority, head_ready_at, counted: 1, more: true }
    }

    /// Its jobs were counted up to `most`.
    pub const fn count(&mut self, counted: u64, most: u64) {
        (self.counted, self.more) = (counted, counted >= most);
    }

    fn is_priority(&self) -> bool {
        self.rank == i64::from(self.priority)
    }
}

/// Whether these are all ranks of a lane, and each is a priority.
fn is_all(ranks: &[Rank]) -> bool {
    ranks.len() < RANKS_MAX && ranks.iter().all(Rank::is_priority)
}

/// Those ranks of a lane whose jobs must be counted: none where the lane's own counter tells.
pub fn to_count(ranks: &mut [Rank]) -> Vec<&mut Rank> {
    let is_all = is_all(ranks);
    let told = ranks.iter_mut().take(PRIORITIES_MAX);
    let open: Vec<_> = told.filter(|rank| rank.more && rank.is_priority()).collect();
    if is_all && open.len() == 1 { Vec::new() } else { open }
}

/// How far each rank is counted in a round, if there are so many to count.
pub fn share(ranks: usize) -> u64 {
    (READY_COUNTED_MAX / ROUNDS / (ranks as u64).max(1)).max(1)
}

/// Tells a lane's ready jobs by priority, from its first ranks.
pub fn tell(lane: &mut LaneStats, ranks: &[Rank]) {
    let told = || ranks.iter().take(PRIORITIES_MAX).filter(|rank| rank.is_priority());
    let priority = |rank: &Rank| PriorityStats {
        priority: rank.priority,
        available: rank.counted,
        head_ready_at: rank.head_ready_at,
    };
    lane.priorities = told().map(priority).collect();
    let rest = lane.not_told_apart();
    let mut open = lane.priorities.iter_mut().zip(told()).filter(|(_, rank)| rank.more);
    // What was not counted belongs to the one of which there are more, if it is only one.
    if is_all(ranks)
        && let (Some((only, _)), None) = (open.next(), open.next())
    {
        only.available += rest;
    }
}

impl<R: Rows> Executor<R> {
    /// Whether a lane has ready jobs, and keeps those of one priority together.
    pub fn is_by_priority(&self, lane: &LaneStats) -> bool {
        let order = self.queues.get(&lane.queue).map(|settings| settings.order);
        lane.available > 0 && order.unwrap_or_default() == Order::Strict
    }

    /// Tells the ready jobs of these lanes by priority.
    pub(crate) fn tell_priorities(&self, lanes: &mut [LaneStats]) -> Result<()> {
        let mut found: Vec<(&mut LaneStats, Vec<Rank>)> = Vec::new();
        for lane in lanes.iter_mut().filter(|lane| self.is_by_priority(lane)) {
            let ranks = self.ranks(lane)?;
            found.push((lane, ranks));
        }
        for _ in 0..ROUNDS {
            let mut open: Vec<(&LaneStats, &mut Rank)> = Vec::new();
            for (lane, ranks) in &mut found {
                let lane = &**lane;
                open.extend(to_count(ranks).into_iter().map(|rank| (lane, rank)));
            }
            let most = share(open.len());
            for (lane, rank) in open {
                rank.count(self.count_rank(lane, rank.rank, most)?, most);
            }
        }
        found.into_iter().for_each(|(lane, ranks)| tell(lane, &ranks));
        Ok(())
    }

    /// The first ranks of a lane.
    fn ranks(&self, lane: &LaneStats) -> Result<Vec<Rank>> {
        let key = (lane.queue.clone(), lane.kind.clone());
        let (mut ranks, mut after) = (Vec::new(), None);
        while ranks.len() < RANKS_MAX
            && let Some(head) = self.rows.ready(&key, after, 1)?.first()
        {
            let first = |job: &Entry| Rank::new(head.rank, job.job.header.priority, job.ready_at);
            ranks.push(self.read(head.id, first)?);
            after = Some((head.rank, LAST));
        }
        Ok(ranks)
    }

    fn count_rank(&self, lane: &LaneStats, rank: i64, most: u64) -> Result<u64> {
        let key = (lane.queue.clone(), lane.kind.clone());
        let heads = self.rows.ready(&key, Some((rank.saturating_sub(1), LAST)), most as usize)?;
        Ok(heads.iter().take_while(|head| head.rank == rank).count() as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is told of a lane of so many ready jobs, whose ranks are of these priorities and have so many, if
    /// they are counted up to `most`.
    fn told(available: u64, ranks: &[(i64, i32, u64)], most: u64) -> Vec<(i32, u64)> {
        let rank =
            |(rank, priority, _): &(i64, i32, u64)| Rank::new(*rank, *priority, Timestamp::EPOCH);
        let mut found: Vec<_> = ranks.iter().map(rank).collect();
        for rank in to_count(&mut found) {
            let (.., count) = ranks.iter().find(|(of, ..)| *of == rank.rank).unwrap();
            rank.count(*count.min(&most), most);
        }
        let mut lane = LaneStats { available, ..LaneStats::empty("q".into(), "k".into()) };
        tell(&mut lane, &found);
        lane.priorities.iter().map(|told| (told.priority, told.available)).collect()
    }

    #[test]
    fn what_was_not_counted_belongs_to_the_only_priority_that_has_more() {
        let two = |first, second| [(-1, -1, first), (0, 0, second)];
        assert_eq!(told(7, &two(3, 4), 10), [(-1, 3), (0, 4)]);
        assert_eq!(told(50, &two(3, 47), 10), [(-1, 3), (0, 47)]);
        assert_eq!(told(50, &two(47, 3), 10), [(-1, 47), (0, 3)]);
        assert_eq!(told(50, &two(30, 20), 10), [(-1, 10), (0, 10)], "whose are the others?");
        assert_eq!(told(50, &[(5, 5, 50)], 10), [(5, 50)], "they all have it");
    }

    #[test]
    fn what_is_known_is_not_counted_again() {
        let mut ranks = [0, 1, 2].map(|rank| Rank::new(rank.into(), rank, Timestamp::EPOCH));
        let open =
            |ranks: &mut [Rank]| to_count(ranks).iter().map(|it| it.rank).collect::<Vec<_>>();
        assert_eq!(open(&mut ranks[..1]), [0; 0], "its lane knows");
        assert_eq!(open(&mut ranks), [0, 1, 2]);
        ranks[1].count(4, 5);
        assert_eq!(open(&mut ranks), [0, 2]);
        ranks[0].count(4, 5);
        assert_eq!(open(&mut ranks), [0; 0], "the rest of the lane is of rank 2");
    }

    #[test]
    fn ranks_of_another_order_are_no_priorities() {
        let mixed = [(-99, 3, 4), (0, 0, 46)];
        assert_eq!(told(50, &mixed, 10), [(0, 10)], "the others may be of rank -99");
        assert_eq!(told(5, &[(-99, 3, 4), (0, 0, 1)], 10), [(0, 1)]);
        assert_eq!(told(50, &[(1_800_000_000_000, 3, 50)], 10), []);
    }

    #[test]
    fn priorities_beyond_the_bound_are_not_told_apart() {
        let ranks: Vec<_> = (0..RANKS_MAX).map(|n| (n as i64, n as i32, 1)).collect();
        let told = told(1_000, &ranks, 10);
        assert_eq!(told.len(), PRIORITIES_MAX);
        assert!(told.iter().all(|(_, available)| *available == 1), "{told:?}");
    }

    #[test]
    fn one_answer_counts_a_bounded_number_of_jobs() {
        for ranks in [1, 4, 1_000] {
            assert!(share(ranks) * ranks as u64 * ROUNDS <= READY_COUNTED_MAX, "{ranks}");
        }
        assert_eq!(share(usize::MAX), 1, "each was found already");
    }
}
