//! Where row-by-row retention resumes, and when that position is void.

use crate::retention::context::Cutoffs;
use std::collections::HashMap;
use std::time::Duration;
use tokio::time::Instant;
use uuid::Uuid;
use windlass_core::Timestamp;
use windlass_core::engine::Epoch;

/// Minimum time between two full scans.
const FULL_SCAN_EVERY: Duration = Duration::from_secs(5);
/// Full scans take at most one part in this number of the time.
const FULL_SCAN_SHARE: u32 = 20;

/// The scan cursors of retention: until when jobs were removed row by row, by the partition's first id, lane and state. A
/// scan that began at the oldest row each time would skip all deleted rows again, and beside an old snapshot vacuum
/// cannot clear them. Jobs that ended before the cursor and became visible late (they were locked, or not committed yet)
/// are found by the next full scan.
#[derive(Debug, Default)]
pub(crate) struct RetentionCursor {
    upto: HashMap<(Uuid, i32, i16), i64>,
    full_scan_at: Option<Instant>,
    /// The epoch and the time of the last step.
    last: Option<(Epoch, Timestamp)>,
}

impl RetentionCursor {
    /// Notes a step of retention. Returns whether everything remembered from earlier steps is void: in another epoch
    /// removed rows may be back and numbers given again, and after the clock has gone backwards times lie ahead. The
    /// cursors are forgotten then.
    pub(crate) fn is_void(&mut self, epoch: &Epoch, now: Timestamp) -> bool {
        let last = self.last.replace((epoch.clone(), now));
        let is_void = last.is_some_and(|(of, at)| of != *epoch || at > now);
        if is_void {
            self.upto.clear();
            self.full_scan_at = None;
        }
        is_void
    }

    /// Begins a scan; returns whether it is a full one.
    pub(crate) fn begin(&mut self, now: Instant) -> bool {
        let is_full_scan = self.full_scan_at.is_none_or(|at| at <= now);
        if is_full_scan {
            self.upto.clear();
        }
        is_full_scan
    }

    /// Notes the end of a full scan and schedules the next one.
    pub(crate) fn rest(&mut self, begun: Instant) {
        self.full_scan_at =
            Some(Instant::now() + FULL_SCAN_EVERY.max(begun.elapsed() * FULL_SCAN_SHARE));
    }

    /// Where to resume, for each lane and state of the cutoffs.
    pub(crate) fn since(&self, partition: Uuid, cutoffs: &Cutoffs) -> Vec<i64> {
        let names = cutoffs.lanes.iter().zip(&cutoffs.states);
        names
            .map(|(lane, state)| self.upto.get(&(partition, *lane, *state)).copied().unwrap_or(0))
            .collect()
    }

    /// Notes found jobs, by lane, state and end.
    pub(crate) fn note(&mut self, partition: Uuid, found: impl Iterator<Item = (i32, i16, i64)>) {
        for (lane, state, at) in found {
            let upto = self.upto.entry((partition, lane, state)).or_default();
            *upto = at.max(*upto);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PARTITION: Uuid = Uuid::nil();

    /// A cursor at 10 in one lane, after a step at 100 in the epoch `a`.
    fn cursor() -> (RetentionCursor, Cutoffs) {
        let mut cursor = RetentionCursor::default();
        assert!(!cursor.is_void(&Epoch::new("a"), Timestamp::from_millis(100)), "the first step");
        cursor.note(PARTITION, [(1, 5, 10)].into_iter());
        (cursor, Cutoffs { lanes: vec![1], states: vec![5], ended: vec![50] })
    }

    #[test]
    fn cursors_hold_in_the_same_epoch_while_time_passes() {
        let (mut cursor, cutoffs) = cursor();
        assert!(!cursor.is_void(&Epoch::new("a"), Timestamp::from_millis(100)));
        assert!(!cursor.is_void(&Epoch::new("a"), Timestamp::from_millis(101)));
        assert_eq!(cursor.since(PARTITION, &cutoffs), [10]);
    }

    #[test]
    fn cursors_are_void_in_another_epoch_and_after_the_clock_went_backwards() {
        for (epoch, at) in [("b", 100), ("a", 99)] {
            let (mut cursor, cutoffs) = cursor();
            cursor.rest(Instant::now());
            assert!(cursor.is_void(&Epoch::new(epoch), Timestamp::from_millis(at)));
            assert_eq!(cursor.since(PARTITION, &cutoffs), [0]);
            assert!(cursor.begin(Instant::now()), "the next scan is a full one");
            assert!(!cursor.is_void(&Epoch::new(epoch), Timestamp::from_millis(at)), "only once");
        }
    }
}
