//! Where retention goes on, row by row, and how long that is true.

use crate::retention::removal::Cuts;
use std::collections::HashMap;
use std::time::Duration;
use tokio::time::Instant;
use uuid::Uuid;
use windlass_core::Timestamp;
use windlass_core::engine::Epoch;

/// How often everything is looked at anew, if that takes no more than one part in so many of the time.
const ANEW: Duration = Duration::from_secs(5);
const ANEW_SHARE: u32 = 20;

/// The scan cursors of retention: until when jobs were removed row by row, by the leaf's first id, lane and state. A
/// scan that began at the oldest row each time would skip all deleted rows again, and beside an old snapshot vacuum
/// cannot clear them. Jobs that ended before the cursor and became visible late (they were locked, or not committed yet)
/// are found by the next full scan.
#[derive(Debug, Default)]
pub(crate) struct Passed {
    upto: HashMap<(Uuid, i32, i16), i64>,
    anew_at: Option<Instant>,
    /// The epoch and the time of the last step.
    last: Option<(Epoch, Timestamp)>,
}

impl Passed {
    /// Notes a step of retention. Returns whether everything remembered from earlier steps is void: in another epoch
    /// removed rows may be back and numbers given again, and after the clock has gone backwards times lie ahead. The
    /// cursors are forgotten then.
    pub(crate) fn is_void(&mut self, epoch: &Epoch, now: Timestamp) -> bool {
        let last = self.last.replace((epoch.clone(), now));
        let is_void = last.is_some_and(|(of, at)| of != *epoch || at > now);
        if is_void {
            self.upto.clear();
            self.anew_at = None;
        }
        is_void
    }

    /// Whether this look is one at everything.
    pub(crate) fn begin(&mut self, now: Instant) -> bool {
        let anew = self.anew_at.is_none_or(|at| at <= now);
        if anew {
            self.upto.clear();
        }
        anew
    }

    /// Everything was looked at since then: not again for a while.
    pub(crate) fn rest(&mut self, begun: Instant) {
        self.anew_at = Some(Instant::now() + ANEW.max(begun.elapsed() * ANEW_SHARE));
    }

    /// Where to begin, for each of these.
    pub(crate) fn since(&self, leaf: Uuid, cuts: &Cuts) -> Vec<i64> {
        let names = cuts.lanes.iter().zip(&cuts.states);
        names
            .map(|(lane, state)| self.upto.get(&(leaf, *lane, *state)).copied().unwrap_or(0))
            .collect()
    }

    /// These, by lane, state and when they ended, have been seen to.
    pub(crate) fn note(&mut self, leaf: Uuid, found: impl Iterator<Item = (i32, i16, i64)>) {
        for (lane, state, at) in found {
            let upto = self.upto.entry((leaf, lane, state)).or_default();
            *upto = at.max(*upto);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LEAF: Uuid = Uuid::nil();

    /// Cursors of one lane that have come to 10, after a step at 100 in the epoch `a`.
    fn passed() -> (Passed, Cuts) {
        let mut passed = Passed::default();
        assert!(!passed.is_void(&Epoch::new("a"), Timestamp::from_millis(100)), "the first step");
        passed.note(LEAF, [(1, 5, 10)].into_iter());
        (passed, Cuts { lanes: vec![1], states: vec![5], ended: vec![50] })
    }

    #[test]
    fn cursors_hold_in_the_same_epoch_while_time_passes() {
        let (mut passed, cuts) = passed();
        assert!(!passed.is_void(&Epoch::new("a"), Timestamp::from_millis(100)));
        assert!(!passed.is_void(&Epoch::new("a"), Timestamp::from_millis(101)));
        assert_eq!(passed.since(LEAF, &cuts), [10]);
    }

    #[test]
    fn cursors_are_forgotten_in_another_epoch_and_after_the_clock_has_gone_backwards() {
        for (epoch, at) in [("b", 100), ("a", 99)] {
            let (mut passed, cuts) = passed();
            passed.rest(Instant::now());
            assert!(passed.is_void(&Epoch::new(epoch), Timestamp::from_millis(at)));
            assert_eq!(passed.since(LEAF, &cuts), [0]);
            assert!(passed.begin(Instant::now()), "the next scan is a full one");
            assert!(!passed.is_void(&Epoch::new(epoch), Timestamp::from_millis(at)), "only once");
        }
    }
}
