//! `windlass jobs show`: all details of one job.

use super::list::colour;
use crate::ids::{self, IdArg};
use crate::output::{Colour, ago, paint, print, print_json};
use crate::store::Common;
use crate::views::JobView;
use anyhow::Result;
use std::fmt::Write as _;
use std::process::ExitCode;
use windlass_core::engine::Get;
use windlass_core::model::{
    AttemptEnd, Continuation, Header, Job, Name, Part, PartName, PartSet, Progress, Running, Wake,
};
use windlass_core::time::rough_span;
use windlass_core::{Error, Timestamp};

/// Maximum number of characters of a part in the text output; `--json` prints all of it.
const PART_CHARS_MAX: usize = 4_000;

/// Shows a job.
pub(in crate::commands) async fn show(common: &Common, id: IdArg) -> Result<ExitCode> {
    let client = common.open().await?;
    let id = ids::one(&client, id).await?;
    let answer = client.engine().get(Get::new([id]).parts(PartSet::ALL)).await?;
    let job = answer.value.into_iter().next().flatten().ok_or(Error::NotFound { id })?;
    if common.json {
        print_json(&JobView::from(job))?;
    } else {
        print(&described(&job, answer.now)?)?;
    }
    Ok(ExitCode::SUCCESS)
}

fn described(job: &Job, now: Timestamp) -> Result<String> {
    let mut text = String::new();
    let parts =
        PartName::ALL.into_iter().map(|name| (name.as_str(), job.parts.get(name).map(part)));
    for (name, value) in facts(job, now).into_iter().chain(parts) {
        if let Some(value) = value {
            let name = format!("{name:<12}");
            writeln!(text, "{} {value}", paint(&name, Colour::Faint))?;
        }
    }
    events(job, now, &mut text)?;
    Ok(text)
}

/// The labelled values of a job; `None` for absent ones.
fn facts(job: &Job, now: Timestamp) -> Vec<(&'static str, Option<String>)> {
    let header = &job.header;
    let at = |at: Timestamp| format!("{at} ({})", ago(at, now));
    vec![
        ("id", Some(header.id.to_string())),
        ("kind", Some(header.kind.to_string())),
        ("queue", Some(header.queue.to_string())),
        ("state", Some(paint(job.state.as_str(), colour(job.state)))),
        ("priority", Some(header.priority.to_string())),
        ("tries", Some(tries(header))),
        ("created", Some(at(header.created_at))),
        ("due", (!job.state.is_terminal()).then(|| at(header.run_at))),
        ("started", job.started_at.map(at)),
        ("worker", job.running.as_ref().map(|running| worker(running, now))),
        ("ended", job.finished_at.map(at)),
        ("changed", Some(format!("{}, {} transitions", at(job.changed_at), job.transitions))),
        ("timeout", header.policy.timeout_ms.map(rough_span)),
        ("tenant", header.tenant.clone()),
        ("key", header.key.clone()),
        ("group", header.group.clone()),
        ("cost", Some(header.cost).filter(|cost| *cost != 1).map(|cost| cost.to_string())),
        ("limits", (!job.limits.is_empty()).then(|| job.limits.join(", "))),
        ("unique", header.unique.as_ref().map(|unique| unique.key.clone())),
        ("parent", header.parent.map(|id| id.to_string())),
        ("tags", (!header.tags.is_empty()).then(|| header.tags.join(", "))),
        ("trace", header.trace.clone()),
        ("progress", job.progress.as_ref().map(progress)),
        (
            "cancel",
            job.cancel_requested.then(|| "requested; the worker has been notified".to_owned()),
        ),
        ("signals", job.continuation.as_deref().and_then(signals)),
        ("error", job.error.as_ref().map(ToString::to_string)),
        ("result", job.result.as_ref().map(part)),
    ]
}

fn worker(running: &Running, now: Timestamp) -> String {
    let host = running.host.as_ref().map(|host| format!(" on {host}")).unwrap_or_default();
    let left = match running.expires_at.since(now) {
        0 => "its lease has expired".to_owned(),
        left => format!("its lease expires in {}", rough_span(left)),
    };
    format!("{}{host}, attempt {}; {left}", running.worker, running.attempt)
}

/// The signals that a job waits for, that it has kept, and that woke it last.
fn signals(kept: &Continuation) -> Option<String> {
    let listed =
        |names: &[Name]| if names.is_empty() { "any".to_owned() } else { names.join(", ") };
    let mut said = Vec::new();
    said.extend(kept.wait.as_ref().map(|wait| format!("waits for {}", listed(&wait.signals))));
    if !kept.inbox.is_empty() {
        let names: Vec<Name> = kept.inbox.iter().map(|signal| signal.name.clone()).collect();
        said.push(format!("kept {}", listed(&names)));
    }
    said.extend(kept.wake.as_ref().map(|wake| match wake {
        Wake::Signal(signal) => format!("woken by {}", signal.name),
        _ => "the time of its last wait ran out".to_owned(),
    }));
    (!said.is_empty()).then(|| said.join("; "))
}

fn tries(header: &Header) -> String {
    let (counters, policy) = (header.counters, &header.policy);
    let (failed, crashed) = (counters.failures, counters.crashes);
    let (failures_max, crashes_max) = (policy.max_attempts, policy.max_crashes);
    let started = counters.attempt;
    format!(
        "{started} started, {failed} of {failures_max} failed, {crashed} of {crashes_max} crashed"
    )
}

fn events(job: &Job, now: Timestamp, text: &mut String) -> Result<()> {
    if !job.history.is_empty() {
        writeln!(text, "\n{}", paint("attempts", Colour::Strong))?;
    }
    for attempt in &job.history {
        let took = rough_span(attempt.ended_at.since(attempt.started_at));
        let (number, end, worker) = (attempt.number, end(attempt.end), &attempt.worker);
        let ended = ago(attempt.ended_at, now);
        writeln!(text, "  {number:>3}  {end:<8}  {ended}, after {took}, by {worker}")?;
        for line in attempt.error.iter().flat_map(|error| error.message.lines()) {
            writeln!(text, "       {}", paint(line, Colour::Bad))?;
        }
    }
    if !job.log.is_empty() {
        writeln!(text, "\n{}", paint("log", Colour::Strong))?;
    }
    for line in &job.log {
        writeln!(text, "  {}  {}", line.at, line.text)?;
    }
    Ok(())
}

fn end(end: AttemptEnd) -> String {
    serde_json::to_value(end)
        .ok()
        .and_then(|value| value.as_str().map(str::to_owned))
        .unwrap_or_default()
}

fn progress(progress: &Progress) -> String {
    let total = progress.total.map(|total| format!(" of {total}")).unwrap_or_default();
    format!("{}{total} {}", progress.done, progress.note)
}

fn part(part: &Part) -> String {
    let Ok(text) = std::str::from_utf8(&part.bytes) else {
        return format!("{} bytes (binary; see --json)", part.bytes.len());
    };
    match text.char_indices().nth(PART_CHARS_MAX) {
        Some((end, _)) => format!("{}… ({} bytes; see --json)", &text[..end], text.len()),
        None => text.trim_end().to_owned(),
    }
}
