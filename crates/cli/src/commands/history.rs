//! `windlass history`: lists how many jobs were removed, by hour, queue, kind, tenant and outcome.

use crate::output::{Cell, Table, note, print, print_json};
use crate::store::{Common, block_on};
use crate::values::{self, When};
use anyhow::Result;
use std::process::ExitCode;
use windlass_core::Timestamp;
use windlass_core::engine::{Page, RemovedCount, RemovedQuery};
use windlass_core::limits::PAGE_MAX;

#[derive(Debug, clap::Args)]
pub(super) struct Args {
    #[command(flatten)]
    common: Common,
    /// Only rows of this queue
    #[arg(long, short, value_name = "NAME")]
    queue: Option<String>,
    /// Only hours that end after this time: 2030-01-31T09:00:00Z, or 24h (a day ago)
    #[arg(long, alias = "from", value_name = "TIME", value_parser = values::when)]
    since: Option<When>,
    /// Only hours that begin before this time
    #[arg(long, value_name = "TIME", value_parser = values::when)]
    until: Option<When>,
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
        let now = client.engine().health().await?.now;
        let mut query = RemovedQuery::default();
        query.from = self.since.map_or(query.from, |since| since.at(now));
        let until = self.until.map_or(Timestamp::MAX, |until| until.at(now));
        (query.queue, query.limit) = (self.queue.as_deref().map(Into::into), PAGE_MAX);
        let mut rows: Vec<RemovedCount> = Vec::new();
        loop {
            let before = rows.len();
            let page = client.removed(query.clone()).await?;
            let read = page.rows.len();
            rows.extend(page.rows.into_iter().take_while(|row| row.key.hour < until));
            // Rows are in the order of their hours.
            let is_over = rows.len() < before + read;
            let surplus = rows.len().saturating_sub(self.limit);
            rows.drain(..surplus);
            query.after = page.next;
            if query.after.is_none() || is_over {
                break;
            }
        }
        if self.common.json {
            print_json(&windlass_wire::HistoryPage::from(Page::new(rows, None)))?;
        } else if rows.is_empty() {
            note("no jobs were removed");
        } else {
            print(&table(&rows).to_string())?;
        }
        Ok(ExitCode::SUCCESS)
    }
}

fn table(rows: &[RemovedCount]) -> Table {
    let mut table = Table::new(["HOUR", "QUEUE", "KIND", "TENANT", "OUTCOME", "JOBS"]);
    for RemovedCount { key, count, .. } in rows {
        table.row(vec![
            Cell::text(key.hour.to_string()),
            Cell::text(&*key.queue),
            Cell::text(&*key.kind),
            Cell::text(key.tenant.as_deref().unwrap_or("-")),
            Cell::text(key.outcome.as_str()),
            Cell::count(*count),
        ]);
    }
    table
}
