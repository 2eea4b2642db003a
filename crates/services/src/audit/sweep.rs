//! Bounds the audit log: deletes entries by age, and beyond the size limits the oldest entries of each
//! principal, so that no principal can displace the entries of others. Independent of the meaning of entries.

use super::action::Action;
use super::entry::{PREFIX, at, id_of};
use crate::records::{list, unexpected};
use std::collections::HashMap;
use windlass_core::engine::{Engine, Expect, RecordOp, RecordReply};
use windlass_core::limits::PAGE_MAX;
use windlass_core::time::DAY_MS;
use windlass_core::{Result, Timestamp};

/// The name of the action that records how many entries of a principal were dropped.
const DROPPED: &str = "audit.dropped";
/// Maximum number of entries deleted per call.
const DELETES_MAX: usize = 1_000;

/// The bounds of an audit log.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bounds {
    /// The age at which entries are deleted.
    pub(super) age_ms: u64,
    /// Maximum number of entries of one principal.
    pub(super) each: usize,
    /// Maximum number of entries of all principals. Beyond it, the principals with the most entries lose
    /// their oldest.
    pub(super) all: usize,
    /// Maximum number of entries that one process adds between two sweeps.
    pub(super) added: usize,
    /// The time between two sweeps.
    pub(super) every_ms: u64,
}

impl Bounds {
    pub(super) const DEFAULT: Self = Self {
        age_ms: 365 * DAY_MS,
        each: 10_000,
        all: 100_000,
        added: 5_000,
        every_ms: 10 * 60 * 1_000,
    };
}

/// The entries of one principal, the latest first.
#[derive(Default)]
struct PrincipalEntries {
    who: String,
    key: Option<String>,
    /// Record names, each with the number of actions it represents: more than 1 for a note.
    entries: Vec<(String, u64)>,
}

/// Deletes entries beyond the bounds. Returns notes for the log: the number of dropped actions per principal.
pub(super) async fn sweep(
    engine: &dyn Engine,
    bounds: Bounds,
    now: Timestamp,
) -> Result<Vec<Action>> {
    let (old, kept) = read(engine, now.minus(bounds.age_ms)).await?;
    delete(engine, old.into_iter().map(|key| (key, 0)).collect()).await?;
    let cap = cap(kept.iter().map(|own| own.entries.len()), bounds);
    let mut notes = Vec::new();
    for mut own in kept {
        let surplus = own.entries.split_off(own.entries.len().min(cap));
        let dropped = delete(engine, surplus).await?;
        if dropped > 0 {
            notes.push(Action::note(own.who, own.key, DROPPED, dropped));
        }
    }
    Ok(notes)
}

/// The keys of expired entries, and all other entries by principal.
async fn read(
    engine: &dyn Engine,
    oldest: Timestamp,
) -> Result<(Vec<String>, Vec<PrincipalEntries>)> {
    let (mut old, mut owners, mut after) =
        (Vec::new(), HashMap::<String, PrincipalEntries>::new(), None);
    loop {
        let page = list(engine, PREFIX, after, PAGE_MAX).await?.value;
        for record in page.rows {
            if at(id_of(&record.key)).is_none_or(|at| at < oldest) {
                old.push(record.key);
                continue;
            }
            // Unreadable entries of later versions share one bound.
            let action = serde_json::from_slice::<Action>(&record.value).ok();
            let identity = action.as_ref().map_or("", Action::identity).to_owned();
            let own = owners.entry(identity).or_default();
            let actions = match &action {
                Some(note) if note.action == DROPPED => note.count,
                _ => 1,
            };
            if let Some(action) = action {
                (own.who, own.key) = (action.who, action.key);
            }
            own.entries.push((record.key, actions));
        }
        after = page.next;
        if after.is_none() {
            return Ok((old, owners.into_values().collect()));
        }
    }
}

/// The largest number of entries per principal with which all principals together stay within the bound.
fn cap(counts: impl Iterator<Item = usize> + Clone, bounds: Bounds) -> usize {
    let fits = |cap: usize| counts.clone().map(|count| count.min(cap)).sum::<usize>() <= bounds.all;
    let (mut low, mut high) = (1, bounds.each);
    while low < high {
        let middle = low + (high - low).div_ceil(2);
        if fits(middle) { low = middle } else { high = middle - 1 }
    }
    low
}

/// Deletes records. Returns the number of actions in those that still existed.
async fn delete(engine: &dyn Engine, entries: Vec<(String, u64)>) -> Result<u64> {
    let mut dropped = 0;
    for chunk in entries.chunks(DELETES_MAX) {
        let delete =
            |(key, _): &(String, u64)| RecordOp::Delete { key: key.clone(), expect: Expect::Any };
        let answers = engine.records(chunk.iter().map(delete).collect()).await?.value;
        if answers.len() != chunk.len() {
            return Err(unexpected(engine));
        }
        for (answer, (_, actions)) in answers.into_iter().zip(chunk) {
            // Entries deleted by a concurrent sweep are counted by that process.
            if matches!(answer?, RecordReply::Deleted(true)) {
                dropped += actions;
            }
        }
    }
    Ok(dropped)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn principals_with_the_most_entries_lose_theirs_first() {
        let bounds = |each, all| Bounds { each, all, ..Bounds::DEFAULT };
        let cap = |counts: &[usize], bounds| super::cap(counts.iter().copied(), bounds);
        assert_eq!(cap(&[], bounds(10, 100)), 10);
        assert_eq!(cap(&[5, 1_000], bounds(10, 100)), 10);
        assert_eq!(cap(&[5, 1_000], bounds(100, 50)), 45, "5 of one and 45 of the other");
        assert_eq!(cap(&[1_000, 1_000, 1], bounds(100, 51)), 25);
        assert_eq!(cap(&[1, 1, 1], bounds(10, 2)), 1, "each keeps its latest entry");
    }
}
