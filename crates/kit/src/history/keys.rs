//! Checks ordering keys: one job at a time, in the order of enqueueing.

use super::checker::story;
use super::facts::Facts;
use super::verdict::{Kind, Verdict};
use std::collections::HashMap;
use windlass_core::JobId;

/// The period in which a job held its key.
#[derive(Clone, Copy, Debug)]
pub(super) struct Turn {
    pub(super) id: JobId,
    /// The job cannot have been queued for its key before this; `None` if its position is unknown.
    pub(super) wanted_from: Option<u64>,
    /// The job had been queued for its key by this time; `None` if unknown.
    pub(super) stored_by: Option<u64>,
    /// The job had been started by this time; `None` if its start was not observed.
    pub(super) started_by: Option<u64>,
    /// The job cannot have ended, and released the key, before this.
    pub(super) held_until: u64,
}

/// Checks all keys.
pub(super) fn check_keys(keys: HashMap<&str, Vec<Turn>>, facts: &Facts<'_>, verdict: &mut Verdict) {
    let mut keys: Vec<_> = keys.into_iter().collect();
    keys.sort_unstable_by_key(|(key, _)| *key);
    for (key, turns) in keys {
        for (first, second, rule) in overtaken(&turns).into_iter().chain(together(&turns)) {
            let jobs = [first, second];
            verdict.blame(
                Kind::KeyOrder,
                &jobs,
                || {
                    format!(
                        "key {key:?}: job {second} was started before job {first} ended, {rule}"
                    )
                },
                || story(facts, &jobs),
            );
        }
    }
}

type Finding = (JobId, JobId, &'static str);

/// Jobs that were started while one enqueued before them had not ended.
fn overtaken(turns: &[Turn]) -> Vec<Finding> {
    let mut line: Vec<(u64, &Turn)> =
        turns.iter().filter_map(|turn| Some((turn.stored_by?, turn))).collect();
    line.sort_by_key(|(stored_by, _)| *stored_by);
    // For each position, the job up to it that held the key longest.
    let mut longest: Vec<&Turn> = Vec::with_capacity(line.len());
    for (_, turn) in &line {
        let so_far = longest.last().copied().unwrap_or(turn);
        longest.push(if turn.held_until > so_far.held_until { turn } else { so_far });
    }
    let found = turns.iter().filter_map(|turn| {
        let (wanted_from, started_by) = (turn.wanted_from?, turn.started_by?);
        let before = line.partition_point(|(stored_by, _)| *stored_by < wanted_from);
        let first = longest[..before].last()?;
        (first.held_until > started_by).then_some((
            first.id,
            turn.id,
            "though it was enqueued before it",
        ))
    });
    found.collect()
}

/// Jobs that held the key at the same time, whatever their order of enqueueing.
fn together(turns: &[Turn]) -> Vec<Finding> {
    let mut started: Vec<(u64, &Turn)> =
        turns.iter().filter_map(|turn| Some((turn.started_by?, turn))).collect();
    // If one of two must have been first, its sum is smaller; see the order of leases.
    started.sort_by_key(|(from, turn)| u128::from(*from) + u128::from(turn.held_until));
    let mut found = Vec::new();
    let mut latest: Option<&Turn> = None;
    for (from, turn) in started {
        if let Some(holder) = latest.filter(|latest| latest.held_until > from) {
            let ordered = holder.stored_by.zip(turn.wanted_from).is_some_and(|(a, b)| a < b);
            if !ordered {
                found.push((holder.id, turn.id, "and ran beside it"));
            }
        }
        if latest.is_none_or(|latest| latest.held_until < turn.held_until) {
            latest = Some(turn);
        }
    }
    found
}
