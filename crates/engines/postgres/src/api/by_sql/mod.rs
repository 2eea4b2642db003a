//! Enqueueing through the SQL function `enqueue_many`, on the application's connection and with any driver. Refuses
//! fields that the function does not support, by name.

#[cfg(feature = "diesel-async")]
mod diesel;
#[cfg(feature = "sqlx")]
mod sqlx;

use crate::api::schema::Schema;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value, json};
#[cfg(any(feature = "sqlx", feature = "diesel-async"))]
use windlass_core::JobId;
use windlass_core::limits::ENQUEUE_BATCH_MAX;
use windlass_core::model::{Due, NewJob, Policy};
use windlass_core::policy::{OnConflict, Unique, UniqueScope, Until};
use windlass_core::{Error, Result, within_range};

/// Enqueues jobs in the application's transaction, through the SQL functions of a schema.
/// It needs no engine, and no privilege except to execute them. The jobs exist if the transaction commits; a call
/// stores all of its jobs or none. The features `sqlx` and `diesel-async` add the methods `sqlx` and `diesel`; with any
/// other driver, run [`statement`](Self::statement) with one [`parameter`](Self::parameter).
///
/// ```
/// use windlass_core::model::NewJob;
/// use windlass_postgres::SqlEnqueue;
///
/// let enqueue = SqlEnqueue::new("windlass")?;
/// let job = NewJob::new("send_invoice").json(r#"{"order":42}"#);
/// assert_eq!(
///     enqueue.statement(),
///     r#"SELECT id::text AS id FROM "windlass".enqueue_many($1::text::jsonb) AS id"#
/// );
/// assert!(SqlEnqueue::parameter(&[job])?.contains("send_invoice"));
/// # Ok::<(), windlass_core::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct SqlEnqueue {
    statement: String,
}

impl SqlEnqueue {
    /// Enqueues to this schema.
    pub fn new(schema: &str) -> Result<Self> {
        let schema = Schema::new(schema)?;
        let sql = "SELECT id::text AS id FROM {s}.enqueue_many($1::text::jsonb) AS id";
        Ok(Self { statement: schema.render(sql) })
    }

    /// The statement. It takes one parameter of type `text` and returns a row per job, in order, with its id as `text`:
    /// the id of the existing job if the unique key is held.
    pub fn statement(&self) -> &str {
        &self.statement
    }

    /// The parameter for these jobs. A field that the functions do not support is an error that names it;
    /// `PostgresEngine::enqueue_in` supports all fields.
    pub fn parameter(jobs: &[NewJob]) -> Result<String> {
        within_range("jobs", jobs.len() as u64, 1..=ENQUEUE_BATCH_MAX as u64)?;
        let spoken =
            |(at, job)| said(job).map_err(|error| error.within(format_args!("jobs[{at}]")));
        let items: Vec<Value> = jobs.iter().enumerate().map(spoken).collect::<Result<_>>()?;
        Ok(Value::Array(items).to_string())
    }
}

/// A job as the functions expect it.
fn said(job: &NewJob) -> Result<Value> {
    sayable(job)?;
    let mut item = Map::new();
    let mut put = |name: &str, value: Value| drop(item.insert(name.to_owned(), value));
    put("kind", json!(&*job.kind));
    put("queue", json!(&*job.queue));
    put("priority", json!(job.priority));
    put("max_attempts", json!(job.policy.max_attempts));
    match job.due {
        Due::Now => {}
        Due::After(ms) => put("delay_ms", json!(ms)),
        Due::At(at) => put("run_at", json!(at.to_string())),
    }
    if let Some(payload) = &job.parts.payload {
        put("payload_base64", json!(STANDARD.encode(&payload.bytes)));
    }
    let texts = [
        ("tenant", job.tenant.as_ref()),
        ("trace", job.trace.as_ref()),
        ("unique_key", job.unique.as_ref().map(|unique| &unique.key)),
    ];
    for (name, text) in texts {
        text.into_iter().for_each(|text| put(name, json!(text)));
    }
    job.policy.timeout_ms.into_iter().for_each(|ms| put("timeout_ms", json!(ms)));
    if !job.tags.is_empty() {
        put("tags", json!(job.tags));
    }
    Ok(Value::Object(item))
}

/// Refuses fields that the functions do not support.
fn sayable(job: &NewJob) -> Result<()> {
    let usual = Policy::default();
    let parts = &job.parts;
    let sealed = parts.payload.as_ref().is_some_and(|payload| payload.envelope().is_some());
    let unique = |is: fn(&Unique) -> bool| job.unique.as_ref().is_some_and(is);
    let beyond = [
        ("id", job.id.is_some()),
        ("key", job.key.is_some()),
        ("parent", job.parent.is_some()),
        ("unique.scope", unique(|it| it.scope != UniqueScope::Lane)),
        ("unique.until", unique(|it| it.until != Until::Finished)),
        ("unique.on_conflict", unique(|it| it.on_conflict != OnConflict::Existing)),
        ("parts.payload.envelope", sealed),
        ("parts.state", parts.state.is_some()),
        ("parts.blob", parts.blob.is_some()),
        ("parts.metadata", parts.metadata.is_some()),
        ("policy.backoff", job.policy.backoff != usual.backoff),
        ("policy.max_crashes", job.policy.max_crashes != usual.max_crashes),
        ("policy.max_wait_ms", job.policy.max_wait_ms.is_some()),
        ("policy.retention", job.policy.retention.is_some()),
        // Fields added in the future.
        ("job", *job != known_part(job)),
    ];
    match beyond.iter().find(|(_, is_set)| *is_set) {
        None => Ok(()),
        Some((field, _)) => {
            let expected = "the SQL functions cannot do that: leave it out, or hand the job over by \
                PostgresEngine::enqueue_in or enqueue";
            Err(Error::invalid(*field, "set", expected))
        }
    }
}

/// The fields of a job that are supported here.
fn known_part(job: &NewJob) -> NewJob {
    let mut known = NewJob::new(job.kind.clone()).queue(job.queue.clone());
    known = known.priority(job.priority).due(job.due);
    (known.tenant, known.trace) = (job.tenant.clone(), job.trace.clone());
    (known.unique, known.tags) = (job.unique.clone(), job.tags.clone());
    known.parts.payload = job.parts.payload.clone();
    known.policy.max_attempts = job.policy.max_attempts;
    known.policy.timeout_ms = job.policy.timeout_ms;
    known
}

/// The ids that the server returned.
#[cfg(any(feature = "sqlx", feature = "diesel-async"))]
fn ids(told: impl Iterator<Item = String>) -> Result<Vec<JobId>> {
    told.map(|id| id.parse()).collect()
}

/// Maps an error of the server. The messages of the functions begin with a fixed word, because not every driver returns
/// the SQLSTATE.
#[cfg(any(feature = "sqlx", feature = "diesel-async"))]
fn refusal(message: &str) -> Error {
    if let Some(reason) = message.strip_prefix("busy: ") {
        let reason = format!("{reason} (55P03), and this one must be rolled back");
        return Error::Busy { store: "postgres".into(), reason };
    }
    match message.strip_prefix("refused: ") {
        Some(reason) => Error::invalid("jobs", "refused by the server", reason.to_owned()),
        None => crate::conn::error::unavailable(message),
    }
}
