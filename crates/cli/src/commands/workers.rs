//! `windlass workers`: lists workers with an open session.

use crate::output::{Cell, Colour, Table, ago, note, print, print_json};
use crate::store::{Common, block_on};
use anyhow::Result;
use std::process::ExitCode;
use windlass_core::time::rough_span;

#[derive(Debug, clap::Args)]
pub(super) struct Args {
    #[command(flatten)]
    common: Common,
}

impl Args {
    pub(super) const fn common(&self) -> &Common {
        &self.common
    }

    pub(super) fn run(self) -> Result<ExitCode> {
        block_on(list(&self.common))
    }
}

async fn list(common: &Common) -> Result<ExitCode> {
    let client = common.open().await?;
    let answer = client.engine().sessions().await?;
    let (now, sessions) = (answer.now, answer.value);
    if common.json {
        print_json(&windlass_wire::Workers::from(sessions))?;
        return Ok(ExitCode::SUCCESS);
    }
    if sessions.is_empty() {
        note("no workers");
        return Ok(ExitCode::SUCCESS);
    }
    let mut table =
        Table::new(["WORKER", "HOST", "RUNNING", "OF", "QUEUES", "VERSION", "SINCE", "ALIVE FOR"]);
    for session in &sessions {
        let left = match session.expires_at.since(now) {
            0 => Cell::text("lost").colour(Colour::Bad),
            left => Cell::text(rough_span(left)),
        };
        let since = Cell::text(ago(session.opened_at, now));
        let info = &session.info;
        let text = |text: &Option<String>| Cell::text(text.as_deref().unwrap_or("-"));
        let of = info.concurrency.map_or_else(|| "-".to_owned(), |slots| slots.to_string());
        let queues = if info.queues.is_empty() { "-".to_owned() } else { info.queues.join(",") };
        table.row([
            Cell::text(&session.worker),
            text(&info.host),
            Cell::count(session.running),
            Cell::text(of),
            Cell::text(queues),
            text(&info.version),
            since,
            left,
        ]);
    }
    print(&table.to_string())?;
    Ok(ExitCode::SUCCESS)
}
