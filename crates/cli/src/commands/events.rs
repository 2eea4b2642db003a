//! `windlass events`: prints the events of a queue, and follows them.

use crate::output::{note, print, print_json};
use crate::store::{Common, block_on};
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
    /// Cursor of the event after which to begin; also `oldest` or `latest`
    #[arg(long, value_name = "CURSOR", default_value = "oldest")]
    after: String,
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
        let query = client.events(&self.queue).from(EventsFrom::of(&self.after));
        let mut events = if self.follow { query } else { query.until_now() }.stream();
        let mut last = None;
        while let Some(item) = events.next().await {
            let json = self.common.json;
            match item? {
                EventItem::Event(entry) if json => print_json(&windlass_wire::Event::from(entry))?,
                EventItem::Event(entry) => {
                    print(&line(&entry))?;
                    last = Some(entry.cursor);
                }
                EventItem::Gap if json => print_json(&json!({"gap": true}))?,
                EventItem::Gap => note("gap: events were dropped before they were read"),
                _ => {}
            }
        }
        match last {
            Some(cursor) => note(&format!("continue with --after {cursor}")),
            None if !self.common.json => note("no events"),
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
    let (at, event) = (at, event.name());
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
