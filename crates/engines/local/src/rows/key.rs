//! The row key of a job, computed from its id so that lookups by id need no index.
//!
//! An id consists of 48 bits of milliseconds, a version and random bits. The key consists of the milliseconds since 2020
//! (41 bits, until 2089), one bit for the version (7 or 8) and the first 22 random bits, so keys have the order of ids.
//! They are nearly sequential, so that inserts append, and nearly unique. If a key is taken, the job gets the next free
//! key within [`PROBES`]; a lookup scans that range, which contains one row, rarely two.

use windlass_core::JobId;

/// Milliseconds from 1970 to 2020.
const ORIGIN_MS: i64 = 1_577_836_800_000;
/// Bits of a key from the version and the random part of the id.
const RANDOM_BITS: u32 = 23;
/// Bits of a key from the time in the id.
const TIME_BITS: u32 = 41;

/// Number of keys that are tried for a job, starting with its first key.
pub(crate) const PROBES: i64 = 512;

/// The first key of an id; the job is in `key..key + PROBES`.
pub(crate) fn first_key(id: JobId) -> i64 {
    let bytes = id.as_bytes();
    // The last millisecond is left out, so that there are keys to try after every first key.
    let ms = (id.time().as_millis() - ORIGIN_MS).clamp(0, (1 << TIME_BITS) - 2);
    let version = i64::from(bytes[6] >> 7);
    // The 12 bits after the version and the first 10 bits after the variant.
    let high = i64::from(u16::from_be_bytes([bytes[6], bytes[7]]) & 0x0FFF);
    let low = i64::from(u16::from_be_bytes([bytes[8], bytes[9]]) & 0x3FFF) >> 4;
    // All 64 bits are used, from the lowest number on.
    ((ms << RANDOM_BITS) | (version << 22) | (high << 10) | low) ^ i64::MIN
}

/// The range of keys, inclusive, of jobs with ids in a range, inclusive.
pub(crate) fn keys((first, last): (JobId, JobId)) -> (i64, i64) {
    (first_key(first), first_key(last).saturating_add(PROBES))
}

#[cfg(test)]
mod tests {
    use super::*;
    use windlass_core::Timestamp;
    use windlass_core::random::Seeded;

    #[test]
    fn keys_follow_the_order_of_ids_and_seldom_meet() {
        let (random, now) = (Seeded::new(1), Timestamp::from_millis(1_800_000_000_000));
        let mut ids: Vec<JobId> = (0..60).map(|_| JobId::new(now, &random)).collect();
        ids.push(JobId::new(now.plus(1), &random));
        ids.sort_unstable();
        let keys: Vec<i64> = ids.iter().map(|id| first_key(*id)).collect();
        assert!(keys.is_sorted());
        assert!(keys.windows(2).filter(|pair| pair[0] == pair[1]).count() < 2);
    }

    #[test]
    fn keys_follow_the_order_of_ids_of_both_versions() {
        let (random, now) = (Seeded::new(1), Timestamp::from_millis(1_800_000_000_000));
        let mut ids: Vec<JobId> = (0..60).map(|_| JobId::new(now, &random)).collect();
        let follow_up = |index| JobId::follow_up(ids[0], 1, index, now);
        ids.extend((0..60).map(follow_up).collect::<Vec<_>>());
        ids.push(JobId::new(now.plus(1), &random));
        ids.sort_unstable();
        assert!(ids.iter().map(|id| first_key(*id)).is_sorted());
    }

    #[test]
    fn the_keys_of_a_window_are_those_of_its_ids_at_any_time() {
        let random = Seeded::new(1);
        for ms in [0, 1_800_000_000_000, 1 << 42, i64::MAX] {
            let at = Timestamp::from_millis(ms);
            let (first, last) = keys((JobId::first_at(at), JobId::last_at(at)));
            let key = first_key(JobId::new(at, &random));
            assert!(first <= key && key + (PROBES - 1) <= last, "{ms}");
        }
        let at = Timestamp::from_millis(1_800_000_000_000);
        let (first, last) = keys((JobId::first_at(at), JobId::last_at(at)));
        for other in [at.minus(1), at.plus(2)] {
            let key = first_key(JobId::new(other, &random));
            assert!(key < first || last < key, "{other}");
        }
        let (first, last) = keys((JobId::MIN, JobId::MAX));
        let latest = first_key(JobId::last_at(Timestamp::MAX));
        assert!(first == i64::MIN && last >= latest + PROBES, "all jobs");
    }

    #[test]
    fn times_out_of_range_have_keys_too() {
        let random = Seeded::new(1);
        for ms in [0, 1, i64::MAX] {
            let key = first_key(JobId::new(Timestamp::from_millis(ms), &random));
            assert!(key.checked_add(PROBES).is_some(), "{ms}");
        }
    }
}
