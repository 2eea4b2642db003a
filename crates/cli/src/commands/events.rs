//! `windlass events`: prints the events of a queue, and follows them.

use crate::output::{print, print_json};
use crate::store::{Common, block_on};
use crate::views;
use anyhow::Result;
use serde_json::json;
use std::process::ExitCode;
use windlass::EventItem;
use windlass_core::engine::{EventEntry, EventFields, EventsFrom};
use windlass_core::model::{Finish, State};

#[derive(Debug, clap::Args)]
pub(super) struct Args {
    #[command(flatten)]
    common: Common,
    /// Name of the queue. Its events must be on: `windlass queues set QUEUE --events on`
    queue: String,
    /// Wait for further events, until interrupted
    #[arg(long, short)]
    follow: bool,
    /// Where to begin: `oldest`, `latest`, or the cursor of an event
    #[arg(long, value_name = "CURSOR", default_value = "oldest")]
    since: String,
}

impl Args {
    pub(super) const fn common(&self) -> &Common {
        &self.common
    }

    pub(super) fn run(self) -> Result<ExitCode> {
        block_on(self.show())
    }

    async fn show(self) -> Result<ExitCode> {
        let client = self.common.open().await?;
        let query = client.events(&self.queue).from(EventsFrom::of(&self.since));
        let mut events = if self.follow { query } else { query.until_now() }.stream();
        let mut last = None;
        while let Some(item) = events.next().await {
            let json = self.common.json;
            match item? {
                EventItem::Event(entry) if json => print_json(&value(&entry))?,
                EventItem::Event(entry) => {
                    print(&line(&entry))?;
                    last = Some(entry.cursor);
                }
                EventItem::Gap if json => print_json(&json!({"gap": true}))?,
                EventItem::Gap => eprintln!("gap: events were dropped before they were read"),
                _ => {}
            }
        }
        match last {
            Some(cursor) => eprintln!("continue with --since {cursor}"),
            None if !self.common.json => eprintln!("no events"),
            None => {}
        }
        Ok(ExitCode::SUCCESS)
    }
}

fn state(state: Option<State>) -> &'static str {
    state.map_or("removed", State::as_str)
}

/// One line: time, job, kind, event, state, and what is special about it.
fn line(entry: &EventEntry) -> String {
    let EventFields { job, queue, kind, event, state: next, at, attempt, reason, error, .. } =
        entry.event.clone().into();
    let more = [
        (attempt > 0).then(|| format!("attempt {attempt}")),
        (event.name() == "move").then(|| format!("queue {queue}")),
        reason.as_ref().and_then(reason_of),
        error.map(|code| format!("error {code}")),
    ];
    let more: Vec<String> = more.into_iter().flatten().collect();
    let (at, event) = (views::instant(at), event.name());
    format!("{at} {job} {kind} {event} -> {} {}\n", state(next), more.join(", "))
}

/// The reason of an end, unless the state says it all.
fn reason_of(reason: &Finish) -> Option<String> {
    match reason {
        Finish::ReplacedBy(id) => Some(format!("replaced by {id}")),
        Finish::Dependency(id) => Some(format!("dependency {id}")),
        Finish::AttemptsSpent => Some("attempts spent".to_owned()),
        Finish::CrashesSpent => Some("crashes spent".to_owned()),
        _ => None,
    }
}

fn value(entry: &EventEntry) -> serde_json::Value {
    let EventFields { job, queue, kind, number, event, state: next, at, attempt, reason, error } =
        entry.event.clone().into();
    json!({
        "cursor": entry.cursor, "job": job.to_string(), "queue": queue, "kind": kind,
        "number": number, "event": event.name(), "state": state(next), "at": views::instant(at),
        "attempt": attempt, "reason": reason, "error": error,
    })
}
