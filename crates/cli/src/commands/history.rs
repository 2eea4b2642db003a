//! `windlass history`: lists how many jobs were removed, by hour, queue, kind, tenant and outcome.

use crate::output::{Cell, Table, print, print_json};
use crate::store::{Common, block_on};
use crate::values;
use crate::views;
use anyhow::Result;
use serde_json::json;
use std::process::ExitCode;
use windlass_core::Timestamp;
use windlass_core::engine::{RemovedCount, RemovedQuery};
use windlass_core::limits::PAGE_MAX;

#[derive(Debug, clap::Args)]
pub(super) struct Args {
    #[command(flatten)]
    common: Common,
    /// Only rows of this queue
    #[arg(long, short, value_name = "NAME")]
    queue: Option<String>,
    /// Only hours that end after this time, e.g. 2030-01-31T09:00:00Z
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
        let mut query = RemovedQuery::default();
        query.from = self.from.unwrap_or(query.from);
        (query.queue, query.limit) = (self.queue.as_deref().map(Into::into), PAGE_MAX);
        let mut rows: Vec<RemovedCount> = Vec::new();
        loop {
            let page = client.removed(query.clone()).await?;
            rows.extend(page.rows);
            let surplus = rows.len().saturating_sub(self.limit);
            rows.drain(..surplus);
            query.after = page.next;
            if query.after.is_none() {
                break;
            }
        }
        if self.common.json {
            print_json(&rows.iter().map(value).collect::<Vec<_>>())?;
        } else if rows.is_empty() {
            eprintln!("no jobs were removed");
        } else {
            print(&table(&rows).to_string())?;
        }
        Ok(ExitCode::SUCCESS)
    }
}

fn value(row: &RemovedCount) -> serde_json::Value {
    let RemovedCount { key, count, .. } = row;
    json!({
        "hour": views::instant(key.hour), "queue": key.queue, "kind": key.kind,
        "tenant": key.tenant, "outcome": key.outcome.as_str(), "count": count,
    })
}

fn table(rows: &[RemovedCount]) -> Table {
    let mut table = Table::new(["HOUR", "QUEUE", "KIND", "TENANT", "OUTCOME", "JOBS"]);
    for RemovedCount { key, count, .. } in rows {
        table.row(vec![
            Cell::text(views::instant(key.hour)),
            Cell::text(&*key.queue),
            Cell::text(&*key.kind),
            Cell::text(key.tenant.as_deref().unwrap_or("-")),
            Cell::text(key.outcome.as_str()),
            Cell::count(*count),
        ]);
    }
    table
}
