//! Jobs handed over by the function `enqueue_many`, on a connection of the application's and by whatever
//! driver it uses. Only says in SQL what a job says; what cannot be said so is refused by name.

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

/// Hands jobs over in a transaction of the application, by the functions of a schema.
///
/// It needs no engine and no right but to call them. The jobs are there when the transaction commits, and
/// never were if it does not; either all of a call are taken or none. With the feature `sqlx` there is a
/// method of that name, with `diesel-async` there is `diesel`; with any other driver, run
/// [`statement`](Self::statement) with one [`parameter`](Self::parameter).
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
    /// To this schema.
    pub fn new(schema: &str) -> Result<Self> {
        let schema = Schema::new(schema)?;
        let sql = "SELECT id::text AS id FROM {s}.enqueue_many($1::text::jsonb) AS id";
        Ok(Self { statement: schema.put_into(sql) })
    }

    /// The statement: one parameter of type `text`; a row for each job, in order, with its id as `text`:
    /// that of the job that is there already, if its unique key is held.
    pub fn statement(&self) -> &str {
        &self.statement
    }

    /// The parameter that stands for these jobs. A job that says what the functions cannot do is refused:
    /// the field is named, and `PostgresEngine::enqueue_in` can do it.
    pub fn parameter(jobs: &[NewJob]) -> Result<String> {
        within_range("jobs", jobs.len() as u64, 1..=ENQUEUE_BATCH_MAX as u64)?;
        let spoken =
            |(at, job)| said(job).map_err(|error| error.within(format_args!("jobs[{at}]")));
        let items: Vec<Value> = jobs.iter().enumerate().map(spoken).collect::<Result<_>>()?;
        Ok(Value::Array(items).to_string())
    }
}

/// A job as the functions take it.
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

/// Refuses what the functions cannot do.
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
        // Whatever jobs will be able to say one day.
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

/// As much of a job as this file knows how to say.
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

/// What the server said, in the words of the contract. The functions begin with a word for it, as not
/// every driver tells the code of an error.
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
