//! The payload of every job: about 200 bytes of JSON.

use serde::{Deserialize, Serialize};

/// The payload of a job. It contains the job's number, so that a handler can be matched with the call that
/// enqueued it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Payload {
    /// The job's number.
    pub n: u64,
    /// A recipient.
    pub to: String,
    /// A template name.
    pub template: String,
    /// Text to reach about 200 bytes.
    pub subject: String,
    /// A long value that compresses badly with the others.
    pub link: String,
}

impl Payload {
    /// The payload of job `n`.
    pub fn new(n: u64) -> Self {
        Self {
            n,
            to: "ada@example.org".into(),
            template: "welcome".into(),
            subject: "Welcome aboard, and what to do first".into(),
            link: "https://example.org/confirm?token=c0ffee00c0ffee00c0ffee00c0ffee00c0ffee00c0ffee00c0ffee00".into(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_payload_is_about_200_bytes_of_json() {
        let json = serde_json::to_string(&Payload::new(42)).unwrap();
        assert!((180..=220).contains(&json.len()), "{} bytes", json.len());
    }
}
