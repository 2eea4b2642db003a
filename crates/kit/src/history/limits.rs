//! Checks a limit by group: never more jobs at a time, and never more starts per period, than its rule allows.

use super::checker::story;
use super::facts::{Action, Facts, Outcome};
use super::verdict::{Kind, Verdict};
use std::collections::{BTreeMap, HashMap};
use windlass_core::engine::Lease;
use windlass_core::model::{Rate, Rule};
use windlass_core::{JobId, Timestamp};

/// A period in which a job certainly ran: its lease had been returned before, and was accepted afterwards.
struct Run {
    from: u64,
    to: u64,
    id: JobId,
}

/// A start, by the store's clock.
struct Start {
    at: Timestamp,
    cost: u64,
    id: JobId,
}

/// The observations of one group.
#[derive(Default)]
struct Group {
    runs: Vec<Run>,
    starts: Vec<Start>,
}

/// Checks that all jobs, by group, kept to this rule.
pub(super) fn check_limit(rule: Rule, facts: &Facts<'_>, verdict: &mut Verdict) {
    let mut groups: BTreeMap<&str, Group> = BTreeMap::new();
    for (id, of_job) in &facts.jobs {
        let enqueued = of_job.iter().find_map(|fact| match fact.action {
            Action::Enqueue(wanted, _) => Some(wanted),
            _ => None,
        });
        let Some(wanted) = enqueued else { continue };
        let group = groups.entry(&wanted.group).or_default();
        // By lease: when it was known to be issued, and until when it was known to be valid.
        let mut leases: HashMap<&Lease, (u64, u64)> = HashMap::new();
        for fact in of_job {
            match fact.action {
                Action::Start(start, _) => {
                    if !leases.contains_key(&start.lease)
                        && let Some(at) = start.started_at
                    {
                        group.starts.push(Start { at, cost: wanted.cost.into(), id: *id });
                    }
                    let known = leases.entry(&start.lease).or_insert((fact.span.to, 0));
                    known.0 = known.0.min(fact.span.to);
                }
                Action::Report(report, Outcome::Applied(_)) => {
                    leases.entry(&report.lease).or_insert((u64::MAX, 0)).1 = fact.span.from;
                }
                Action::Update(lease, Some(true)) => {
                    let known = leases.entry(lease).or_insert((u64::MAX, 0));
                    known.1 = known.1.max(fact.span.from);
                }
                _ => {}
            }
        }
        let certain = leases.into_values().filter(|(from, to)| from < to);
        group.runs.extend(certain.map(|(from, to)| Run { from, to, id: *id }));
    }
    for (name, group) in groups {
        let running = rule.max_running.and_then(|max| crowded(&group.runs, max));
        let rushed = rule.rate.and_then(|rate| rushed(group.starts, rate));
        for (jobs, what) in running.into_iter().chain(rushed) {
            let what = || format!("group {name:?}: {what}");
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
fn rushed(mut starts: Vec<Start>, rate: Rate) -> Option<Finding> {
    starts.sort_by_key(|start| start.at);
    for last in 0..starts.len() {
        let now = starts[last].at;
        let mut sum = 0;
        for (first, start) in starts[..=last].iter().enumerate().rev() {
            sum += start.cost;
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
