//! What can be said about a new job on the command line, shared by `enqueue` and `schedules add`.

use crate::values;
use anyhow::{Context as _, Result, bail};
use std::io::Read as _;
use windlass_core::limits::PAYLOAD_BYTES_DEFAULT;
use windlass_core::model::NewJob;
use windlass_core::policy::{Backoff, OnConflict, Retention, Unique, Until};

/// A payload from a file or stdin is read up to here; the store says what it takes.
const READ_BYTES_MAX: u64 = 16 * 1024 * 1024;

/// How a job differs from the defaults.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct JobArgs {
    /// The queue
    #[arg(long, short, value_name = "NAME")]
    queue: Option<String>,
    /// The priority; lower runs first
    #[arg(long, short, value_name = "N", allow_negative_numbers = true)]
    priority: Option<i32>,
    /// At most one job with this key until it ends; the next one is answered with it
    #[arg(long, value_name = "KEY")]
    unique: Option<String>,
    /// Hold the unique key for this long instead, whatever becomes of the job
    #[arg(long, value_name = "TIME", value_parser = values::duration_ms, requires = "unique")]
    unique_for: Option<u64>,
    /// Replace the job that waits under the unique key, instead of being answered with it
    #[arg(long, requires = "unique", conflicts_with = "unique_for")]
    replace: bool,
    /// One job per key at a time, in order of entry
    #[arg(long, value_name = "KEY")]
    key: Option<String>,
    /// Whose work it is
    #[arg(long, value_name = "NAME")]
    tenant: Option<String>,
    /// A label for people; repeatable
    #[arg(long, value_name = "TAG")]
    tag: Vec<String>,
    /// Trace context (W3C `traceparent`), carried to the handler
    #[arg(long, value_name = "TRACE")]
    trace: Option<String>,
    /// Dead after this many failed attempts
    #[arg(long, value_name = "N")]
    max_attempts: Option<u32>,
    /// Dead when more leases than this were lost
    #[arg(long, value_name = "N")]
    max_crashes: Option<u32>,
    /// Wait exactly this long after each failure [default: 30 s, doubling up to 1 h, with jitter]
    #[arg(long, value_name = "TIME", value_parser = values::duration_ms)]
    backoff: Option<u64>,
    /// Stopped, and failed, when it runs longer than this
    #[arg(long, value_name = "TIME", value_parser = values::duration_ms)]
    timeout: Option<u64>,
    /// Expired when it has been due this long without starting
    #[arg(long, value_name = "TIME", value_parser = values::duration_ms)]
    max_wait: Option<u64>,
    /// Kept this long after its end, however it ends
    #[arg(long, value_name = "TIME", value_parser = values::duration_ms)]
    retention: Option<u64>,
}

impl JobArgs {
    /// A job of `kind` like this.
    pub(crate) fn job(&self, kind: &str) -> NewJob {
        let mut job = NewJob::new(kind);
        if let Some(queue) = &self.queue {
            job.queue = queue.as_str().into();
        }
        job.priority = self.priority.unwrap_or(job.priority);
        job.unique = self.unique.as_ref().map(|key| self.unique(key));
        job.key.clone_from(&self.key);
        job.tenant.clone_from(&self.tenant);
        job.tags.clone_from(&self.tag);
        job.trace.clone_from(&self.trace);
        let policy = &mut job.policy;
        policy.max_attempts = self.max_attempts.unwrap_or(policy.max_attempts);
        policy.max_crashes = self.max_crashes.unwrap_or(policy.max_crashes);
        policy.backoff = self.backoff.map_or(policy.backoff, Backoff::exactly);
        policy.timeout_ms = self.timeout;
        policy.max_wait_ms = self.max_wait;
        policy.retention = self.retention.map(Retention::uniform);
        job
    }

    fn unique(&self, key: &str) -> Unique {
        let unique = Unique::by(key);
        match self.unique_for {
            Some(ms) => unique.until(Until::Window(ms)),
            None if self.replace => unique.on_conflict(OnConflict::Replace),
            None => unique,
        }
    }
}

/// The payload that was named: JSON as it stands, `-` for stdin, `@file` for a file. What comes from
/// stdin or a file is JSON too, unless `raw`.
pub(crate) fn payload(text: &str, raw: bool) -> Result<Vec<u8>> {
    let (bytes, place) = match text.strip_prefix('@') {
        Some(path) => {
            let file = std::fs::File::open(path)
                .with_context(|| format!("cannot read the payload from {path:?}"))?;
            (read(file)?, format!("the content of {path:?}"))
        }
        None if text == "-" => (read(std::io::stdin().lock())?, "what came on stdin".to_owned()),
        None => (text.as_bytes().to_vec(), format!("{text:?}")),
    };
    if !raw && let Err(error) = serde_json::from_slice::<serde::de::IgnoredAny>(&bytes) {
        bail!(
            "payload: {place} is not JSON: {error}; quote it for the shell, as in \
             '{{\"to\":\"ada\"}}', or send bytes as they are with --raw"
        );
    }
    Ok(bytes)
}

fn read(from: impl std::io::Read) -> Result<Vec<u8>> {
    let mut bytes = Vec::with_capacity(PAYLOAD_BYTES_DEFAULT);
    from.take(READ_BYTES_MAX + 1).read_to_end(&mut bytes).context("cannot read the payload")?;
    if bytes.len() as u64 > READ_BYTES_MAX {
        bail!(
            "payload: it has more than {READ_BYTES_MAX} bytes; keep the data elsewhere and enqueue \
             where it is"
        );
    }
    Ok(bytes)
}
