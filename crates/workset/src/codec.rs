//! Text formats of rows that several stores share: JSON for the fields that few jobs have.
//!
//! Stores share the formats of [`Spec`], [`Tail`], parts, states and lease tokens. They do not share the format of
//! the numbers of a job (times, counters, flags). PostgreSQL keeps each number in a column of its own, because its
//! statements compare and change them. The local store packs them into one value, because its statements never
//! search by them and SQLite pays for every value that is bound and read.

use serde::{Deserialize, Serialize};
use std::fmt;
use windlass_core::JobId;
use windlass_core::engine::Lease;
use windlass_core::model::{
    Attempt, Codec, Continuation, DependencyCounts, Envelope, Finish, Header, Input, InputFields,
    JobError, LogLine, Name, NewJob, OnFailure, Part, Policy, Progress, State,
};
use windlass_core::policy::Unique;
use windlass_executor::Entry;

/// The reason why a stored value cannot be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Damaged(String);

impl Damaged {
    /// A value that cannot be read for this reason.
    pub fn new(reason: &dyn fmt::Display) -> Self {
        Self(reason.to_string())
    }
}

impl fmt::Display for Damaged {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Damaged {}

/// A value, or the reason why it cannot be read.
pub type Decoded<T> = Result<T, Damaged>;

/// The rarely used fields of a job's definition, which never changes.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Spec {
    /// The tenant.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tenant: Option<String>,
    /// The ordering key.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    /// The group.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub group: Option<String>,
    /// The cost, unless it is 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cost: Option<u32>,
    /// The unique key.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unique: Option<Unique>,
    /// The job that this one follows.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parent: Option<JobId>,
    /// The flow.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub flow: Option<Name>,
    /// The tags.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub tags: Vec<String>,
    /// The trace context.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub trace: Option<String>,
    /// The policy.
    #[serde(skip_serializing_if = "is_default")]
    pub policy: Policy,
}

impl Spec {
    /// The group in which limits count the job, as [`Header::limit_group`].
    pub fn limit_group(&self) -> &str {
        self.group.as_deref().or(self.tenant.as_deref()).unwrap_or_default()
    }

    /// The definition of a job that is not stored yet.
    pub fn of_new(job: &NewJob) -> Self {
        Self {
            tenant: job.tenant.clone(),
            key: job.key.clone(),
            group: job.group.clone(),
            cost: Some(job.cost).filter(|cost| *cost != 1),
            unique: job.unique.clone(),
            parent: job.parent,
            flow: job.flow.clone(),
            tags: job.tags.clone(),
            trace: job.trace.clone(),
            policy: job.policy.clone(),
        }
    }

    /// The definition of a job.
    pub fn of(header: &Header) -> Self {
        Self {
            tenant: header.tenant.clone(),
            key: header.key.clone(),
            group: header.group.clone(),
            cost: Some(header.cost).filter(|cost| *cost != 1),
            unique: header.unique.clone(),
            parent: header.parent,
            flow: header.flow.clone(),
            tags: header.tags.clone(),
            trace: header.trace.clone(),
            policy: header.policy.clone(),
        }
    }
}

fn is_default(policy: &Policy) -> bool {
    *policy == Policy::default()
}

/// By reference, as serde passes it.
const fn has_none(counts: &DependencyCounts) -> bool {
    counts.total == 0 && counts.readers == 0
}

/// The rarely used fields of a job's life: outcome, history, progress.
#[derive(Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Tail {
    /// The reason of the end.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub finish: Option<Finish>,
    /// The latest error.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<JobError>,
    /// The latest progress.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub progress: Option<Progress>,
    /// The log.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub log: Vec<LogLine>,
    /// The ended attempts. A store may keep the latest one elsewhere.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub past: Vec<(Lease, Attempt)>,
    /// The error of the latest ended attempt, if the store keeps that attempt elsewhere.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub attempt_error: Option<JobError>,
    /// The result.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub result: Option<StoredPart>,
    /// The policy, if a replay has changed it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub policy: Option<Policy>,
    /// The limits that the job waits for, or that let it become ready.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub limits: Vec<Name>,
    /// Its dependencies, counted.
    #[serde(skip_serializing_if = "has_none")]
    pub dependencies: DependencyCounts,
    /// Signals.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub continuation: Option<Box<Continuation>>,
}

impl Tail {
    /// The tail of a job with its whole history; `policy_changed`: a replay has changed the policy.
    pub fn of(entry: &Entry, policy_changed: bool) -> Self {
        let job = &entry.job;
        Self {
            finish: job.finish.clone(),
            error: job.error.clone(),
            progress: job.progress.clone(),
            log: job.log.clone(),
            past: entry.past.iter().cloned().collect(),
            attempt_error: None,
            result: job.result.as_ref().map(StoredPart::from),
            policy: policy_changed.then(|| job.header.policy.clone()),
            limits: job.limits.clone(),
            dependencies: job.dependencies,
            continuation: job.continuation.clone(),
        }
    }

    /// Writes the fields into a job.
    pub fn add_to(self, entry: &mut Entry) {
        let job = &mut entry.job;
        job.finish = self.finish;
        job.error = self.error;
        job.progress = self.progress;
        job.log = self.log;
        job.limits = self.limits;
        job.dependencies = self.dependencies;
        job.waits = self.continuation.as_ref().is_some_and(|kept| kept.wait.is_some());
        job.continuation = self.continuation;
        job.result = self.result.map(Part::from);
        if let Some(policy) = self.policy {
            job.header.policy = policy;
        }
        entry.past = self.past.into();
    }
}

/// A part inside JSON, for results, which are small.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
pub struct StoredPart {
    /// The bytes as text, if they are UTF-8, as most results are.
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

/// A dependency of a job as JSON. The job that it depends on is stored beside it.
#[derive(Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct StoredInput {
    #[serde(skip_serializing_if = "Option::is_none")]
    name: Option<String>,
    #[serde(skip_serializing_if = "is_fail")]
    on_failure: OnFailure,
    #[serde(skip_serializing_if = "Option::is_none")]
    outcome: Option<State>,
    #[serde(skip_serializing_if = "Option::is_none")]
    result: Option<StoredPart>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    omitted: bool,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    kept: bool,
}

/// By reference, as serde passes it.
fn is_fail(policy: &OnFailure) -> bool {
    *policy == OnFailure::Fail
}

impl StoredInput {
    /// The text of a dependency; `None` for one that has no name, is open, and fails the job.
    pub fn text(input: &Input) -> Decoded<Option<String>> {
        let InputFields { job: _, name, on_failure, outcome, result, omitted, kept } =
            input.clone().into();
        let result = result.as_ref().map(StoredPart::from);
        to_text(&Self { name, on_failure, outcome, result, omitted, kept })
    }

    /// The dependency on `job` with this text.
    pub fn read(job: JobId, text: Option<&str>) -> Decoded<Input> {
        let Self { name, on_failure, outcome, result, omitted, kept } = from_text(text)?;
        let result = result.map(Part::from);
        Ok(InputFields { job, name, on_failure, outcome, result, omitted, kept }.into())
    }
}

/// A value as JSON; `None` for the default value.
pub fn to_text<T: Serialize + Default + PartialEq>(value: &T) -> Decoded<Option<String>> {
    if *value == T::default() {
        return Ok(None);
    }
    json(value).map(Some)
}

/// A value as JSON.
pub fn json<T: Serialize>(value: &T) -> Decoded<String> {
    serde_json::to_string(value).map_err(|error| Damaged(error.to_string()))
}

/// The value of a JSON text; the default value for `None`.
pub fn from_text<T: for<'a> Deserialize<'a> + Default>(text: Option<&str>) -> Decoded<T> {
    text.map_or_else(
        || Ok(T::default()),
        |text| serde_json::from_str(text).map_err(|error| Damaged(error.to_string())),
    )
}

/// The envelope of a part as JSON; `None` for a plain part.
pub fn envelope_text(part: &Part) -> Decoded<Option<String>> {
    part.envelope().map(json).transpose()
}

/// The part of these bytes and this envelope.
pub fn part(bytes: Vec<u8>, envelope: Option<&str>) -> Decoded<Part> {
    Ok(match envelope {
        Some(_) => Part::sealed(from_text(envelope)?, bytes),
        None => Part::new(bytes),
    })
}

/// Stands for a part that was not loaded. No request can contain it, because its codec has a name that requests
/// are refused for.
pub fn not_loaded() -> Part {
    let codec = Codec::Other("\0not loaded".to_owned());
    Part::sealed(Envelope::PLAIN.with_codec(codec), Vec::new())
}

/// The state with this number: its index in [`State::ALL`].
pub fn state(code: i64) -> Decoded<State> {
    let known = usize::try_from(code).ok().and_then(|code| State::ALL.get(code));
    known.copied().ok_or_else(|| Damaged(format!("no state has the number {code}")))
}

/// The bits of a lease token that is 32 lower-case hexadecimal digits, as all generated ones are.
pub fn token_bits(text: &str) -> Option<u128> {
    let (high, low) = <&[u8; 32]>::try_from(text.as_bytes()).ok()?.split_at(16);
    Some(u128::from(hex(high)?) << 64 | u128::from(hex(low)?))
}

/// The value of 16 digits, which fit a machine word.
fn hex(digits: &[u8]) -> Option<u64> {
    let lower = |byte: &u8| byte.is_ascii_digit() || matches!(byte, b'a'..=b'f');
    // The low bits of a letter count from one.
    let value = |byte: &u8| u64::from((byte & 0x0F) + 9 * (byte >> 6));
    let valid = digits.iter().all(lower);
    valid.then(|| digits.iter().fold(0, |bits, byte| bits << 4 | value(byte)))
}

/// The lease token with these bits.
pub fn token_of(bits: u128) -> String {
    format!("{bits:032x}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use windlass_core::random::Seeded;

    #[test]
    fn generated_tokens_are_packed_and_others_are_not() {
        let ours = Lease::random(&Seeded::new(3));
        assert_eq!(token_bits(ours.as_str()).map(token_of).as_deref(), Some(ours.as_str()));
        for other in [
            "",
            "x",
            "0123456789ABCDEF0123456789ABCDEF",
            "01234567-89ab-cdef-0123-456789abcdef",
            "+123456789abcdef0123456789abcdef",
        ] {
            assert_eq!(token_bits(other), None, "{other}");
        }
    }

    #[test]
    fn results_of_any_bytes_are_read_back() {
        for bytes in [&b"{\"a\":1}"[..], b"\0\xff\xfe", b""] {
            let part = Part::new(bytes.to_vec());
            let text = json(&StoredPart::from(&part)).unwrap();
            assert_eq!(Part::from(serde_json::from_str::<StoredPart>(&text).unwrap()), part);
        }
    }

    #[test]
    fn default_values_take_no_text_and_unknown_states_are_refused() {
        assert_eq!(to_text(&Spec::default()), Ok(None));
        let spec = Spec { key: Some("k".into()), ..Spec::default() };
        let text = to_text(&spec).unwrap();
        assert_eq!(text.as_deref(), Some("{\"key\":\"k\"}"));
        assert_eq!(from_text(text.as_deref()), Ok(spec));
        assert!(from_text::<Spec>(Some("{")).is_err());
        for known in State::ALL {
            assert_eq!(state(known as i64), Ok(known));
        }
        assert!(state(-1).is_err() && state(State::ALL.len() as i64).is_err());
    }
}
