//! The limits of a run with `--limits`: each on a kind of its own, by the name of the limit.

use windlass_core::engine::{Configure, LimitStats};
use windlass_core::model::{KindPatch, Limit, Rate, Rule};
use windlass_core::time::SECOND_MS;
use windlass_kit::history::CheckedLimit;

/// Groups of jobs.
const GROUPS: [&str; 3] = ["a", "b", "c"];
/// Number of jobs that producers let wait in each group.
const WAITING: u64 = 20;
/// Maximum number of jobs that a producer adds to a group at once.
const ADDED_MAX: u64 = 8;

/// A limit of the run, and the kind of the jobs under it.
#[derive(Clone, Copy)]
pub(super) struct Limited {
    name: &'static str,
    rule: Rule,
    by_group: bool,
}

/// All limits of a run.
pub(super) const ALL: [Limited; 5] = [
    Limited { name: "slots", rule: Rule::running(6), by_group: false },
    Limited { name: "group-slots", rule: Rule::running(2), by_group: true },
    Limited { name: "window", rule: Rule::rate(Rate::window(15, SECOND_MS)), by_group: false },
    Limited { name: "group-window", rule: Rule::rate(Rate::window(8, SECOND_MS)), by_group: true },
    Limited {
        name: "group-bucket",
        rule: Rule::rate(Rate::Bucket { amount: 8, per_ms: SECOND_MS, burst: 4 }),
        by_group: true,
    },
];

impl Limited {
    /// The name of the limit and of its kind in this run. Other runs on the same server have others.
    pub(super) fn name_in(&self, queue: &str) -> String {
        format!("{queue}-{}", self.name)
    }

    fn limit(&self) -> Limit {
        let limit = Limit::new(self.rule);
        if self.by_group { limit.by_group() } else { limit }
    }
}

/// Creates the limits.
pub(super) fn set_up(queue: &str) -> Vec<Configure> {
    let set = |limited: Limited| {
        let name = limited.name_in(queue);
        let listed = KindPatch::limits([name.as_str()]);
        [Configure::limit(name.as_str(), limited.limit()), Configure::kind(name.as_str(), listed)]
    };
    ALL.into_iter().flat_map(set).collect()
}

/// Removes the limits.
pub(super) fn clear(queue: &str) -> Vec<Configure> {
    let clear = |limited: Limited| {
        let name = limited.name_in(queue);
        let none: [&str; 0] = [];
        let unlisted = Configure::kind(name.as_str(), KindPatch::limits(none));
        [unlisted, Configure::remove_limit(name)]
    };
    ALL.into_iter().flat_map(clear).collect()
}

/// The limits that the histories are checked against.
pub(super) fn checked(queue: &str) -> Vec<CheckedLimit> {
    let checked = |limited: Limited| {
        CheckedLimit::new(limited.name, limited.limit()).kind(limited.name_in(queue))
    };
    ALL.into_iter().map(checked).collect()
}

/// The kinds and groups of the jobs that the groups lack, given the statistics of all limits.
pub(super) fn missing(queue: &str, stats: &[LimitStats]) -> Vec<(String, &'static str)> {
    let mut jobs = Vec::new();
    for limited in ALL {
        let name = limited.name_in(queue);
        let Some(found) = stats.iter().find(|stats| *stats.name == *name) else { continue };
        for group in GROUPS {
            let waiting = match limited.by_group {
                true => found.groups.iter().find(|it| it.group == group).map_or(0, |it| it.waiting),
                false => found.waiting / GROUPS.len() as u64,
            };
            let missing = WAITING.saturating_sub(waiting).min(ADDED_MAX);
            jobs.extend((0..missing).map(|_| (name.clone(), group)));
        }
    }
    jobs
}
