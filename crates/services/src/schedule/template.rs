//! The job of a schedule, as stored for repeated enqueueing. Independent of fire times.

use bytes::Bytes;
use serde::{Deserialize, Serialize};
use windlass_core::model::{Due, Envelope, NewJob, Part, Policy};
use windlass_core::policy::Unique;
use windlass_core::{Error, Result};

/// The job that a schedule enqueues.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Template {
    queue: String,
    kind: String,
    #[serde(default)]
    priority: i32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    tenant: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    key: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    unique: Option<Unique>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    tags: Vec<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    trace: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    payload: Option<StoredPart>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    metadata: Option<StoredPart>,
    #[serde(default)]
    policy: Policy,
}

/// Bytes with their envelope.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct StoredPart {
    bytes: StoredBytes,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    envelope: Option<Envelope>,
}

/// Text if the bytes are UTF-8, so that people can read the record; numbers otherwise.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
enum StoredBytes {
    Text(String),
    Binary(Vec<u8>),
}

impl StoredPart {
    fn of(part: &Part) -> Self {
        let bytes = match std::str::from_utf8(&part.bytes) {
            Ok(text) => StoredBytes::Text(text.to_owned()),
            Err(_) => StoredBytes::Binary(part.bytes.to_vec()),
        };
        Self { bytes, envelope: part.envelope().cloned() }
    }

    fn part(&self) -> Part {
        let bytes = match &self.bytes {
            StoredBytes::Text(text) => Bytes::from(text.clone()),
            StoredBytes::Binary(bytes) => Bytes::from(bytes.clone()),
        };
        Part::sealed(self.envelope.clone().unwrap_or_default(), bytes)
    }
}

impl Template {
    /// The template of jobs like this one. Fields that each fire sets itself are refused.
    pub(super) fn of(job: &NewJob) -> Result<Self> {
        refuse(job)?;
        Ok(Self {
            queue: job.queue.to_string(),
            kind: job.kind.to_string(),
            priority: job.priority,
            tenant: job.tenant.clone(),
            key: job.key.clone(),
            unique: job.unique.clone(),
            tags: job.tags.clone(),
            trace: job.trace.clone(),
            payload: job.parts.payload.as_ref().map(StoredPart::of),
            metadata: job.parts.metadata.as_ref().map(StoredPart::of),
            policy: job.policy.clone(),
        })
    }

    /// A job from this template, without an id.
    pub(super) fn job(&self) -> NewJob {
        let mut job = NewJob::new(self.kind.as_str()).queue(self.queue.as_str());
        job.priority = self.priority;
        job.tenant.clone_from(&self.tenant);
        job.key.clone_from(&self.key);
        job.unique.clone_from(&self.unique);
        job.tags.clone_from(&self.tags);
        job.trace.clone_from(&self.trace);
        job.parts.payload = self.payload.as_ref().map(StoredPart::part);
        job.parts.metadata = self.metadata.as_ref().map(StoredPart::part);
        job.policy = self.policy.clone();
        job
    }
}

/// Refuses fields that a schedule cannot have.
fn refuse(job: &NewJob) -> Result<()> {
    let of_due = "leave it out: the schedule says when";
    let of_id = "leave it out: each fire has an id of its own";
    let of_parent = "leave it out: a fire comes from its schedule";
    let of_checkpoint = "leave it out: a checkpoint belongs to one job";
    let of_blob = "leave it out: schedules are small; name its place in payload";
    match job.due {
        Due::Now => {}
        Due::At(at) => return Err(Error::invalid("job.run_at", at, of_due)),
        Due::After(ms) => return Err(Error::invalid("job.delay_ms", ms, of_due)),
    }
    let bytes = |part: &Option<Part>| Some(format!("{} bytes", part.as_ref()?.bytes.len()));
    let refused = [
        ("job.id", job.id.map(|id| id.to_string()), of_id),
        ("job.parent", job.parent.map(|id| id.to_string()), of_parent),
        ("job.checkpoint", bytes(&job.parts.checkpoint), of_checkpoint),
        ("job.blob", bytes(&job.parts.blob), of_blob),
    ];
    match refused.into_iter().find_map(|(field, set, way_out)| Some((field, set?, way_out))) {
        Some((field, value, way_out)) => Err(Error::invalid(field, value, way_out)),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use windlass_core::model::Codec;
    use windlass_core::policy::OnConflict;

    fn there_and_back(job: &NewJob) -> NewJob {
        let text = serde_json::to_string(&Template::of(job).unwrap()).unwrap();
        serde_json::from_str::<Template>(&text).unwrap().job()
    }

    #[test]
    fn everything_a_template_takes_comes_back() {
        let unique = Unique::by("report").on_conflict(OnConflict::Replace);
        let mut job = NewJob::new("report").queue("mail").priority(-3).tenant("t").key("k");
        job = job.unique(unique).tag("a").tag("b").json(r#"{"to":"ada"}"#).max_attempts(9);
        job.trace = Some("00-1-2-01".into());
        let envelope = Envelope::PLAIN.with_codec(Codec::Zstd);
        job.parts.metadata = Some(Part::sealed(envelope, vec![0xff, 0, 1]));
        assert_eq!(there_and_back(&job), job);
        assert_eq!(there_and_back(&NewJob::new("bare")), NewJob::new("bare"));
    }

    #[test]
    fn fields_set_by_the_fire_are_refused_by_name() {
        let field = |job: NewJob| Template::of(&job).unwrap_err().field().unwrap().to_owned();
        assert_eq!(field(NewJob::new("x").due(Due::After(5))), "job.delay_ms");
        let mut job = NewJob::new("x");
        job.parts.blob = Some(Part::new("b"));
        assert_eq!(field(job), "job.blob");
    }
}
