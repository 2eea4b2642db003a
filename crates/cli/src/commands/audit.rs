//! `windlass audit`: lists entries of the audit log, newest first.

use crate::output::{Cell, Table, ago, note, print, print_json};
use crate::store::{Common, block_on};
use crate::values::{self, When};
use anyhow::Result;
use std::process::ExitCode;
use windlass_core::engine::Cursor;
use windlass_services::{Audit, AuditQuery, AuditRow};

#[derive(Debug, clap::Args)]
pub(super) struct Args {
    #[command(flatten)]
    common: Common,
    /// Only entries of this key: its name or its id
    #[arg(long, value_name = "KEY")]
    who: Option<String>,
    /// Only this action, e.g. job.cancel, or job for all actions on jobs
    #[arg(long)]
    action: Option<String>,
    /// Only this target: a job's id, a queue, a kind, a schedule, or a key's id
    #[arg(long)]
    target: Option<String>,
    /// Only entries at or after this time: 2030-01-31T09:00:00Z, or 24h (a day ago)
    #[arg(long, value_name = "TIME", value_parser = values::when)]
    since: Option<When>,
    /// Only entries before this time
    #[arg(long, value_name = "TIME", value_parser = values::when)]
    until: Option<When>,
    /// Maximum number of entries
    #[arg(long, default_value_t = 50)]
    limit: u32,
}

impl Args {
    pub(super) const fn common(&self) -> &Common {
        &self.common
    }

    pub(super) fn run(self) -> Result<ExitCode> {
        block_on(self.list())
    }

    async fn list(self) -> Result<ExitCode> {
        let client = self.common.open().await?;
        let now = client.engine().health().await?.now;
        let audit = Audit::new(client.engine().clone());
        let mut query = AuditQuery::default();
        (query.who, query.action, query.target) = (self.who, self.action, self.target);
        query.from = self.since.map(|since| since.at(now));
        query.until = self.until.map(|until| until.at(now));
        let (mut rows, wanted) = (Vec::new(), self.limit.max(1) as usize);
        loop {
            query.limit = u32::try_from(wanted - rows.len()).unwrap_or(u32::MAX).min(1_000);
            let page = audit.read(&query).await?.value;
            rows.extend(page.rows);
            query.after = page.next;
            if query.after.is_none() || rows.len() >= wanted {
                break;
            }
        }
        if self.common.json {
            let actions = rows.into_iter().map(windlass_server::documents::action).collect();
            print_json(&windlass_wire::AuditPage { actions, next: query.after.map(Cursor::new) })?;
            return Ok(ExitCode::SUCCESS);
        }
        if rows.is_empty() {
            note("no matching audit entries");
            return Ok(ExitCode::SUCCESS);
        }
        let mut table = Table::new(["WHEN", "WHO", "WHAT", "TO", "BEFORE", "AFTER"]);
        for row in &rows {
            let action = &row.action;
            let text = |it: &Option<serde_json::Value>| {
                Cell::text(it.as_ref().map(ToString::to_string).unwrap_or_default())
            };
            table.row([
                Cell::text(ago(row.at, now)),
                Cell::text(&action.who),
                Cell::text(&action.action),
                Cell::text(targets(row)),
                text(&action.before),
                text(&action.after),
            ]);
        }
        print(&table.to_string())?;
        Ok(ExitCode::SUCCESS)
    }
}

fn targets(row: &AuditRow) -> String {
    let action = &row.action;
    let mut text = action.targets.join(", ");
    let more = action.count.saturating_sub(action.targets.len() as u64);
    if more > 0 {
        text += &format!(" and {more} more");
    }
    if action.refused > 0 {
        text += &format!(" ({} refused)", action.refused);
    }
    text
}
