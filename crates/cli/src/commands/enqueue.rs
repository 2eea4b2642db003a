//! `windlass enqueue`: one job from the command line, or many from lines of JSON.

use crate::job_args::{self, JobArgs};
use crate::output::{print, print_json};
use crate::store::{Common, block_on};
use crate::values;
use crate::views::EnqueuedView;
use anyhow::{Context as _, Result, bail};
use std::process::ExitCode;
use windlass_core::engine::{Disposition, Enqueue};
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
  make-jobs | windlass enqueue send_email --ndjson - --per-second 50")]
pub(super) struct Args {
    #[command(flatten)]
    common: Common,
    /// What sort of work it is; with --ndjson, for lines that name none
    #[arg(required_unless_present = "ndjson")]
    kind: Option<String>,
    /// The payload as JSON; `-` reads it from stdin, `@FILE` from a file
    #[arg(value_name = "JSON|-|@FILE", conflicts_with = "ndjson", allow_hyphen_values = true)]
    payload: Option<String>,
    /// Take the payload as bytes, JSON or not
    #[arg(long, requires = "payload")]
    raw: bool,
    /// The job's id (a UUIDv7): enqueued twice, it is stored once
    #[arg(long, value_name = "UUID", conflicts_with = "ndjson")]
    id: Option<JobId>,
    /// To run this long from now
    #[arg(long, short, value_name = "TIME", value_parser = values::duration_ms)]
    delay: Option<u64>,
    /// To run at this instant, as in 2030-01-31T09:00:00Z
    #[arg(long, value_name = "TIME", value_parser = values::instant, conflicts_with = "delay")]
    at: Option<Timestamp>,
    #[command(flatten)]
    job: JobArgs,
    /// Enqueue one job for each line of JSON in FILE (`-`: stdin). Lines take what these options say,
    /// unless they say otherwise
    #[arg(long, value_name = "FILE")]
    ndjson: Option<String>,
    /// Pass over so many lines first, to go on where an earlier run ended
    #[arg(long, value_name = "LINES", requires = "ndjson", default_value_t = 0)]
    skip: u64,
    /// Spread the jobs of the lines over time: at most so many per second fall due
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
            match &self.ndjson {
                Some(file) => bulk::run(&self, file).await,
                None => self.run_one().await,
            }
        })
    }

    async fn run_one(&self) -> Result<ExitCode> {
        let kind = self.kind.as_deref().context("name the kind of the job")?;
        let mut job = self.template(kind);
        if let Some(text) = &self.payload {
            job = job.payload(job_args::payload(text, self.raw)?);
        }
        job.id = self.id;
        let client = self.common.open_or_create().await?;
        let answers = client.engine().enqueue(Enqueue::each([job])).await?.value;
        let Some(answer) = answers.into_iter().next() else { bail!("the store gave no answer") };
        let enqueued = answer?;
        if self.common.json {
            print_json(&EnqueuedView::of(&enqueued))?;
        } else {
            print(&format!("{}\n", enqueued.id))?;
            if let Some(note) = note(enqueued.disposition) {
                eprintln!("{note}");
            }
        }
        Ok(ExitCode::SUCCESS)
    }

    /// A job of `kind` with everything the options say.
    fn template(&self, kind: &str) -> NewJob {
        let due = match (self.delay, self.at) {
            (Some(ms), _) => Due::After(ms),
            (None, Some(at)) => Due::At(at),
            (None, None) => Due::Now,
        };
        self.job.job(kind).due(due)
    }
}

/// What somebody who only sees an id should know.
fn note(disposition: Disposition) -> Option<String> {
    match disposition {
        Disposition::Existing => Some("it was there already; nothing new is stored".to_owned()),
        Disposition::Replaced(id) => Some(format!("it took the place of job {id}")),
        Disposition::Throttled => {
            Some("one of its kind was taken in this window; dropped".to_owned())
        }
        _ => None,
    }
}
