//! Column encodings of a job: numbers for states and flags, JSON for fields that few jobs have.

use crate::conn::error::corrupt;
use serde::{Deserialize, Serialize};
use uuid::Uuid;
use windlass_core::engine::Lease;
use windlass_core::model::{
    Attempt, Codec, Envelope, Finish, Header, JobError, LogLine, NewJob, Part, Policy, Progress,
    State,
};
use windlass_core::policy::Unique;
use windlass_core::{JobId, Result};
use windlass_executor::Entry;

/// Fields of a definition that few jobs have (`job.spec`).
#[derive(Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Spec {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) tenant: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) key: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) unique: Option<Unique>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) parent: Option<JobId>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) tags: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) trace: Option<String>,
    #[serde(skip_serializing_if = "is_default")]
    pub(crate) policy: Policy,
}

impl Spec {
    /// The fields of a new job.
    pub(crate) fn of_new(job: &NewJob) -> Self {
        Self {
            tenant: job.tenant.clone(),
            key: job.key.clone(),
            unique: job.unique.clone(),
            parent: job.parent,
            tags: job.tags.clone(),
            trace: job.trace.clone(),
            policy: job.policy.clone(),
        }
    }

    /// The fields of a header.
    pub(crate) fn of(header: &Header) -> Self {
        Self {
            tenant: header.tenant.clone(),
            key: header.key.clone(),
            unique: header.unique.clone(),
            parent: header.parent,
            tags: header.tags.clone(),
            trace: header.trace.clone(),
            policy: header.policy.clone(),
        }
    }
}

fn is_default(policy: &Policy) -> bool {
    *policy == Policy::default()
}

/// Fields of a job's life that few jobs have (`life.tail`).
#[derive(Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Tail {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) finish: Option<Finish>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) error: Option<JobError>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) progress: Option<Progress>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) log: Vec<LogLine>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) past: Vec<(Lease, Attempt)>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) result: Option<StoredPart>,
    /// The policy, if a replay has changed it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) policy: Option<Policy>,
}

impl Tail {
    /// The fields of a job. `policy_changed`: since it was enqueued.
    pub(crate) fn of(entry: &Entry, policy_changed: bool) -> Self {
        let job = &entry.job;
        Self {
            finish: job.finish.clone(),
            error: job.error.clone(),
            progress: job.progress.clone(),
            log: job.log.clone(),
            past: entry.past.iter().cloned().collect(),
            result: job.result.as_ref().map(StoredPart::from),
            policy: policy_changed.then(|| job.header.policy.clone()),
        }
    }

    /// Adds the fields to a job.
    pub(crate) fn add_to(self, entry: &mut Entry) {
        let job = &mut entry.job;
        job.finish = self.finish;
        job.error = self.error;
        job.progress = self.progress;
        job.log = self.log;
        job.result = self.result.map(Part::from);
        if let Some(policy) = self.policy {
            job.header.policy = policy;
        }
        entry.past = self.past.into();
    }
}

/// A part inside JSON, used for results, which are small.
#[derive(PartialEq, Serialize, Deserialize)]
pub(crate) struct StoredPart {
    /// As text if it is UTF-8, which most results are.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    text: Option<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    bytes: Vec<u8>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    envelope: Option<Envelope>,
}

impl From<&Part> for StoredPart {
    fn from(part: &Part) -> Self {
        let text = std::str::from_utf8(&part.bytes).ok().map(str::to_owned);
        let bytes = if text.is_some() { Vec::new() } else { part.bytes.to_vec() };
        Self { text, bytes, envelope: part.envelope().cloned() }
    }
}

impl From<StoredPart> for Part {
    fn from(stored: StoredPart) -> Self {
        let bytes = stored.text.map_or(stored.bytes, String::into_bytes);
        Self::sealed(stored.envelope.unwrap_or_default(), bytes)
    }
}

/// A value as JSON; `None` for the default.
pub(crate) fn to_text<T: Serialize + Default + PartialEq>(value: &T) -> Result<Option<String>> {
    if *value == T::default() {
        return Ok(None);
    }
    json(value).map(Some)
}

/// A value as JSON.
pub(crate) fn json<T: Serialize>(value: &T) -> Result<String> {
    serde_json::to_string(value).map_err(|error| corrupt(&error))
}

/// The value of a JSON text; the default for `None`.
pub(crate) fn from_text<T: for<'a> Deserialize<'a> + Default>(text: Option<&str>) -> Result<T> {
    text.map_or_else(
        || Ok(T::default()),
        |text| serde_json::from_str(text).map_err(|error| corrupt(&error)),
    )
}

pub(crate) fn envelope_text(part: &Part) -> Result<Option<String>> {
    part.envelope().map(json).transpose()
}

pub(crate) fn part(bytes: Vec<u8>, envelope: Option<&str>) -> Result<Part> {
    Ok(match envelope {
        Some(_) => Part::sealed(from_text(envelope)?, bytes),
        None => Part::new(bytes),
    })
}

/// Placeholder of a part that was not loaded. Requests cannot contain it: they are refused for its codec name.
pub(crate) fn not_loaded() -> Part {
    let codec = Codec::Other("\0not loaded".to_owned());
    Part::sealed(Envelope { codec, ..Envelope::PLAIN }, Vec::new())
}

pub(crate) fn state(code: i16) -> Result<State> {
    let known = usize::try_from(code).ok().and_then(|code| State::ALL.get(code));
    known.copied().ok_or_else(|| corrupt(&format_args!("no state has the number {code}")))
}

/// The token of a lease; `None` for a text that is not one of ours.
pub(crate) fn token(lease: &Lease) -> Option<Uuid> {
    let text = lease.as_str();
    let ours = text.len() == 32 && !text.bytes().any(|byte| byte.is_ascii_uppercase());
    Uuid::try_parse(text).ok().filter(|_| ours)
}

/// The lease with this token.
pub(crate) fn lease(token: Uuid) -> Lease {
    Lease::new(token.simple().to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use windlass_core::random::Seeded;

    #[test]
    fn leases_read_back_unchanged_and_other_texts_are_refused() {
        let ours = Lease::random(&Seeded::new(3));
        assert_eq!(token(&ours).map(lease), Some(ours));
        for other in
            ["", "x", "0123456789ABCDEF0123456789ABCDEF", "01234567-89ab-cdef-0123-456789abcdef"]
        {
            assert_eq!(token(&Lease::new(other)), None, "{other}");
        }
    }

    #[test]
    fn results_of_any_bytes_read_back() {
        for bytes in [&b"{\"a\":1}"[..], b"\0\xff\xfe", b""] {
            let part = Part::new(bytes.to_vec());
            let text = json(&StoredPart::from(&part)).unwrap();
            assert_eq!(Part::from(serde_json::from_str::<StoredPart>(&text).unwrap()), part);
        }
    }
}
