//! The record of the leadership, and who may take it. Pure; it must not know how it is stored.

use crate::options::LEAD_TTL_MS;
use serde::{Deserialize, Serialize};
use windlass_core::Timestamp;
use windlass_core::engine::{Expect, Record, Stamped};

/// The name of the record: one leadership for all services of a store.
pub(super) const KEY: &str = "leader/services";

/// Who leads, as it is stored. The instant of the renewal is the record's own `updated_at`, which is
/// the store's.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Claim {
    /// The holder's secret name: one process, one start.
    pub(super) holder: String,
    /// What people call it.
    #[serde(default)]
    pub(super) label: String,
    /// How long it lasts from the renewal; 0 once given back.
    pub(super) ttl_ms: u64,
    /// The store's epoch as the holder knew it. A store that was opened anew since, or went on along
    /// another timeline, has no leader: nobody waits for one that died with it.
    #[serde(default)]
    pub(super) epoch: String,
}

/// The process that leads the services of a store, for people.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Leader {
    /// What it calls itself.
    pub label: String,
    /// When it renewed its leadership last, by the store's clock.
    pub renewed_at: Timestamp,
    /// When another takes over unless it renews it.
    pub expires_at: Timestamp,
}

/// Who leads by the record as it is at `now`.
pub(super) fn leader(record: &Record, now: Timestamp) -> Option<Leader> {
    let Claim { label, ttl_ms, .. } = serde_json::from_slice(&record.value).ok()?;
    let (renewed_at, expires_at) = (record.updated_at, record.updated_at.plus(ttl_ms));
    (now < expires_at).then_some(Leader { label, renewed_at, expires_at })
}

/// What somebody who looks at the record may do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// It is theirs already: a reply was lost. Of this version, and for so long.
    Mine { version: u64, left_ms: u64 },
    /// It is another's: this version of it for so long by the store's clock, and by any clock for
    /// no longer than its time to live.
    Taken { version: u64, left_ms: u64, ttl_ms: u64 },
    /// They may take it, if it is still like this.
    Free(Expect),
}

/// What `me` may do about the record as it was seen.
pub(super) fn judge(seen: &Stamped<Option<Record>>, me: &str) -> Verdict {
    let Some(record) = &seen.value else { return Verdict::Free(Expect::Absent) };
    let (now, claim) = (seen.now, serde_json::from_slice::<Claim>(&record.value).ok());
    let of_before = |claim: &Claim| {
        claim.holder != me && !claim.epoch.is_empty() && claim.epoch != seen.epoch.as_str()
    };
    if claim.as_ref().is_some_and(of_before) {
        return Verdict::Free(Expect::Version(record.version));
    }
    // What cannot be read may be the claim of a later version: it gets its time, and no more.
    let ttl_ms = claim.as_ref().map_or(u64::MAX, |claim| claim.ttl_ms).min(*LEAD_TTL_MS.end());
    let version = record.version;
    // Never more than all of it, even if the store's clock went back.
    match record.updated_at.plus(ttl_ms).since(now).min(ttl_ms) {
        0 => Verdict::Free(Expect::Version(version)),
        left_ms if claim.is_some_and(|claim| claim.holder == me) => {
            Verdict::Mine { version, left_ms }
        }
        left_ms => Verdict::Taken { version, left_ms, ttl_ms },
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

    const FREE: Verdict = Verdict::Free(Expect::Version(7));

    #[test]
    fn a_leadership_is_free_when_nobody_has_it_or_its_time_is_over() {
        let nobody = Stamped { now: NOW, epoch: Epoch::new("e1"), value: None };
        assert_eq!(judge(&nobody, "me"), Verdict::Free(Expect::Absent));
        let theirs = r#"{"holder":"other","ttl_ms":1000,"epoch":"e1"}"#;
        let left = |ms| judge(&seen(theirs, NOW.plus(ms)), "me");
        assert_eq!(left(400), Verdict::Taken { version: 7, left_ms: 600, ttl_ms: 1_000 });
        assert_eq!(left(1_000), FREE);
        let mine = judge(&seen(theirs, NOW.plus(400)), "other");
        assert_eq!(mine, Verdict::Mine { version: 7, left_ms: 600 });
    }

    #[test]
    fn one_given_back_is_free_at_once() {
        let resigned = r#"{"holder":"other","label":"w1","ttl_ms":0,"epoch":"e1"}"#;
        assert_eq!(judge(&seen(resigned, NOW), "me"), FREE);
    }

    #[test]
    fn one_from_before_the_store_was_opened_anew_is_free_to_all_but_its_holder() {
        let before = r#"{"holder":"other","ttl_ms":1000,"epoch":"e0"}"#;
        assert_eq!(judge(&seen(before, NOW), "me"), FREE);
        let mine = judge(&seen(before, NOW), "other");
        assert_eq!(mine, Verdict::Mine { version: 7, left_ms: 1_000 });
    }

    #[test]
    fn an_unreadable_claim_or_an_endless_one_ends_all_the_same() {
        let longest = *LEAD_TTL_MS.end();
        let endless = r#"{"holder":"x","ttl_ms":18446744073709551615,"epoch":"e1"}"#;
        for odd in ["?", endless] {
            let whole = Verdict::Taken { version: 7, left_ms: longest, ttl_ms: longest };
            assert_eq!(judge(&seen(odd, NOW), "me"), whole);
            let back = judge(&seen(odd, NOW.minus(longest)), "me");
            assert_eq!(back, whole, "a clock went back");
            assert_eq!(judge(&seen(odd, NOW.plus(longest)), "me"), FREE);
        }
    }
}
