//! Parses one line of a bulk enqueue into a job. A line is a job of the HTTP API; the options of the command line are
//! defaults for the members that it does not have.

use serde_json::value::RawValue;
use std::collections::BTreeMap;
use windlass_core::model::NewJob;
use windlass_wire as wire;

/// Members that specify the same: one of them in the line replaces both of the template.
const DUE: [&str; 2] = ["delay_ms", "run_at"];

/// The defaults for all lines: members of a job, as JSON.
pub(super) struct Template(BTreeMap<String, Box<RawValue>>);

impl Template {
    /// The members of `job` that are not default; its kind may be empty.
    pub(super) fn of(job: NewJob) -> serde_json::Result<Self> {
        let text = serde_json::to_string(&wire::NewJob::from(job))?;
        let mut members: BTreeMap<String, Box<RawValue>> = serde_json::from_str(&text)?;
        members.retain(|name, value| name != "kind" || value.get() != "\"\"");
        Ok(Self(members))
    }

    /// The job of one line.
    pub(super) fn job(&self, text: &str) -> Result<NewJob, String> {
        let read = if self.0.is_empty() {
            wire::read::<wire::NewJob>(text.as_bytes())
        } else {
            let line: BTreeMap<String, &RawValue> =
                serde_json::from_str(text).map_err(|error| without_line(&error))?;
            let has_time = DUE.iter().any(|name| line.contains_key(*name));
            let is_kept = |name: &str| !(has_time && DUE.contains(&name));
            let template = self.0.iter().filter(|(name, _)| is_kept(name.as_str()));
            let mut members: BTreeMap<&str, &RawValue> =
                template.map(|(name, value)| (name.as_str(), &**value)).collect();
            members.extend(line.iter().map(|(name, value)| (name.as_str(), *value)));
            wire::read::<wire::NewJob>(&wire::write(&members))
        };
        let job = read.and_then(wire::NewJob::into_core);
        job.map_err(|error| match error.field() {
            Some("kind") if !text.contains("\"kind\"") => {
                "kind is missing; add \"kind\", or give a default kind before --ndjson".to_owned()
            }
            _ => error.to_string(),
        })
    }
}

/// The parse error of a line, without serde's line number, which is always 1; the column stays.
fn without_line(error: &serde_json::Error) -> String {
    error.to_string().replace(" at line 1 column ", " at column ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use windlass_core::Timestamp;
    use windlass_core::model::Due;
    use windlass_core::policy::{Backoff, Unique};

    fn job(text: &str, template: &NewJob) -> Result<NewJob, String> {
        Template::of(template.clone()).unwrap().job(text)
    }

    #[test]
    fn a_line_says_more_than_the_command_line() {
        let template = NewJob::new("mail").queue("slow").priority(5);
        let text = r#"{"payload":{"a": 1e400},"queue":"fast","unique":{"key":"k"}}"#;
        let job = job(text, &template).unwrap();
        assert_eq!((&*job.kind, &*job.queue, job.priority), ("mail", "fast", 5));
        assert_eq!(job.unique, Some(Unique::by("k")));
        assert_eq!(job.parts.payload.unwrap().bytes, r#"{"a": 1e400}"#);
    }

    #[test]
    fn a_line_is_a_job_of_the_api() {
        let text = r#"{"kind":"x","payload_base64":"/w==","backoff":{"fixed":{"delay_ms":7,"jitter_ms":0}},
            "run_at":"1970-01-01T00:00:01Z"}"#;
        for template in [NewJob::new(""), NewJob::new("y").due(Due::After(5))] {
            let job = job(text, &template).unwrap();
            assert_eq!((&*job.kind, job.due), ("x", Due::At(Timestamp::from_millis(1_000))));
            assert_eq!(job.policy.backoff, Backoff::exactly(7));
            assert_eq!(job.parts.payload.unwrap().bytes, [0xff].as_slice());
        }
    }

    #[test]
    fn unknown_fields_are_refused_by_name() {
        for template in [NewJob::new(""), NewJob::new("").queue("q")] {
            let refused = |text| job(text, &template).unwrap_err();
            assert!(refused(r#"{"kind":"x","prioritty":1}"#).contains("prioritty"));
            assert!(refused("{}").contains("kind is missing"));
            assert!(refused(r#"{"kind":"x","delay_ms":1,"run_at":5}"#).contains("not both"));
            assert!(refused(r#"{"kind":"x","run_at":"soon"}"#).contains("run_at"));
        }
    }
}
