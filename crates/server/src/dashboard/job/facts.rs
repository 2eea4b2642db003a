//! Details of a job, as labelled values and table rows.

use crate::dashboard::error_preview::error_preview;
use crate::dashboard::format::{Clock, Time};
use crate::dashboard::links;
use windlass_core::model::{Attempt, AttemptEnd, Job, JobError, Running};
use windlass_core::policy::{Backoff, Unique, Until};
use windlass_core::time::{millis, rough_span};

/// A labelled value, optionally with a link.
pub(super) struct Fact {
    pub(super) label: &'static str,
    pub(super) value: String,
    pub(super) href: Option<String>,
}

/// An attempt, as a table row.
pub(super) struct AttemptRow {
    pub(super) number: u32,
    pub(super) worker: String,
    pub(super) end: &'static str,
    pub(super) tone: &'static str,
    pub(super) started: Time,
    pub(super) took: String,
    pub(super) error: Option<AttemptError>,
}

/// The error of an attempt.
pub(super) struct AttemptError {
    pub(super) preview: String,
    /// The whole message, if the preview shows only a part of it.
    pub(super) whole: String,
}

impl AttemptError {
    fn new(error: &JobError) -> Self {
        let preview = error_preview(error);
        let is_all = preview == error.to_string();
        Self { preview, whole: if is_all { String::new() } else { error.message.clone() } }
    }
}

/// Timestamps of a job, in order.
pub(super) fn times(job: &Job, clock: Clock) -> Vec<(&'static str, Time)> {
    let times = [
        ("created", Some(job.header.created_at)),
        ("due", (!job.state.is_terminal()).then_some(job.header.run_at)),
        ("started", job.started_at),
        ("lease ends", job.running.as_ref().map(|running| running.expires_at)),
        ("state since", Some(job.changed_at)),
        ("ended", job.finished_at),
    ];
    times.into_iter().filter_map(|(label, at)| Some((label, clock.ago(at?)))).collect()
}

/// Properties and counters of a job.
pub(super) fn facts(job: &Job) -> Vec<Fact> {
    let header = &job.header;
    let counters = header.counters;
    let plain = |label, value: String| Fact { label, value, href: None };
    let mut facts = vec![
        Fact {
            label: "queue",
            value: header.queue.to_string(),
            href: Some(links::queue(&header.queue)),
        },
        Fact {
            label: "kind",
            value: header.kind.to_string(),
            href: Some(links::jobs(Some(&header.queue), Some(&header.kind), None)),
        },
        plain("priority", header.priority.to_string()),
        plain("starts", counters.attempt.to_string()),
        plain("failures", format!("{} of {}", counters.failures, header.policy.max_attempts)),
        plain("crashes", format!("{}, {} allowed", counters.crashes, header.policy.max_crashes)),
        plain("transitions", job.transitions.to_string()),
    ];
    let optional = [
        ("worker", job.running.as_ref().map(worker)),
        ("tenant", header.tenant.clone()),
        ("ordering key", header.key.clone()),
        ("unique", header.unique.as_ref().map(unique)),
        ("tags", (!header.tags.is_empty()).then(|| header.tags.join(", "))),
        ("trace", header.trace.clone()),
    ];
    facts.extend(optional.into_iter().filter_map(|(label, value)| Some(plain(label, value?))));
    if let Some(parent) = header.parent {
        facts.push(Fact {
            label: "parent",
            value: parent.to_string(),
            href: Some(links::job(parent)),
        });
    }
    facts
}

fn worker(running: &Running) -> String {
    let host = running.host.as_ref().map(|host| format!(" on {host}")).unwrap_or_default();
    format!("{}{host}, attempt {}", running.worker, running.attempt)
}

fn unique(unique: &Unique) -> String {
    match unique.until {
        Until::Finished => format!("{:?} until it ends", unique.key),
        Until::Window(period) => format!("{:?} for {}", unique.key, rough_span(millis(period))),
        Until::Removed => format!("{:?} until it is removed", unique.key),
        other => format!("{:?} ({})", unique.key, other.as_str()),
    }
}

/// Policies of a job.
pub(super) fn policy(job: &Job) -> Vec<Fact> {
    let policy = &job.header.policy;
    let backoff = match policy.backoff {
        Backoff::Exponential { base_ms, cap_ms, jitter_ms } => {
            format!(
                "from {} doubling to {}, and up to {} more",
                rough_span(base_ms),
                rough_span(cap_ms),
                rough_span(jitter_ms)
            )
        }
        Backoff::Fixed { delay_ms, jitter_ms } => {
            format!("{}, and up to {} more", rough_span(delay_ms), rough_span(jitter_ms))
        }
        _ => "unknown".to_owned(),
    };
    let or_none = |ms: Option<u64>| ms.map_or_else(|| "none".to_owned(), rough_span);
    let kept = policy.retention.map_or_else(
        || "default of its queue".to_owned(),
        |kept| {
            format!("{} finished, {} dead", rough_span(kept.finished_ms), rough_span(kept.dead_ms))
        },
    );
    let rows = [
        ("backoff", backoff),
        ("time limit", or_none(policy.timeout_ms)),
        ("maximum wait", or_none(policy.max_wait_ms)),
        ("kept", kept),
    ];
    rows.into_iter().map(|(label, value)| Fact { label, value, href: None }).collect()
}

/// The table row for an attempt.
pub(super) fn attempt_row(attempt: &Attempt, clock: Clock) -> AttemptRow {
    let (end, tone) = match attempt.end {
        AttemptEnd::Complete => ("completed", "completed"),
        AttemptEnd::Retry => ("failed", "blocked"),
        AttemptEnd::Fail => ("failed permanently", "dead"),
        AttemptEnd::Snooze => ("snoozed", "scheduled"),
        AttemptEnd::Release => ("released", "cancelled"),
        AttemptEnd::Wait => ("waits", "blocked"),
        AttemptEnd::Cancel => ("cancelled", "cancelled"),
        AttemptEnd::Lost => ("worker lost", "dead"),
        _ => ("ended", "cancelled"),
    };
    AttemptRow {
        number: attempt.number,
        worker: attempt.worker.clone(),
        end,
        tone,
        started: clock.ago(attempt.started_at),
        took: rough_span(attempt.ended_at.since(attempt.started_at)),
        error: attempt.error.as_ref().map(AttemptError::new),
    }
}
