//! `windlass enqueue`: enqueues one job from the command line, or many from lines of JSON.

use crate::job_args::{self, JobArgs};
use crate::output::{self, print, print_json};
use crate::store::{Common, block_on};
use crate::values;
use anyhow::{Context as _, Result, bail};
use std::process::ExitCode;
use windlass_core::engine::{Disposition, Enqueue, Enqueued, TopicCopy};
use windlass_core::limits::PACE_PER_SECOND_MAX;
use windlass_core::model::{Due, NewJob};
use windlass_core::{JobId, Timestamp};

mod bulk;
mod line;

#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  windlass enqueue send_email '{\"to\":\"ada@example.org\"}' --queue mail
  windlass enqueue resize @image.json --delay 10m --unique image:42
  windlass enqueue --ndjson jobs.ndjson        each line: {\"kind\":\"…\",\"payload\":{…}}
  make-jobs | windlass enqueue send_email --ndjson - --per-second 50
  windlass enqueue --flow @flow.yaml           or JSON: {\"nodes\":{\"a\":{\"kind\":\"…\"},\"b\":{\"kind\":\"…\",\"after\":[\"a\"]}}}")]
pub(super) struct Args {
    #[command(flatten)]
    common: Common,
    /// Kind of the job; with --ndjson, the default kind of lines without one
    #[arg(required_unless_present_any = ["ndjson", "flow"])]
    kind: Option<String>,
    /// Payload as JSON; `-` reads it from stdin, `@FILE` from a file
    #[arg(value_name = "JSON|-|@FILE", conflicts_with = "ndjson", allow_negative_numbers = true)]
    payload: Option<String>,
    /// Send the payload as raw bytes, without checking that it is JSON
    #[arg(long, requires = "payload")]
    raw: bool,
    /// Id of the job (a UUIDv7); a second enqueue with the same id stores nothing [default: a new id]
    #[arg(long, value_name = "UUID", conflicts_with = "ndjson")]
    id: Option<JobId>,
    /// Delay until the job becomes due, e.g. 10m
    #[arg(long, short, value_name = "TIME", value_parser = values::duration_ms)]
    delay: Option<u64>,
    /// Time at which the job becomes due, e.g. 2030-01-31T09:00:00Z [default: now]
    #[arg(long, value_name = "TIME", value_parser = values::instant, conflicts_with = "delay")]
    at: Option<Timestamp>,
    #[command(flatten)]
    job: JobArgs,
    /// File with one job per line, as in POST /v1/jobs (`-`: stdin). The other options are the defaults for all lines
    #[arg(long, value_name = "FILE")]
    ndjson: Option<String>,
    /// Graph of jobs as JSON or YAML, stored all or nothing; `-` reads it from stdin, `@FILE` from a file
    #[arg(long, value_name = "FLOW|-|@FILE", conflicts_with_all = ["kind", "ndjson", "id", "delay", "at"])]
    flow: Option<String>,
    /// Number of lines to skip, to resume an earlier run
    #[arg(long, value_name = "LINES", requires = "ndjson", default_value_t = 0)]
    skip: u64,
    /// Maximum number of jobs that become due per second; spreads the jobs over time
    #[arg(long, value_name = "N", requires = "ndjson",
          value_parser = clap::value_parser!(u64).range(1..=PACE_PER_SECOND_MAX))]
    per_second: Option<u64>,
}

impl Args {
    pub(super) const fn common(&self) -> &Common {
        &self.common
    }

    pub(super) fn run(self) -> Result<ExitCode> {
        block_on(async {
            match (&self.flow, &self.ndjson) {
                (Some(graph), _) => super::flows::add(&self.common, graph).await,
                (None, Some(file)) => bulk::run(&self, file).await,
                (None, None) => self.run_one().await,
            }
        })
    }

    async fn run_one(&self) -> Result<ExitCode> {
        let kind = self.kind.as_deref().context("the kind of the job is missing")?;
        let mut job = self.template(kind);
        if let Some(text) = &self.payload {
            job = job.payload(job_args::payload(text, self.raw)?);
        }
        job.id = self.id;
        let client = self.common.open_or_create().await?;
        let answers = client.engine().enqueue(Enqueue::each([job])).await?.value;
        let Some(answer) = answers.into_iter().next() else {
            bail!("the store returned no result")
        };
        let enqueued = answer?;
        if self.common.json {
            print_json(&windlass_wire::Enqueued::from(enqueued))?;
        } else {
            print(&format!("{}\n", enqueued.id))?;
            if let Some(text) = note(&enqueued) {
                output::note(&text);
            }
        }
        Ok(ExitCode::SUCCESS)
    }

    /// A job of `kind` with all options applied.
    fn template(&self, kind: &str) -> NewJob {
        let due = match (self.delay, self.at) {
            (Some(ms), _) => Due::After(ms),
            (None, Some(at)) => Due::At(at),
            (None, None) => Due::Now,
        };
        self.job.job(kind).due(due)
    }
}

/// A note for the user if the printed id is not simply that of a new job.
fn note(enqueued: &Enqueued) -> Option<String> {
    match enqueued.disposition {
        Disposition::Existing => Some("the job exists already; nothing was stored".to_owned()),
        Disposition::Replaced(id) => Some(format!("replaced job {id}")),
        Disposition::Throttled => Some(
            "throttled: a job with this unique key was enqueued within its window; dropped"
                .to_owned(),
        ),
        Disposition::Published if enqueued.copies.is_empty() => Some(
            "the queue is a topic, and no subscription wants the job; nothing was stored"
                .to_owned(),
        ),
        Disposition::Published => {
            let copy =
                |it: &TopicCopy| format!("{} (queue {}): {}", it.subscription, it.queue, it.id);
            let copies: Vec<String> = enqueued.copies.iter().map(copy).collect();
            Some(format!("published to {}", copies.join(", ")))
        }
        _ => None,
    }
}
