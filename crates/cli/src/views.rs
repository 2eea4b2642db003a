//! The stable JSON of `--json`. Times are RFC 3339, durations are milliseconds.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::Serialize;
use serde_json::value::RawValue;
use std::collections::BTreeMap;
use windlass_core::engine::{Disposition, Enqueued, TopicCopy};
use windlass_core::model::{
    Attempt, AttemptEnd, Continuation, Finish, Job, JobError, Name, Part, Policy, Progress, State,
};
use windlass_core::policy::Unique;
use windlass_core::{JobId, Timestamp};

/// Formats a time.
pub(crate) fn instant(at: Timestamp) -> String {
    at.to_string()
}

/// A job.
#[derive(Serialize)]
pub(crate) struct JobView<'a> {
    id: String,
    queue: &'a str,
    kind: &'a str,
    state: State,
    priority: i32,
    attempt: u32,
    failures: u32,
    crashes: u32,
    created_at: String,
    run_at: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    started_at: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    running: Option<RunningView<'a>>,
    transitions: u32,
    changed_at: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    finished_at: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    finish: Option<&'a Finish>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    cancel_requested: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    tenant: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    key: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    group: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    cost: Option<u32>,
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    limits: &'a [Name],
    #[serde(skip_serializing_if = "Option::is_none")]
    unique: Option<&'a Unique>,
    #[serde(skip_serializing_if = "Option::is_none")]
    parent: Option<String>,
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    tags: &'a [String],
    #[serde(skip_serializing_if = "Option::is_none")]
    trace: Option<&'a str>,
    policy: &'a Policy,
    #[serde(skip_serializing_if = "Option::is_none")]
    progress: Option<&'a Progress>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<&'a JobError>,
    /// `payload`, `checkpoint`, `metadata` and `result`.
    #[serde(flatten)]
    parts: BTreeMap<String, PartView>,
    #[serde(skip_serializing_if = "Option::is_none")]
    blob_bytes: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    continuation: Option<&'a Continuation>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    history: Vec<AttemptView<'a>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    log: Vec<LineView<'a>>,
}

#[derive(Serialize)]
struct RunningView<'a> {
    worker: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    host: Option<&'a str>,
    attempt: u32,
    expires_at: String,
}

#[derive(Serialize)]
struct AttemptView<'a> {
    number: u32,
    worker: &'a str,
    started_at: String,
    ended_at: String,
    end: AttemptEnd,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<&'a JobError>,
}

#[derive(Serialize)]
struct LineView<'a> {
    at: String,
    text: &'a str,
}

/// The bytes of a part.
#[derive(Serialize)]
#[serde(untagged)]
enum PartView {
    Json(Box<RawValue>),
    Text(String),
}

impl PartView {
    /// A part with its key: JSON under `NAME`, other text under `NAME_text`, other bytes as base64 under
    /// `NAME_base64`. The key distinguishes them, because a JSON part may itself be a string.
    fn named(name: &str, part: &Part) -> (String, Self) {
        let Ok(text) = std::str::from_utf8(&part.bytes) else {
            return (format!("{name}_base64"), Self::Text(STANDARD.encode(&part.bytes)));
        };
        match serde_json::from_str::<Box<RawValue>>(text) {
            // The JSON is compacted if it contains line breaks: each result must be one line.
            Ok(json) if !json.get().contains(['\n', '\r']) => (name.to_owned(), Self::Json(json)),
            Ok(json) => match compact(&json) {
                Some(json) => (name.to_owned(), Self::Json(json)),
                None => (format!("{name}_text"), Self::Text(text.to_owned())),
            },
            Err(_) => (format!("{name}_text"), Self::Text(text.to_owned())),
        }
    }
}

fn compact(json: &RawValue) -> Option<Box<RawValue>> {
    let value: serde_json::Value = serde_json::from_str(json.get()).ok()?;
    serde_json::value::to_raw_value(&value).ok()
}

impl<'a> JobView<'a> {
    /// A view of all fields of `job`.
    pub(crate) fn of(job: &'a Job) -> Self {
        let header = &job.header;
        Self {
            id: header.id.to_string(),
            queue: &header.queue,
            kind: &header.kind,
            state: job.state,
            priority: header.priority,
            attempt: header.counters.attempt,
            failures: header.counters.failures,
            crashes: header.counters.crashes,
            created_at: instant(header.created_at),
            run_at: instant(header.run_at),
            started_at: job.started_at.map(instant),
            running: job.running.as_ref().map(|running| RunningView {
                worker: &running.worker,
                host: running.host.as_deref(),
                attempt: running.attempt,
                expires_at: instant(running.expires_at),
            }),
            transitions: job.transitions,
            changed_at: instant(job.changed_at),
            finished_at: job.finished_at.map(instant),
            finish: job.finish.as_ref(),
            cancel_requested: job.cancel_requested,
            tenant: header.tenant.as_deref(),
            key: header.key.as_deref(),
            group: header.group.as_deref(),
            cost: Some(header.cost).filter(|cost| *cost != 1),
            limits: &job.limits,
            unique: header.unique.as_ref(),
            parent: header.parent.map(|id| id.to_string()),
            tags: &header.tags,
            trace: header.trace.as_deref(),
            policy: &header.policy,
            progress: job.progress.as_ref(),
            error: job.error.as_ref(),
            parts: parts(job),
            blob_bytes: job.parts.blob.as_ref().map(|part| part.bytes.len()),
            continuation: job.continuation.as_deref(),
            history: job.history.iter().map(AttemptView::of).collect(),
            log: job
                .log
                .iter()
                .map(|line| LineView { at: instant(line.at), text: &line.text })
                .collect(),
        }
    }
}

fn parts(job: &Job) -> BTreeMap<String, PartView> {
    let parts = &job.parts;
    let named = [
        ("payload", &parts.payload),
        ("checkpoint", &parts.checkpoint),
        ("metadata", &parts.metadata),
        ("result", &job.result),
    ];
    let there = named.into_iter().filter_map(|(name, part)| Some((name, part.as_ref()?)));
    there.map(|(name, part)| PartView::named(name, part)).collect()
}

impl<'a> AttemptView<'a> {
    fn of(attempt: &'a Attempt) -> Self {
        Self {
            number: attempt.number,
            worker: &attempt.worker,
            started_at: instant(attempt.started_at),
            ended_at: instant(attempt.ended_at),
            end: attempt.end,
            error: attempt.error.as_ref(),
        }
    }
}

/// The result of an enqueue.
#[derive(Serialize)]
pub(crate) struct EnqueuedView {
    id: String,
    disposition: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    replaced: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    state: Option<State>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    copies: Vec<CopyView>,
}

/// The copy that a subscription of a topic got.
#[derive(Serialize)]
struct CopyView {
    subscription: Name,
    queue: Name,
    #[serde(flatten)]
    enqueued: EnqueuedView,
}

impl EnqueuedView {
    /// A view of the result of one job.
    pub(crate) fn of(enqueued: &Enqueued) -> Self {
        let copy = |it: &TopicCopy| CopyView {
            subscription: it.subscription.clone(),
            queue: it.queue.clone(),
            enqueued: Self::with(it.id, it.disposition, it.state),
        };
        let copies = enqueued.copies.iter().map(copy).collect();
        Self { copies, ..Self::with(enqueued.id, enqueued.disposition, enqueued.state) }
    }

    fn with(id: JobId, disposition: Disposition, state: Option<State>) -> Self {
        let (disposition, replaced) = match disposition {
            Disposition::Created => ("created", None),
            Disposition::Replaced(id) => ("replaced", Some(id.to_string())),
            Disposition::Existing => ("existing", None),
            Disposition::Throttled => ("throttled", None),
            Disposition::Published => ("published", None),
            _ => ("other", None),
        };
        Self { id: id.to_string(), disposition, replaced, state, copies: Vec::new() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_of_a_part_says_what_it_is() {
        let shown = |bytes: &'static [u8]| {
            let view = BTreeMap::from([PartView::named("payload", &Part::new(bytes))]);
            serde_json::to_string(&view).unwrap()
        };
        assert_eq!(shown(br#"{"a": 1}"#), r#"{"payload":{"a": 1}}"#);
        assert_eq!(shown(b"{\n\"a\":1}"), r#"{"payload":{"a":1}}"#);
        assert_eq!(shown(b"plain"), r#"{"payload_text":"plain"}"#);
        assert_eq!(shown(&[0xff]), r#"{"payload_base64":"/w=="}"#);
    }
}
