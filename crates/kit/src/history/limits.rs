//! Checks limits: never more jobs at a time, and never more starts per period, than their rules allow.

use super::checker::{Options, story};
use super::facts::{Action, Facts, Outcome};
use super::record::Wanted;
use super::verdict::{Kind, Verdict};
use std::collections::{BTreeMap, HashMap};
use windlass_core::engine::Lease;
use windlass_core::model::{Limit, Rate};
use windlass_core::{JobId, Timestamp};

/// A limit that jobs had to keep to.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct CheckedLimit {
    /// Its name, for the verdict.
    pub name: String,
    /// The limit.
    pub limit: Limit,
    /// The kind whose jobs run under it; `None`: all of them.
    pub kind: Option<String>,
}

impl CheckedLimit {
    /// A limit on all jobs.
    pub fn new(name: impl Into<String>, limit: Limit) -> Self {
        Self { name: name.into(), limit, kind: None }
    }

    /// Restricts it to the jobs of a kind.
    #[must_use]
    pub fn kind(mut self, kind: impl Into<String>) -> Self {
        self.kind = Some(kind.into());
        self
    }

    fn counts(&self, wanted: &Wanted) -> bool {
        self.kind.as_ref().is_none_or(|kind| *kind == wanted.kind)
    }
}

/// A period in which a job certainly ran: its lease had been returned before, and was accepted afterwards.
struct Run {
    from: u64,
    to: u64,
    id: JobId,
}

/// A start, by the store's clock.
#[derive(Clone, Copy, Debug)]
pub(super) struct Start {
    pub(super) at: Timestamp,
    pub(super) cost: u32,
    pub(super) id: JobId,
    pub(super) attempt: u32,
}

/// The observations of one group, or of all jobs.
#[derive(Default)]
pub(super) struct Group {
    runs: Vec<Run>,
    /// By time.
    pub(super) starts: Vec<Start>,
}

/// What was observed of a lease.
struct Seen {
    /// When it was known to be issued.
    issued: u64,
    /// Until when it was known to be valid; 0 if it was never accepted.
    valid: u64,
    start: Option<Start>,
}

/// The observations of the jobs under a limit, by the group in which it counts them.
pub(super) fn observed<'a>(
    checked: &CheckedLimit,
    facts: &Facts<'a>,
    options: &Options,
) -> BTreeMap<&'a str, Group> {
    let mut groups: BTreeMap<&str, Group> = BTreeMap::new();
    for (id, of_job) in &facts.jobs {
        let enqueued = of_job.iter().find_map(|fact| match fact.action {
            Action::Enqueue(wanted, _) => Some(wanted),
            _ => None,
        });
        let Some(wanted) = enqueued.filter(|wanted| checked.counts(wanted)) else { continue };
        let mut leases: HashMap<&Lease, Seen> = HashMap::new();
        let unseen = || Seen { issued: u64::MAX, valid: 0, start: None };
        for fact in of_job {
            match fact.action {
                Action::Start(start, _) => {
                    let seen = leases.entry(&start.lease).or_insert_with(unseen);
                    seen.issued = seen.issued.min(fact.span.to);
                    let (cost, id, attempt) = (wanted.cost, *id, start.attempt);
                    seen.start = start.started_at.map(|at| Start { at, cost, id, attempt });
                }
                Action::Report(report, Outcome::Applied(_)) => {
                    leases.entry(&report.lease).or_insert_with(unseen).valid = fact.span.from;
                }
                Action::Update(lease, Some(true)) => {
                    let seen = leases.entry(lease).or_insert_with(unseen);
                    seen.valid = seen.valid.max(fact.span.from);
                }
                _ => {}
            }
        }
        let group = groups.entry(checked.limit.counted_in(&wanted.group)).or_default();
        for Seen { issued, valid, start } in leases.into_values() {
            // A store that lost its last claims has lost their tokens with them.
            let forgotten = options.claims_forgotten && valid == 0;
            group.starts.extend(start.filter(|_| !forgotten));
            if issued < valid {
                group.runs.push(Run { from: issued, to: valid, id: *id });
            }
        }
    }
    groups.values_mut().for_each(|group| group.starts.sort_by_key(|start| start.at));
    groups
}

/// Checks that the jobs under a limit kept to it.
pub(super) fn check_limit(
    checked: &CheckedLimit,
    facts: &Facts<'_>,
    options: &Options,
    verdict: &mut Verdict,
) {
    for (name, group) in observed(checked, facts, options) {
        let rule = checked.limit.rule_for(name);
        let running = rule.max_running.and_then(|max| crowded(&group.runs, max));
        let rushed = rule.rate.and_then(|rate| rushed(&group.starts, rate));
        for (jobs, what) in running.into_iter().chain(rushed) {
            let what = || format!("limit {:?}, group {name:?}: {what}", checked.name);
            verdict.blame(Kind::LimitExceeded, &jobs, what, || story(facts, &jobs));
        }
    }
}

type Finding = (Vec<JobId>, String);

/// The first time at which more than `max` jobs certainly ran.
fn crowded(runs: &[Run], max: u32) -> Option<Finding> {
    let mut edges: Vec<(u64, bool, JobId)> = Vec::with_capacity(runs.len() * 2);
    for run in runs {
        edges.push((run.from, true, run.id));
        edges.push((run.to, false, run.id));
    }
    // Ends before starts: at equal times the order is unknown.
    edges.sort_unstable();
    let mut running: Vec<JobId> = Vec::new();
    for (at, starts, id) in edges {
        if !starts {
            running.retain(|other| *other != id);
            continue;
        }
        running.push(id);
        if running.len() > max as usize {
            return Some((
                running.clone(),
                format!("{} jobs ran at {at}, the limit is {max}", running.len()),
            ));
        }
    }
    None
}

/// The first start that a rate did not allow.
fn rushed(starts: &[Start], rate: Rate) -> Option<Finding> {
    for last in 0..starts.len() {
        let now = starts[last].at;
        let mut sum = 0;
        for (first, start) in starts[..=last].iter().enumerate().rev() {
            sum += u64::from(start.cost);
            let ms = now.since(start.at);
            let allowed = match rate {
                Rate::Bucket { amount, per_ms, burst } => {
                    u64::from(burst) + ms * u64::from(amount) / per_ms
                }
                Rate::Window { max, per_ms } if ms < per_ms => max.into(),
                _ => break,
            };
            if sum > allowed {
                let jobs = starts[first..=last].iter().map(|start| start.id).collect();
                return Some((
                    jobs,
                    format!("starts of cost {sum} within {ms} ms, allowed are {allowed}"),
                ));
            }
        }
    }
    None
}
