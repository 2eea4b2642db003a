//! Job ids: time-prefixed UUIDs. Generated ids are version 7. Derived ids (follow-ups, fires of schedules)
//! are version 8, so that repeating an operation results in the same job. Because derived ids are
//! predictable, version 8 is reserved: a producer that chooses one is refused, because it could block a
//! future job.

use crate::error::{Error, Result};
use crate::limits::ID_SKEW_MAX_MS;
use crate::random::Random;
use crate::time::Timestamp;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;
use uuid::{Builder, Uuid};

/// The identity of a job: a UUID whose first 48 bits are its creation time in milliseconds.
///
/// The time prefix keeps ids roughly in the order of creation, so that a store can append job definitions and
/// drop them by age.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct JobId(Uuid);

impl JobId {
    /// Lower than the id of any job.
    pub const MIN: Self = Self(Uuid::nil());
    /// Higher than the id of any job.
    pub const MAX: Self = Self(Uuid::max());

    /// Generates an id with the time `at`.
    pub fn new(at: Timestamp, random: &dyn Random) -> Self {
        let bits = random.next_u128().to_be_bytes();
        let mut tail = [0; 10];
        tail.copy_from_slice(&bits[..10]);
        Self(Builder::from_unix_timestamp_millis(prefix(at), &tail).into_uuid())
    }

    /// The id of the `index`-th follow-up of one attempt of `parent`.
    ///
    /// Derived from values that both sides of a lost reply know, so that a settle repeated through an outbox
    /// creates each follow-up once. The attempt's `started_at` keeps the id close to the current time even if
    /// the parent is old.
    pub fn follow_up(parent: Self, attempt: u32, index: usize, started_at: Timestamp) -> Self {
        let index = index as u64;
        derived(
            started_at,
            &[b"follow-up", parent.as_bytes(), &attempt.to_be_bytes(), &index.to_be_bytes()],
        )
    }

    /// The id of the copy that a subscription gets of the job `topic_job`, so that a repeated enqueue to the topic stores it
    /// once.
    pub fn copy(topic_job: Self, subscription: &str) -> Self {
        let parts = [b"copy", topic_job.as_bytes().as_slice(), subscription.as_bytes()];
        derived(topic_job.time(), &parts)
    }

    /// Wraps a UUID without validation; use [`JobId::check`] to validate it.
    pub const fn from_uuid(uuid: Uuid) -> Self {
        Self(uuid)
    }

    /// The id with these sixteen bytes.
    pub const fn from_bytes(bytes: [u8; 16]) -> Self {
        Self(Uuid::from_bytes(bytes))
    }

    /// The UUID itself.
    pub const fn as_uuid(self) -> Uuid {
        self.0
    }

    /// The sixteen bytes of the id.
    pub const fn as_bytes(&self) -> &[u8; 16] {
        self.0.as_bytes()
    }

    /// The lowest id with the time `at`: the start of a range scan from then on.
    pub fn first_at(at: Timestamp) -> Self {
        let mut bytes = [0; 16];
        bytes[..6].copy_from_slice(&prefix(at).to_be_bytes()[2..]);
        Self::from_bytes(bytes)
    }

    /// The highest id with the time `at`: the end of a range scan up to then.
    pub fn last_at(at: Timestamp) -> Self {
        let mut bytes = [u8::MAX; 16];
        bytes[..6].copy_from_slice(&prefix(at).to_be_bytes()[2..]);
        Self::from_bytes(bytes)
    }

    /// The number directly below, as an excluded bound.
    pub(crate) fn before(self) -> Self {
        Self(Uuid::from_u128(self.0.as_u128().saturating_sub(1)))
    }

    /// The number directly above, as an excluded bound.
    pub(crate) fn next(self) -> Self {
        Self(Uuid::from_u128(self.0.as_u128().saturating_add(1)))
    }

    /// The creation time in the id.
    pub fn time(self) -> Timestamp {
        let mut ms = [0; 8];
        ms[2..].copy_from_slice(&self.as_bytes()[..6]);
        Timestamp::from_millis(i64::from_be_bytes(ms))
    }

    /// Whether Windlass derived this id, for a follow-up or a fire of a schedule (version 8).
    pub fn is_derived(self) -> bool {
        self.0.get_version_num() == 8
    }

    /// Checks that a producer may use this id: version 7, with a time within a day of `now`.
    pub fn check(self, now: Timestamp) -> Result<()> {
        match self.0.get_version_num() {
            7 => self.check_time(now),
            8 => Err(Error::invalid(
                "id",
                self,
                "version 8 is reserved for schedules and follow-ups: use a time-prefixed UUID of version 7, or leave \
                 it out",
            )),
            _ => Err(Error::invalid(
                "id",
                self,
                "use a time-prefixed UUID of version 7; other keys belong in `unique`",
            )),
        }
    }

    /// Checks that the id has the form of a job's id, chosen or derived, of any time.
    pub(crate) fn check_version(self) -> Result<()> {
        match self.0.get_version_num() {
            7 | 8 => Ok(()),
            _ => Err(Error::invalid("id", self, "use a time-prefixed UUID of version 7 or 8")),
        }
    }

    /// Checks a derived id: version 8, with a time within a day of `now`.
    pub(crate) fn check_derived(self, now: Timestamp) -> Result<()> {
        if !self.is_derived() {
            let expected = "a derived id is a time-prefixed UUID of version 8";
            return Err(Error::invalid("id", self, expected));
        }
        self.check_time(now)
    }

    fn check_time(self, now: Timestamp) -> Result<()> {
        let time = self.time();
        if time.since(now).max(now.since(time)) > ID_SKEW_MAX_MS {
            return Err(Error::invalid(
                "id",
                self,
                format!("its time {time} is more than a day from now ({now}); make a fresh one"),
            ));
        }
        Ok(())
    }
}

/// Generates increasing ids, even within a millisecond, so that a store ordered by id appends them.
///
/// The first 22 bits after the time are a counter with a random start; the other 52 are random, so that
/// independent generators do not collide.
#[derive(Debug, Default)]
pub struct Ids {
    /// Time and counter of the latest id.
    last: (i64, u32),
}

impl Ids {
    const COUNT_BITS: u32 = 22;
    /// How far ids may run ahead of a clock that stepped back or is too slow for the rate of ids.
    const AHEAD_MAX_MS: i64 = 1_000;

    /// The next id, with the time `at`.
    pub fn next(&mut self, at: Timestamp, random: &dyn Random) -> JobId {
        let (at, bits) = (at.as_millis(), random.next_u128());
        let (last_at, last_count) = self.last;
        let behind = at <= last_at && last_at - at <= Self::AHEAD_MAX_MS;
        // A start in the lower half leaves the upper half for counting.
        let start = (bits >> (128 - Self::COUNT_BITS + 1)) as u32;
        self.last = match last_count + 1 {
            count if behind && count < 1 << Self::COUNT_BITS => (last_at, count),
            _ if behind => (last_at + 1, start),
            _ => (at, start),
        };
        let (ms, count) = self.last;
        let mut tail = [0; 10];
        tail.copy_from_slice(&bits.to_be_bytes()[6..]);
        // The counter is split around the version and variant bits of a UUID.
        tail[..2].copy_from_slice(&((count >> 10) as u16).to_be_bytes());
        let low = ((count & 0x3FF) << 4) as u16 | u16::from(tail[3] & 0x0F);
        tail[2..4].copy_from_slice(&low.to_be_bytes());
        let ms = prefix(Timestamp::from_millis(ms));
        JobId(Builder::from_unix_timestamp_millis(ms, &tail).into_uuid())
    }
}

/// A version 8 id with the time `at`, derived from `parts`: the same parts give the same id.
pub fn derived(at: Timestamp, parts: &[&[u8]]) -> JobId {
    let mut name = Vec::with_capacity(parts.iter().map(|part| part.len() + 8).sum());
    for part in parts {
        // Length prefixes, so that ("ab","c") and ("a","bc") differ.
        name.extend_from_slice(&(part.len() as u64).to_be_bytes());
        name.extend_from_slice(part);
    }
    let hash = Uuid::new_v5(&Uuid::NAMESPACE_OID, &name);
    let mut bytes = [0; 16];
    bytes[..6].copy_from_slice(&prefix(at).to_be_bytes()[2..]);
    bytes[6..].copy_from_slice(&hash.as_bytes()[..10]);
    JobId(Builder::from_custom_bytes(bytes).into_uuid())
}

/// The time as stored in an id: 48 bits, never negative.
fn prefix(at: Timestamp) -> u64 {
    at.as_millis().clamp(0, (1 << 48) - 1) as u64
}

impl fmt::Display for JobId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Debug for JobId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl FromStr for JobId {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        Uuid::from_str(text).map(Self).map_err(|_| Error::invalid("id", text, "it must be a UUID"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Seeded;
    use crate::time::DAY_MS;

    const NOW: Timestamp = Timestamp::from_millis(1_800_000_000_123);

    #[test]
    fn a_fresh_id_carries_its_time_and_reads_back() {
        let id = JobId::new(NOW, &Seeded::new(1));
        assert_eq!((id.time(), id.as_uuid().get_version_num()), (NOW, 7));
        assert_eq!(id.to_string().parse::<JobId>().unwrap(), id);
        id.check(NOW).unwrap();
        id.check(NOW.plus(DAY_MS)).unwrap();
        assert!(id.check(NOW.plus(DAY_MS + 1)).is_err());
        assert!(id.check(NOW.minus(DAY_MS + 1)).is_err());
    }

    #[test]
    fn all_ids_of_a_time_lie_between_its_first_and_its_last() {
        let id = JobId::new(NOW, &Seeded::new(1));
        assert!(JobId::first_at(NOW) < id && id < JobId::last_at(NOW));
        assert!(id < JobId::first_at(NOW.plus(1)) && JobId::last_at(NOW.minus(1)) < id);
        for far in [Timestamp::from_millis(i64::MIN), Timestamp::MAX] {
            assert!(JobId::first_at(far) < JobId::last_at(far));
        }
    }

    #[test]
    fn made_one_after_the_other_ids_rise_whatever_the_clock_does() {
        let (mut ids, random) = (Ids::default(), Seeded::new(3));
        let times = [0, 0, 0, 1, 1, -5, 2, 2_000, 2_000].map(|ms| NOW.as_millis() + ms);
        let made = times.map(|ms| ids.next(Timestamp::from_millis(ms), &random));
        assert!(made.is_sorted_by(|a, b| a < b), "{made:?}");
        assert!(made.iter().all(|id| id.as_uuid().get_version_num() == 7));
        assert_eq!((made[0].time(), made[7].time()), (NOW, NOW.plus(2_000)));
        // A clock that stepped back further than the limit is followed.
        assert_eq!(ids.next(NOW, &random).time(), NOW);
        // Ids beyond the capacity of a millisecond use the next one.
        ids.last = (NOW.as_millis(), (1 << Ids::COUNT_BITS) - 1);
        assert_eq!(ids.next(NOW, &random).time(), NOW.plus(1));
    }

    #[test]
    fn a_derived_id_is_the_same_for_the_same_parts_and_different_for_others() {
        let id = derived(NOW, &[b"ab", b"c"]);
        assert_eq!(id, derived(NOW, &[b"ab", b"c"]));
        assert_ne!(id, derived(NOW, &[b"a", b"bc"]));
        assert_eq!((id.time(), id.as_uuid().get_version_num()), (NOW, 8));
        let parent = JobId::new(NOW, &Seeded::new(2));
        let ids = [(1, 0), (1, 1), (2, 0)].map(|(n, i)| JobId::follow_up(parent, n, i, NOW));
        assert!(ids[0] != ids[1] && ids[0] != ids[2] && ids[1] != ids[2]);
        assert!(ids.iter().all(|id| id.is_derived()) && !parent.is_derived());
        ids[0].check_derived(NOW).unwrap();
        assert!(ids[0].check_derived(NOW.plus(DAY_MS + 1)).is_err());
        assert!(parent.check_derived(NOW).is_err());
        let refused = ids[0].check(NOW).unwrap_err().to_string();
        assert!(
            refused.contains("version 8 is reserved") && refused.contains("version 7"),
            "{refused}"
        );
    }

    #[test]
    fn a_random_uuid_is_refused_with_the_way_out() {
        let id: JobId = "6d1f8c1e-9d3b-4c55-8f43-8d1b9a3c2f10".parse().unwrap();
        assert!(id.check(NOW).unwrap_err().to_string().contains("belong in `unique`"));
        assert!("nonsense".parse::<JobId>().is_err());
    }
}
