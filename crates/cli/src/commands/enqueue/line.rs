//! Parses one line of a bulk enqueue into a job.

use serde::Deserialize;
use serde_json::value::RawValue;
use windlass_core::model::{Due, NewJob};
use windlass_core::policy::Unique;
use windlass_core::{JobId, Timestamp};

/// The JSON object of one line. Unknown fields are an error: they would be lost silently.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Line<'a> {
    id: Option<JobId>,
    kind: Option<String>,
    queue: Option<String>,
    #[serde(borrow)]
    payload: Option<&'a RawValue>,
    priority: Option<i32>,
    delay_ms: Option<u64>,
    run_at: Option<String>,
    tenant: Option<String>,
    group: Option<String>,
    cost: Option<u32>,
    key: Option<String>,
    unique: Option<UniqueLine>,
    tags: Option<Vec<String>>,
    trace: Option<String>,
    max_attempts: Option<u32>,
    max_crashes: Option<u32>,
    timeout_ms: Option<u64>,
    max_wait_ms: Option<u64>,
}

/// A unique key alone, or the full uniqueness policy.
#[derive(Deserialize)]
#[serde(untagged)]
enum UniqueLine {
    Key(String),
    Full(Unique),
}

/// The job of one line; `template` holds the defaults from the command line.
pub(super) fn job(text: &str, template: &NewJob) -> Result<NewJob, String> {
    let line: Line<'_> = serde_json::from_str(text).map_err(|error| without_line(&error))?;
    let mut job = template.clone();
    job.due = due(&line)?.unwrap_or(job.due);
    job.id = line.id;
    if let Some(kind) = line.kind {
        job.kind = kind.into();
    }
    if job.kind.is_empty() {
        return Err("kind is missing; add \"kind\", or give a default kind before --ndjson".into());
    }
    if let Some(queue) = line.queue {
        job.queue = queue.into();
    }
    if let Some(payload) = line.payload {
        job = job.json(payload.get());
    }
    job.priority = line.priority.unwrap_or(job.priority);
    job.tenant = line.tenant.or(job.tenant);
    job.group = line.group.or(job.group);
    job.cost = line.cost.unwrap_or(job.cost);
    job.key = line.key.or(job.key);
    let unique = line.unique.map(|unique| match unique {
        UniqueLine::Key(key) => Unique::by(key),
        UniqueLine::Full(unique) => unique,
    });
    job.unique = unique.or(job.unique);
    job.tags = line.tags.unwrap_or(job.tags);
    job.trace = line.trace.or(job.trace);
    let policy = &mut job.policy;
    policy.max_attempts = line.max_attempts.unwrap_or(policy.max_attempts);
    policy.max_crashes = line.max_crashes.unwrap_or(policy.max_crashes);
    policy.timeout_ms = line.timeout_ms.or(policy.timeout_ms);
    policy.max_wait_ms = line.max_wait_ms.or(policy.max_wait_ms);
    Ok(job)
}

/// The parse error of a line, without serde's line number, which is always 1; the column stays.
fn without_line(error: &serde_json::Error) -> String {
    error.to_string().replace(" at line 1 column ", " at column ")
}

fn due(line: &Line<'_>) -> Result<Option<Due>, String> {
    match (line.delay_ms, &line.run_at) {
        (Some(_), Some(_)) => Err("delay_ms and run_at are both set; use one of them".into()),
        (Some(ms), None) => Ok(Some(Due::After(ms))),
        (None, Some(at)) => {
            let at: Timestamp =
                crate::values::instant(at).map_err(|error| format!("run_at: {error}"))?;
            Ok(Some(Due::At(at)))
        }
        (None, None) => Ok(None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_says_more_than_the_command_line() {
        let template = NewJob::new("mail").queue("slow").priority(5);
        let job =
            super::job(r#"{"payload":{"a":1},"queue":"fast","unique":"k"}"#, &template).unwrap();
        assert_eq!((&*job.kind, &*job.queue, job.priority), ("mail", "fast", 5));
        assert_eq!(job.unique, Some(Unique::by("k")));
        assert_eq!(job.parts.payload.unwrap().bytes, r#"{"a":1}"#);
    }

    #[test]
    fn unknown_fields_are_refused_by_name() {
        let refused = |text| super::job(text, &NewJob::new("")).unwrap_err();
        assert!(refused(r#"{"kind":"x","prioritty":1}"#).contains("prioritty"));
        assert!(refused("{}").contains("kind is missing"));
        assert!(refused(r#"{"kind":"x","delay_ms":1,"run_at":"x"}"#).contains("both"));
        assert!(refused(r#"{"kind":"x","run_at":"soon"}"#).contains("run_at"));
    }
}
