//! The job every queue is given: about 200 bytes of JSON.

use serde::{Deserialize, Serialize};

/// A job's payload. It knows its number, so that a handler can be matched with the call that enqueued it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Payload {
    /// The job's number.
    pub n: u64,
    /// Somebody.
    pub to: String,
    /// Something.
    pub template: String,
    /// The rest of the 200 bytes.
    pub subject: String,
    /// Long and unlike the others.
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
