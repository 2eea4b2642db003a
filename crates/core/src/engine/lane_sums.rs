//! Sums over the lanes of a queue, of a kind or of a store.

use super::LaneStats;
use crate::Timestamp;

/// Sums over lanes, for display.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LaneSums {
    /// Jobs waiting to start: scheduled, blocked, available and paused.
    pub depth: u64,
    /// Jobs waiting for their due time.
    pub scheduled: u64,
    /// Jobs waiting for anything else.
    pub blocked: u64,
    /// Ready jobs.
    pub available: u64,
    /// Leased jobs.
    pub running: u64,
    /// Individually paused jobs.
    pub paused: u64,
    /// Completed jobs that are still retained.
    pub completed: u64,
    /// Dead jobs.
    pub dead: u64,
    /// Cancelled jobs that are still retained.
    pub cancelled: u64,
    /// Expired jobs that are still retained.
    pub expired: u64,
    /// When the first ready job of all lanes became ready.
    pub oldest: Option<Timestamp>,
    /// When the first scheduled job of all lanes is due.
    pub next_due: Option<Timestamp>,
}

impl LaneSums {
    /// Adds a lane.
    pub fn add(&mut self, lane: &LaneStats) {
        self.depth += lane.depth();
        self.scheduled += lane.scheduled;
        self.blocked += lane.blocked;
        self.available += lane.available;
        self.running += lane.running;
        self.paused += lane.paused;
        self.completed += lane.completed;
        self.dead += lane.dead;
        self.cancelled += lane.cancelled;
        self.expired += lane.expired;
        self.oldest = [self.oldest, lane.head_ready_at].into_iter().flatten().min();
        self.next_due = [self.next_due, lane.next_due_at].into_iter().flatten().min();
    }

    /// The sums over these lanes.
    pub fn of<'a>(lanes: impl IntoIterator<Item = &'a LaneStats>) -> Self {
        let mut sums = Self::default();
        lanes.into_iter().for_each(|lane| sums.add(lane));
        sums
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_add_the_counters_and_keep_the_oldest_ready_job() {
        let lane = |kind: &str, available, dead, ready_ms: Option<i64>| LaneStats {
            available,
            paused: 1,
            completed: 2,
            dead,
            head_ready_at: ready_ms.map(Timestamp::from_millis),
            next_due_at: ready_ms.map(|ms| Timestamp::from_millis(10 * ms)),
            ..LaneStats::empty("mail".into(), kind.into())
        };
        let lanes = [lane("a", 2, 0, Some(9)), lane("b", 0, 4, None), lane("c", 3, 1, Some(7))];
        let expected = LaneSums {
            depth: 8,
            available: 5,
            paused: 3,
            completed: 6,
            dead: 5,
            oldest: Some(Timestamp::from_millis(7)),
            next_due: Some(Timestamp::from_millis(70)),
            ..LaneSums::default()
        };
        assert_eq!(LaneSums::of(&lanes), expected);
        assert_eq!(LaneSums::of([]), LaneSums::default());
    }
}
