//! `windlass enqueue --ndjson`: enqueues jobs from lines of JSON in batches, with progress and a result for
//! every line.

use super::Args;
use super::line::Template;
use crate::exit;
use crate::output::{self, note, print};
use anyhow::{Context as _, Result};
use indicatif::{HumanCount, ProgressBar, ProgressStyle};
use serde_json::json;
use std::fmt::Write as _;
use std::fs::File;
use std::io::{BufRead, BufReader, Read as _};
use std::process::ExitCode;
use std::time::Duration;
use windlass::Client;
use windlass_core::engine::{Enqueue, Enqueued};
use windlass_core::model::NewJob;
use windlass_core::policy::{Pace, Pacer};

/// Maximum number of lines in one call to the store.
const BATCH_LINES_MAX: usize = 1_000;
/// Maximum total size of the lines in one call to the store, in bytes.
const BATCH_BYTES_MAX: usize = 4 * 1024 * 1024;
/// Maximum length of a line, in bytes.
const LINE_BYTES_MAX: u64 = 16 * 1024 * 1024;
/// How long refused lines are retried when a server is full. The time starts again whenever one of them is
/// accepted.
const FULL_PATIENCE: Duration = Duration::from_secs(300);
/// Number of refused lines that are printed; further ones are only counted.
const SHOWN_MAX: u64 = 20;

/// A line and the job parsed from it.
struct Entry {
    number: u64,
    job: Result<NewJob, String>,
}

/// Enqueues every line of `file`.
pub(super) async fn run(args: &Args, file: &str) -> Result<ExitCode> {
    let template = Template::of(args.template(args.kind.as_deref().unwrap_or_default()))?;
    let (mut lines, length) = open(file)?;
    let client = args.common.open_or_create().await?;
    let bar = bar(length);
    let mut tally = Tally { json: args.common.json, stored: 0, refused: 0 };
    let (mut number, mut first_open) = (0, args.skip + 1);
    let pace = args.per_second.map(Pace::per_second).transpose()?;
    let mut pacer = None;
    loop {
        let mut batch = gather(&mut lines, &template, &mut number, args.skip, &bar)?;
        let Some(last) = batch.last().map(|entry| entry.number) else { break };
        let done = || format!("lines up to {} are done; resume with --skip {0}", first_open - 1);
        if let Some(pace) = pace {
            spread(&client, pace, &mut pacer, &mut batch).await.with_context(done)?;
        }
        let answers = store(&client, batch).await.with_context(done)?;
        bar.suspend(|| tally.print(&answers))?;
        bar.set_message(format!("{} jobs", HumanCount(tally.stored)));
        first_open = last + 1;
    }
    bar.finish_and_clear();
    Ok(tally.end())
}

fn open(file: &str) -> Result<(Box<dyn BufRead>, Option<u64>)> {
    if file == "-" {
        return Ok((Box::new(BufReader::new(std::io::stdin())), None));
    }
    let opened = File::open(file).with_context(|| format!("cannot read --ndjson {file:?}"))?;
    let length = opened.metadata().ok().map(|it| it.len());
    Ok((Box::new(BufReader::new(opened)), length))
}

/// A progress bar of bytes read, shown if stderr is a terminal.
fn bar(length: Option<u64>) -> ProgressBar {
    let bar = output::progress_bar(length.unwrap_or_default());
    let template = match length {
        Some(_) => "{bar:30} {percent:>3} %  {msg}  {eta} left",
        None => "{spinner} {msg}  {elapsed}",
    };
    match ProgressStyle::with_template(template) {
        Ok(style) => bar.with_style(style),
        Err(_) => bar,
    }
}

/// Reads the lines of the next batch; returns none at the end of the file.
fn gather(
    lines: &mut impl BufRead,
    template: &Template,
    number: &mut u64,
    skip: u64,
    bar: &ProgressBar,
) -> Result<Vec<Entry>> {
    let (mut batch, mut bytes, mut line) = (Vec::new(), 0, Vec::new());
    while batch.len() < BATCH_LINES_MAX && bytes < BATCH_BYTES_MAX {
        line.clear();
        let failed = || format!("cannot read line {}", *number + 1);
        let read = lines
            .by_ref()
            .take(LINE_BYTES_MAX)
            .read_until(b'\n', &mut line)
            .with_context(failed)?;
        if read == 0 {
            break;
        }
        *number += 1;
        if read as u64 == LINE_BYTES_MAX && line.last() != Some(&b'\n') {
            anyhow::bail!(
                "line {number} has more than {LINE_BYTES_MAX} bytes; write one job per line"
            );
        }
        bar.inc(read as u64);
        if *number <= skip || line.trim_ascii().is_empty() {
            continue;
        }
        bytes += read;
        let text = std::str::from_utf8(&line).map_err(|error| error.to_string());
        let job = text.and_then(|text| template.job(text));
        batch.push(Entry { number: *number, job });
    }
    Ok(batch)
}

/// Sets the due times of a batch according to the pace, by the store's clock.
async fn spread(
    client: &Client,
    pace: Pace,
    pacer: &mut Option<Pacer>,
    batch: &mut [Entry],
) -> Result<()> {
    let now = client.engine().health().await?.now;
    let pacer = pacer.get_or_insert_with(|| Pacer::new(pace, now));
    pacer.go_on(now);
    for job in batch.iter_mut().filter_map(|entry| entry.job.as_mut().ok()) {
        job.due = pacer.due(job.due);
    }
    Ok(())
}

/// Stores the valid lines of a batch; returns a result per line. An error means that the outcome of no line is
/// known.
async fn store(client: &Client, batch: Vec<Entry>) -> Result<Vec<(u64, Result<Enqueued, String>)>> {
    let (mut jobs, mut places) = (Vec::new(), Vec::new());
    for Entry { number, job } in batch {
        match job {
            Ok(job) => {
                jobs.push(job);
                places.push((number, None));
            }
            Err(error) => places.push((number, Some(error))),
        }
    }
    let mut stored = Vec::new().into_iter();
    if !jobs.is_empty() {
        stored = enqueue_with_retries(client, jobs, FULL_PATIENCE).await?.into_iter();
    }
    let mut answer = |error: Option<String>| match error {
        Some(error) => Err(error),
        None => stored
            .next()
            .context("the store returned no result")
            .map_err(|error| error.to_string())
            .and_then(|item| item.map_err(|error| error.to_string())),
    };
    Ok(places.into_iter().map(|(number, error)| (number, answer(error))).collect())
}

/// Enqueues jobs, and retries those that are refused because the server is full, after the delay that it
/// advises, for at most `patience` without success.
async fn enqueue_with_retries(
    client: &Client,
    jobs: Vec<NewJob>,
    patience: Duration,
) -> Result<Vec<windlass_core::Result<Enqueued>>> {
    let mut answers = client.engine().enqueue(Enqueue::each(jobs.clone())).await?.value;
    let mut waited = Duration::ZERO;
    loop {
        let advice = |at: usize| answers[at].as_ref().err()?.retry_after_ms();
        let full: Vec<usize> = (0..answers.len()).filter(|at| advice(*at).is_some()).collect();
        let soonest = full.iter().filter_map(|at| advice(*at)).min();
        let pause = soonest.map(Duration::from_millis).filter(|pause| waited + *pause <= patience);
        let Some(pause) = pause else { return Ok(answers) };
        tokio::time::sleep(pause).await;
        waited += pause;
        let again = full.iter().map(|at| jobs[*at].clone());
        let again = match client.engine().enqueue(Enqueue::each(again)).await {
            Ok(reply) => reply.value,
            // The outcome of these lines is unknown; that of the others is known.
            Err(error) => vec![Err(error); full.len()],
        };
        for (at, answer) in full.into_iter().zip(again) {
            if answer.is_ok() {
                waited = Duration::ZERO;
            }
            answers[at] = answer;
        }
    }
}

/// Counts of stored and refused lines so far.
struct Tally {
    json: bool,
    stored: u64,
    refused: u64,
}

impl Tally {
    fn print(&mut self, answers: &[(u64, Result<Enqueued, String>)]) -> Result<()> {
        let mut out = String::new();
        for (number, answer) in answers {
            match answer {
                Ok(enqueued) => self.stored(&mut out, *number, enqueued)?,
                Err(error) => self.refused(&mut out, *number, error)?,
            }
        }
        print(&out)
    }

    fn stored(&mut self, out: &mut String, number: u64, enqueued: &Enqueued) -> Result<()> {
        self.stored += 1;
        if self.json {
            let mut view = serde_json::to_value(windlass_wire::Enqueued::from(enqueued.clone()))?;
            view["line"] = number.into();
            writeln!(out, "{view}")?;
        } else {
            writeln!(out, "{}", enqueued.id)?;
        }
        Ok(())
    }

    fn refused(&mut self, out: &mut String, number: u64, error: &str) -> Result<()> {
        self.refused += 1;
        if self.json {
            writeln!(out, "{}", json!({ "line": number, "error": error }))?;
        } else if self.refused <= SHOWN_MAX {
            eprintln!("line {number}: {error}");
        }
        Ok(())
    }

    fn end(&self) -> ExitCode {
        let (stored, refused) = (HumanCount(self.stored), HumanCount(self.refused));
        note(&format!("{stored} jobs enqueued, {refused} lines refused"));
        if self.refused == 0 { ExitCode::SUCCESS } else { exit::partly() }
    }
}
