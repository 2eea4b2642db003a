//! Command-line options of a new job, shared by `enqueue` and `schedules add`.

use crate::values;
use anyhow::{Context as _, Result, bail};
use std::io::Read as _;
use windlass_core::limits::{PAYLOAD_BYTES_DEFAULT, PAYLOAD_BYTES_MAX};
use windlass_core::model::NewJob;
use windlass_core::policy::{Backoff, OnConflict, Retention, Unique, UniqueScope, Until};

/// Maximum number of bytes read from a file or stdin; the store has its own limit for payloads.
const READ_BYTES_MAX: u64 = PAYLOAD_BYTES_MAX as u64;

/// Options of a new job.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct JobArgs {
    /// Queue of the job [default: default]
    #[arg(long, short, value_name = "NAME")]
    queue: Option<String>,
    /// Priority; lower runs first [default: 0]
    #[arg(long, short, value_name = "N", allow_negative_numbers = true)]
    priority: Option<i32>,
    /// Unique key: while a job with this key has not ended, an enqueue returns that job instead
    #[arg(long, value_name = "KEY")]
    unique: Option<String>,
    /// Time for which the unique key is held, whatever the outcome of the job [default: until the job ends]
    #[arg(long, value_name = "TIME", value_parser = values::duration_ms, requires = "unique")]
    unique_for: Option<u64>,
    /// Jobs among which the key is unique [default: lane]
    #[arg(long, value_name = "SCOPE", requires = "unique")]
    unique_scope: Option<ScopeArg>,
    /// Event that frees the unique key [default: finished]
    #[arg(long, value_name = "EVENT", requires = "unique", conflicts_with = "unique_for")]
    unique_until: Option<UntilArg>,
    /// Replace the waiting job with the same unique key, instead of returning it
    #[arg(long, requires = "unique", conflicts_with = "unique_for")]
    replace: bool,
    /// Ordering key: jobs with the same key run one at a time, in the order of enqueueing
    #[arg(long, value_name = "KEY")]
    key: Option<String>,
    /// Tenant of the job
    #[arg(long, value_name = "NAME")]
    tenant: Option<String>,
    /// Group in which limits count the job [default: its tenant]
    #[arg(long, value_name = "NAME")]
    group: Option<String>,
    /// Tokens that the start of the job takes from the rates of its limits [default: 1]
    #[arg(long, value_name = "N")]
    cost: Option<u32>,
    /// Tag for searching; can be repeated
    #[arg(long, value_name = "TAG")]
    tag: Vec<String>,
    /// Trace context (W3C `traceparent`), passed to the handler
    #[arg(long, value_name = "TRACE")]
    trace: Option<String>,
    /// Number of failed attempts after which the job is dead
    #[arg(long, value_name = "N")]
    max_attempts: Option<u32>,
    /// Maximum number of lost leases; with more, the job is dead
    #[arg(long, value_name = "N")]
    max_crashes: Option<u32>,
    /// Fixed delay after each failure [default: 30 s, doubling up to 1 h, with jitter]
    #[arg(long, value_name = "TIME", value_parser = values::duration_ms)]
    backoff: Option<u64>,
    /// Timeout of an attempt; one that runs longer is stopped and fails
    #[arg(long, value_name = "TIME", value_parser = values::duration_ms)]
    timeout: Option<u64>,
    /// Maximum wait of the due job, after which it expires
    #[arg(long, value_name = "TIME", value_parser = values::duration_ms)]
    max_wait: Option<u64>,
    /// Retention after the job ends, whatever its outcome
    #[arg(long, value_name = "TIME", value_parser = values::duration_ms)]
    retention: Option<u64>,
}

impl JobArgs {
    /// A job of `kind` with these options.
    pub(crate) fn job(&self, kind: &str) -> NewJob {
        let mut job = NewJob::new(kind);
        if let Some(queue) = &self.queue {
            job.queue = queue.as_str().into();
        }
        job.priority = self.priority.unwrap_or(job.priority);
        job.unique = self.unique.as_ref().map(|key| self.unique(key));
        job.key.clone_from(&self.key);
        job.tenant.clone_from(&self.tenant);
        job.group.clone_from(&self.group);
        job.cost = self.cost.unwrap_or(job.cost);
        job.tags.clone_from(&self.tag);
        job.trace.clone_from(&self.trace);
        let policy = &mut job.policy;
        policy.max_attempts = self.max_attempts.unwrap_or(policy.max_attempts);
        policy.max_crashes = self.max_crashes.unwrap_or(policy.max_crashes);
        policy.backoff = self.backoff.map_or(policy.backoff, Backoff::exactly);
        policy.timeout_ms = self.timeout;
        policy.max_wait_ms = self.max_wait;
        policy.retention = self.retention.map(Retention::uniform_ms);
        job
    }

    fn unique(&self, key: &str) -> Unique {
        let until = match (self.unique_for, self.unique_until) {
            (Some(ms), _) => Until::window_ms(ms),
            (None, None | Some(UntilArg::Finished)) => Until::Finished,
            (None, Some(UntilArg::Removed)) => Until::Removed,
        };
        let scope = match self.unique_scope {
            None | Some(ScopeArg::Lane) => UniqueScope::Lane,
            Some(ScopeArg::Queue) => UniqueScope::Queue,
            Some(ScopeArg::Kind) => UniqueScope::Kind,
            Some(ScopeArg::Global) => UniqueScope::Global,
        };
        let on_conflict = if self.replace { OnConflict::Replace } else { OnConflict::Existing };
        Unique::by(key).scope(scope).until(until).on_conflict(on_conflict)
    }
}

/// The scope of a unique key.
#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum ScopeArg {
    /// Jobs of the same queue and kind.
    Lane,
    /// Jobs of the same queue.
    Queue,
    /// Jobs of the same kind, in all queues.
    Kind,
    /// All jobs of the store.
    Global,
}

/// The event that frees a unique key.
#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum UntilArg {
    /// The end of the job.
    Finished,
    /// The removal of the job, by its retention or a discard.
    Removed,
}

/// Reads the payload: the text itself, `-` for stdin, `@file` for a file. It must be JSON, unless `raw`.
pub(crate) fn payload(text: &str, raw: bool) -> Result<Vec<u8>> {
    let (bytes, place) = match text.strip_prefix('@') {
        Some(path) => {
            let file = std::fs::File::open(path)
                .with_context(|| format!("cannot read the payload from {path:?}"))?;
            (read(file)?, format!("the content of {path:?}"))
        }
        None if text == "-" => (read(std::io::stdin().lock())?, "the input".to_owned()),
        None => (text.as_bytes().to_vec(), format!("{text:?}")),
    };
    if !raw && let Err(error) = serde_json::from_slice::<serde::de::IgnoredAny>(&bytes) {
        bail!(
            "payload: {place} is not JSON: {error}; quote it for the shell, e.g. \
             '{{\"to\":\"ada\"}}', or send raw bytes with --raw"
        );
    }
    Ok(bytes)
}

fn read(from: impl std::io::Read) -> Result<Vec<u8>> {
    let mut bytes = Vec::with_capacity(PAYLOAD_BYTES_DEFAULT);
    from.take(READ_BYTES_MAX + 1).read_to_end(&mut bytes).context("cannot read the payload")?;
    if bytes.len() as u64 > READ_BYTES_MAX {
        bail!(
            "payload: it has more than {READ_BYTES_MAX} bytes; store the data elsewhere and enqueue \
             a reference to it"
        );
    }
    Ok(bytes)
}
