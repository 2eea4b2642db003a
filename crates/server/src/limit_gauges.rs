//! Statistics of limits as gauges, with a bounded number of labels. It must not know how they were counted.

use metrics::{Label, describe_gauge, gauge};
use std::collections::{BTreeMap, BTreeSet};
use windlass_core::engine::LimitStats;
use windlass_core::limits::{LIMIT_GROUPS_LISTED_MAX, LIMITS_MAX};

/// Maximum number of groups with their own labels, over all limits; per limit, at most those that the engine lists.
/// Exporters keep every label forever, and groups come from callers.
const GROUPS_LABELLED_MAX: usize = 1_000;

/// The label of all limits and groups without one of their own.
const OTHER: &str = "other";

const RUNNING: &str = "windlass_limit_running";
const WAITING: &str = "windlass_limit_waiting";
const TOKENS: &str = "windlass_limit_tokens";
const GROUP_RUNNING: &str = "windlass_limit_group_running";
const GROUP_WAITING: &str = "windlass_limit_group_waiting";
const GROUP_TOKENS: &str = "windlass_limit_group_tokens";

/// A limit, or one of its groups.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Series {
    limit: String,
    group: Option<String>,
}

/// The numbers of a series.
#[derive(Clone, Copy, Debug, Default)]
struct Numbers {
    running: u64,
    waiting: u64,
    /// `None` without a rate, and where tokens of several limits or groups would be added up.
    tokens: Option<u64>,
}

/// The labelled limits and groups, and the series published before.
#[derive(Debug, Default)]
pub(crate) struct LimitGauges {
    limits: BTreeMap<String, BTreeSet<String>>,
    /// Total number of labelled groups.
    labelled: usize,
    /// Whether each series has tokens.
    shown: BTreeMap<Series, bool>,
}

impl LimitGauges {
    pub(crate) fn new() -> Self {
        describe_gauge!(RUNNING, "running jobs that a limit counts");
        describe_gauge!(WAITING, "jobs under a limit that are ready or in line");
        describe_gauge!(TOKENS, "tokens that jobs under a limit could take now");
        describe_gauge!(GROUP_RUNNING, "running jobs of a group that a limit counts");
        describe_gauge!(GROUP_WAITING, "jobs of a group under a limit that are ready or in line");
        describe_gauge!(GROUP_TOKENS, "tokens that jobs of a group under a limit could take now");
        Self::default()
    }

    /// Publishes these limits. Limits and groups that are not among them become zero.
    pub(crate) fn show(&mut self, limits: &[LimitStats]) {
        let none = self.shown.iter().map(|(series, tokens)| {
            (series.clone(), Numbers { tokens: tokens.then_some(0), ..Numbers::default() })
        });
        let mut sums: BTreeMap<Series, Numbers> = none.collect();
        for stats in limits {
            let limit = self.limit(&stats.name);
            let own = limit != OTHER;
            let sum = sums.entry(Series { limit: limit.clone(), group: None }).or_default();
            sum.running += stats.running;
            sum.waiting += stats.waiting;
            sum.tokens = stats.tokens.filter(|_| own);
            if stats.groups.is_empty() {
                continue;
            }
            for group in &stats.groups {
                let label = self.group(&limit, &group.group);
                let tokens = group.tokens.filter(|_| label != OTHER);
                let series = Series { limit: limit.clone(), group: Some(label) };
                let sum = sums.entry(series).or_default();
                sum.running += group.running;
                sum.waiting += group.waiting;
                sum.tokens = tokens;
            }
            let series = Series { limit, group: Some(OTHER.to_owned()) };
            let others = sums.entry(series).or_default();
            others.running += stats.other_running();
            others.waiting += stats.other_waiting();
        }
        for (series, Numbers { running, waiting, tokens }) in sums {
            set(&series, running as f64, waiting as f64, tokens.map(|tokens| tokens as f64));
            *self.shown.entry(series).or_default() |= tokens.is_some();
        }
    }

    /// Marks all values as unknown.
    pub(crate) fn unknown(&self) {
        for (series, tokens) in &self.shown {
            set(series, f64::NAN, f64::NAN, tokens.then_some(f64::NAN));
        }
    }

    /// The name under which a limit is published.
    fn limit(&mut self, name: &str) -> String {
        if self.limits.len() < LIMITS_MAX && !self.limits.contains_key(name) {
            self.limits.insert(name.to_owned(), BTreeSet::new());
        }
        let known = self.limits.contains_key(name);
        if known { name.to_owned() } else { OTHER.to_owned() }
    }

    /// The name under which a group is published.
    fn group(&mut self, limit: &str, group: &str) -> String {
        let Some(known) = self.limits.get_mut(limit) else { return OTHER.to_owned() };
        let has_room = known.len() < LIMIT_GROUPS_LISTED_MAX && self.labelled < GROUPS_LABELLED_MAX;
        if has_room && known.insert(group.to_owned()) {
            self.labelled += 1;
        }
        if known.contains(group) { group.to_owned() } else { OTHER.to_owned() }
    }
}

fn set(series: &Series, running: f64, waiting: f64, tokens: Option<f64>) {
    let mut labels = vec![Label::new("limit", series.limit.clone())];
    labels.extend(series.group.iter().map(|group| Label::new("group", group.clone())));
    let names = match series.group {
        None => [RUNNING, WAITING, TOKENS],
        Some(_) => [GROUP_RUNNING, GROUP_WAITING, GROUP_TOKENS],
    };
    gauge!(names[0], labels.clone()).set(running);
    gauge!(names[1], labels.clone()).set(waiting);
    if let Some(tokens) = tokens {
        gauge!(names[2], labels).set(tokens);
    }
}
