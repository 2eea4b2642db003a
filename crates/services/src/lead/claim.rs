//! The leadership record, and the decision whether it may be taken. Pure; independent of storage.

use crate::options::LEAD_TTL_MS;
use serde::{Deserialize, Serialize};
use windlass_core::Timestamp;
use windlass_core::engine::{Expect, Record, Stamped};

/// The key of the record: one leadership for all services of a store.
pub(super) const KEY: &str = "leader/services";

/// The stored leadership. The time of the last renewal is the record's `updated_at`, by the store's clock.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Claim {
    /// Random name of the holder, unique per start of a process.
    pub(super) holder: String,
    /// Display name of the holder.
    #[serde(default)]
    pub(super) label: String,
    /// How long the leadership lasts after a renewal; 0 after it was released.
    pub(super) ttl_ms: u64,
    /// The store's epoch as known to the holder. In another epoch (the store was reopened or failed over) the
    /// claim is void, so that no process waits for a leader that died with the store.
    #[serde(default)]
    pub(super) epoch: String,
}

/// The process that leads the services of a store, for display.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Leader {
    /// Its display name.
    pub label: String,
    /// Time of its last renewal, by the store's clock.
    pub renewed_at: Timestamp,
    /// When another process may take over unless the leadership is renewed.
    pub expires_at: Timestamp,
}

/// The leader according to the record at `now`.
pub(super) fn leader(record: &Record, now: Timestamp) -> Option<Leader> {
    let Claim { label, ttl_ms, .. } = serde_json::from_slice(&record.value).ok()?;
    let (renewed_at, expires_at) = (record.updated_at, record.updated_at.plus(ttl_ms));
    (now < expires_at).then_some(Leader { label, renewed_at, expires_at })
}

/// The options of a process that has read the record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ClaimState {
    /// It already leads, because the reply of its own write was lost. With the version and the remaining
    /// time.
    Mine { version: u64, left_ms: u64 },
    /// Another process leads: with the version, the remaining time by the store's clock, and the TTL, which
    /// limits it by any clock.
    Taken { version: u64, left_ms: u64, ttl_ms: u64 },
    /// It may take the leadership, if the record is unchanged.
    Free(Expect),
}

/// Decides what the process `me` may do, given the record.
pub(super) fn state_of(seen: &Stamped<Option<Record>>, me: &str) -> ClaimState {
    let Some(record) = &seen.value else { return ClaimState::Free(Expect::Absent) };
    let (now, claim) = (seen.now, serde_json::from_slice::<Claim>(&record.value).ok());
    let of_before = |claim: &Claim| {
        claim.holder != me && !claim.epoch.is_empty() && claim.epoch != seen.epoch.as_str()
    };
    if claim.as_ref().is_some_and(of_before) {
        return ClaimState::Free(Expect::Version(record.version));
    }
    // An unreadable record may be the claim of a later version: it is respected for the maximum TTL.
    let ttl_ms = claim.as_ref().map_or(u64::MAX, |claim| claim.ttl_ms).min(*LEAD_TTL_MS.end());
    let version = record.version;
    // At most the TTL, even if the store's clock went back.
    match record.updated_at.plus(ttl_ms).since(now).min(ttl_ms) {
        0 => ClaimState::Free(Expect::Version(version)),
        left_ms if claim.is_some_and(|claim| claim.holder == me) => {
            ClaimState::Mine { version, left_ms }
        }
        left_ms => ClaimState::Taken { version, left_ms, ttl_ms },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use windlass_core::engine::Epoch;

    const NOW: Timestamp = Timestamp::from_millis(1_800_000_000_000);

    fn seen(value: &str, now: Timestamp) -> Stamped<Option<Record>> {
        let value = value.to_owned().into();
        let record = Record { key: KEY.into(), version: 7, value, updated_at: NOW };
        Stamped { now, epoch: Epoch::new("e1"), value: Some(record) }
    }

    const FREE: ClaimState = ClaimState::Free(Expect::Version(7));

    #[test]
    fn a_leadership_is_free_when_vacant_has_it_or_its_time_is_over() {
        let vacant = Stamped { now: NOW, epoch: Epoch::new("e1"), value: None };
        assert_eq!(state_of(&vacant, "me"), ClaimState::Free(Expect::Absent));
        let theirs = r#"{"holder":"other","ttl_ms":1000,"epoch":"e1"}"#;
        let left = |ms| state_of(&seen(theirs, NOW.plus(ms)), "me");
        assert_eq!(left(400), ClaimState::Taken { version: 7, left_ms: 600, ttl_ms: 1_000 });
        assert_eq!(left(1_000), FREE);
        let mine = state_of(&seen(theirs, NOW.plus(400)), "other");
        assert_eq!(mine, ClaimState::Mine { version: 7, left_ms: 600 });
    }

    #[test]
    fn one_given_back_is_free_at_once() {
        let resigned = r#"{"holder":"other","label":"w1","ttl_ms":0,"epoch":"e1"}"#;
        assert_eq!(state_of(&seen(resigned, NOW), "me"), FREE);
    }

    #[test]
    fn one_from_before_the_store_was_opened_anew_is_free_to_all_but_its_holder() {
        let before = r#"{"holder":"other","ttl_ms":1000,"epoch":"e0"}"#;
        assert_eq!(state_of(&seen(before, NOW), "me"), FREE);
        let mine = state_of(&seen(before, NOW), "other");
        assert_eq!(mine, ClaimState::Mine { version: 7, left_ms: 1_000 });
    }

    #[test]
    fn an_unreadable_claim_or_an_endless_one_ends_all_the_same() {
        let longest = *LEAD_TTL_MS.end();
        let endless = r#"{"holder":"x","ttl_ms":18446744073709551615,"epoch":"e1"}"#;
        for odd in ["?", endless] {
            let whole = ClaimState::Taken { version: 7, left_ms: longest, ttl_ms: longest };
            assert_eq!(state_of(&seen(odd, NOW), "me"), whole);
            let back = state_of(&seen(odd, NOW.minus(longest)), "me");
            assert_eq!(back, whole, "a clock went back");
            assert_eq!(state_of(&seen(odd, NOW.plus(longest)), "me"), FREE);
        }
    }
}
