//! Audit log entries as records: the key of a record contains the time and sorts the latest entry first.
//! Independent of the content of entries.

use std::sync::atomic::{AtomicU32, Ordering};
use windlass_core::Timestamp;
use windlass_core::random::{Random as _, SystemRandom};

/// Key prefix of the records.
pub(super) const PREFIX: &str = "audit/";
/// The record that every sweep writes.
pub(super) const SWEPT_KEY: &str = "audit-swept";
/// Hexadecimal digits of the time at the start of an id.
const TIME_DIGITS: usize = 16;

/// Whether a record belongs to the audit log.
pub(crate) fn is_entry(key: &str) -> bool {
    key.starts_with(PREFIX) || key == SWEPT_KEY
}

/// Generates an id. Entries of one process within a millisecond also sort latest first; a random part
/// distinguishes ids of different processes.
pub(super) fn id(at: Timestamp) -> String {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let count = u32::MAX - COUNT.fetch_add(1, Ordering::Relaxed);
    let random = SystemRandom.next_u64() >> 32;
    format!("{:016x}-{count:08x}-{random:08x}", i64::MAX - at.as_millis().max(0))
}

/// The time of the entry with this id.
pub(super) fn at(id: &str) -> Option<Timestamp> {
    let inverted = i64::from_str_radix(id.get(..TIME_DIGITS)?, 16).ok()?;
    Some(Timestamp::from_millis(i64::MAX - inverted))
}

/// The id in the key of a record.
pub(super) fn id_of(key: &str) -> &str {
    key.strip_prefix(PREFIX).unwrap_or(key)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_sort_the_latest_first_and_hold_their_time() {
        let times = [0, 0, 1, 1_000, 1_000, 1_700_000_000_000].map(Timestamp::from_millis);
        let ids: Vec<String> = times.into_iter().map(id).collect();
        assert!(ids.is_sorted_by(|earlier, later| earlier > later), "{ids:?}");
        assert!(ids.iter().zip(times).all(|(id, time)| at(id) == Some(time)), "{ids:?}");
        for wrong in ["", "x", "zzzzzzzzzzzzzzzz-1"] {
            assert_eq!(at(wrong), None, "{wrong:?}");
        }
    }
}
