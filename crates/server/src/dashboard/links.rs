//! URLs of pages. Names may contain `/` and `@`, and are encoded as a single path segment.

use std::fmt::Write as _;
use windlass_core::JobId;

/// Encodes a name as one path segment or one query value.
fn step(name: &str) -> String {
    let mut text = String::with_capacity(name.len());
    for byte in name.bytes() {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'_' | b'~' => text.push(byte as char),
            // Dots are encoded too: `.` and `..` have a meaning in paths.
            _ => {
                let _ = write!(text, "%{byte:02X}");
            }
        }
    }
    text
}

pub(super) fn queue(queue: &str) -> String {
    format!("/queues/{}", step(queue))
}

pub(super) fn kind(kind: &str) -> String {
    format!("/kinds/{}", step(kind))
}

/// The limit with its rules and jobs, as JSON.
pub(super) fn limit(limit: &str) -> String {
    format!("{}/{}", windlass_wire::routes::LIMITS, step(limit))
}

pub(super) fn job(id: JobId) -> String {
    format!("/jobs/{id}")
}

pub(super) fn bulk(id: &str) -> String {
    format!("/bulk/{}", step(id))
}

/// Adds the parameters that have a value to a path.
pub(super) fn with(path: &str, params: &[(&str, Option<&str>)]) -> String {
    let mut text = path.to_owned();
    for (name, value) in params {
        if let Some(value) = value {
            text.push(if text.contains('?') { '&' } else { '?' });
            // The names of fields are free text. A dot has no meaning in a query, and is easier to read.
            let name = step(name).replace("%2E", ".");
            let _ = write!(text, "{name}={}", step(value));
        }
    }
    text
}

/// The URL of a filtered list of jobs.
pub(super) fn jobs(queue: Option<&str>, kind: Option<&str>, state: Option<&str>) -> String {
    with("/jobs", &[("queue", queue), ("kind", kind), ("state", state)])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_of_any_text_is_one_step_and_one_value() {
        assert_eq!(queue("a/b"), "/queues/a%2Fb");
        assert_eq!(queue(".."), "/queues/%2E%2E");
        assert_eq!(jobs(Some("a&b"), None, Some("dead")), "/jobs?queue=a%26b&state=dead");
        assert_eq!(jobs(None, None, None), "/jobs");
        assert_eq!(with("/jobs", &[("payload.a&b", Some("1.5"))]), "/jobs?payload.a%26b=1%2E5");
    }
}
