//! `windlass history`: lists how many jobs were removed or expired, by queue and time.

use crate::output::{Cell, Table, print, print_json};
use crate::store::{Common, block_on};
use crate::values;
use crate::views;
use anyhow::Result;
use serde_json::json;
use std::process::ExitCode;
use windlass_core::Timestamp;
use windlass_core::limits::PAGE_MAX;
use windlass_core::model::State;
use windlass_services::{History, HistoryRow};

#[derive(Debug, clap::Args)]
pub(super) struct Args {
    #[command(flatten)]
    common: Common,
    /// Only rows of this queue
    #[arg(long, short, value_name = "NAME")]
    queue: Option<String>,
    /// Only rows from this time on, e.g. 2030-01-31T09:00:00Z
    #[arg(long, value_name = "TIME", value_parser = values::instant)]
    from: Option<Timestamp>,
    /// Maximum number of rows; the latest are kept
    #[arg(long, short, value_name = "N", default_value_t = 50)]
    limit: usize,
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
        let history = History::new(client.engine().clone());
        let mut place = Some(history.since(self.from.unwrap_or(Timestamp::EPOCH)).await?);
        let mut rows: Vec<HistoryRow> = Vec::new();
        while let Some(after) = place {
            let page = history.read(after, PAGE_MAX).await?;
            let passes = |row: &HistoryRow| self.queue.as_ref().is_none_or(|it| *it == row.queue);
            rows.extend(page.rows.into_iter().filter(passes));
            let surplus = rows.len().saturating_sub(self.limit);
            rows.drain(..surplus);
            place = page.next;
        }
        if self.common.json {
            print_json(&rows.iter().map(value).collect::<Vec<_>>())?;
        } else if rows.is_empty() {
            eprintln!("no jobs were removed or expired");
        } else {
            print(&table(&rows).to_string())?;
        }
        Ok(ExitCode::SUCCESS)
    }
}

fn became(row: &HistoryRow) -> &'static str {
    row.to.map_or("gone", State::as_str)
}

fn value(row: &HistoryRow) -> serde_json::Value {
    json!({
        "at": views::instant(row.at), "queue": row.queue, "from": row.from.as_str(),
        "to": became(row), "count": row.count,
    })
}

fn table(rows: &[HistoryRow]) -> Table {
    let mut table = Table::new(["WHEN", "QUEUE", "FROM", "TO", "JOBS"]);
    for row in rows {
        table.row(vec![
            Cell::text(views::instant(row.at)),
            Cell::text(&row.queue),
            Cell::text(row.from.as_str()),
            Cell::text(became(row)),
            Cell::count(row.count),
        ]);
    }
    table
}
