//! Enqueueing through the SQL function `enqueue_many`, on the application's connection and with any driver.

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
use windlass_core::model::{Due, NewJob, PartName, Policy};
use windlass_core::policy::{Unique, UniqueFields, Until};
use windlass_core::time::millis;
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

    /// The parameter for these jobs. Parts with an envelope are refused; [`Transactional`](crate::Transactional)
    /// supports them.
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
    if *job != known_part(job) {
        let expected = "the SQL functions do not support a field of it: use Transactional";
        return Err(Error::invalid("job", "set", expected));
    }
    let NewJob { id, queue, kind, priority, due, tenant, key, unique, parent, tags, trace, .. } =
        job;
    let NewJob { group, cost, .. } = job;
    let mut item = Map::new();
    let mut put = |name: &str, value: Value| drop(item.insert(name.to_owned(), value));
    put("kind", json!(&**kind));
    put("queue", json!(&**queue));
    put("priority", json!(priority));
    match due {
        Due::Now => {}
        Due::After(ms) => put("delay_ms", json!(ms)),
        Due::At(at) => put("run_at", json!(at.to_string())),
    }
    if *cost != 1 {
        put("cost", json!(cost));
    }
    let texts = [("tenant", tenant), ("trace", trace), ("key", key), ("job_group", group)];
    for (name, text) in texts {
        text.iter().for_each(|text| put(name, json!(text)));
    }
    for (name, id) in [("id", id), ("parent", parent)] {
        id.iter().for_each(|id| put(name, json!(id.to_string())));
    }
    if !tags.is_empty() {
        put("tags", json!(tags));
    }
    unique.iter().for_each(|unique| say_unique(unique, &mut put));
    for name in PartName::ALL {
        let Some(part) = job.parts.get(name) else { continue };
        if part.envelope().is_some() {
            let expected = "the SQL functions store plain bytes: use Transactional for an envelope";
            return Err(Error::invalid(
                format!("parts.{}.envelope", name.as_str()),
                "set",
                expected,
            ));
        }
        put(&format!("{}_base64", name.as_str()), json!(STANDARD.encode(&part.bytes)));
    }
    say_policy(&job.policy, &mut put);
    Ok(Value::Object(item))
}

/// The fields of a job that are said here: fields added in the future are refused until they are.
fn known_part(job: &NewJob) -> NewJob {
    let mut known = NewJob::new(job.kind.clone()).queue(job.queue.clone());
    known = known.priority(job.priority).due(job.due);
    (known.id, known.parent) = (job.id, job.parent);
    (known.tenant, known.trace) = (job.tenant.clone(), job.trace.clone());
    (known.key, known.unique) = (job.key.clone(), job.unique.clone());
    (known.group, known.cost) = (job.group.clone(), job.cost);
    (known.tags, known.parts) = (job.tags.clone(), job.parts.clone());
    let (known_policy, policy) = (&mut known.policy, &job.policy);
    known_policy.max_attempts = policy.max_attempts;
    known_policy.max_crashes = policy.max_crashes;
    known_policy.backoff = policy.backoff;
    known_policy.timeout_ms = policy.timeout_ms;
    known_policy.max_wait_ms = policy.max_wait_ms;
    known_policy.retention = policy.retention;
    known
}

fn say_unique(unique: &Unique, put: &mut impl FnMut(&str, Value)) {
    let UniqueFields { key, scope, until, on_conflict } = unique.clone().into();
    put("unique_key", json!(key));
    put("unique_scope", json!(scope));
    match until {
        Until::Finished | Until::Removed => put("unique_until", json!(until)),
        Until::Window(period) => put("unique_window_ms", json!(millis(period))),
        // The function refuses a value that it does not know.
        _ => put("unique_until", json!(until)),
    }
    put("on_conflict", json!(on_conflict));
}

fn say_policy(policy: &Policy, put: &mut impl FnMut(&str, Value)) {
    put("max_attempts", json!(policy.max_attempts));
    put("max_crashes", json!(policy.max_crashes));
    put("backoff", json!(policy.backoff));
    let times = [("timeout_ms", policy.timeout_ms), ("max_wait_ms", policy.max_wait_ms)];
    for (name, ms) in times {
        ms.into_iter().for_each(|ms| put(name, json!(ms)));
    }
    policy.retention.iter().for_each(|retention| put("retention", json!(retention)));
}

/// The ids that the server returned.
#[cfg(any(feature = "sqlx", feature = "diesel-async"))]
fn ids(texts: impl Iterator<Item = String>) -> Result<Vec<JobId>> {
    texts.map(|id| id.parse()).collect()
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
