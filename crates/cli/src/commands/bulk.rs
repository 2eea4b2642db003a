//! `windlass bulk`: lists, shows, resumes and cancels changes of many jobs.

use super::jobs::resume;
use crate::output::{Cell, Table, ago, note, print, print_json};
use crate::store::{Common, block_on};
use anyhow::{Result, bail};
use clap::Subcommand;
use std::process::ExitCode;
use windlass_server::documents;
use windlass_services::Bulks;

#[derive(Debug, clap::Args)]
pub(super) struct Args {
    #[command(flatten)]
    common: Common,
    #[command(subcommand)]
    action: Option<Action>,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// List operations, the oldest first (the default)
    List,
    /// Show an operation and its progress
    Show {
        /// Id of the operation
        id: String,
    },
    /// Continue an interrupted operation in this process, or wait while another process runs it
    Resume {
        /// Id of the operation
        id: String,
    },
    /// Cancel an operation; jobs that were changed stay changed
    Cancel {
        /// Id of the operation
        id: String,
    },
}

impl Args {
    pub(super) const fn common(&self) -> &Common {
        &self.common
    }

    pub(super) fn run(self) -> Result<ExitCode> {
        let Self { common, action } = self;
        block_on(async {
            let bulks = Bulks::new(common.open().await?.engine().clone());
            match action.unwrap_or(Action::List) {
                Action::List => list(&common, &bulks).await,
                Action::Show { id } => match bulks.get(&id).await? {
                    Some(bulk) => print_json(&documents::bulk(bulk)),
                    None => bail!("there is no bulk operation {id}; `windlass bulk` lists them"),
                },
                Action::Resume { id } => return resume(&common, &bulks, &id).await,
                Action::Cancel { id } => print_json(&documents::bulk(bulks.cancel(&id).await?)),
            }?;
            Ok(ExitCode::SUCCESS)
        })
    }
}

async fn list(common: &Common, bulks: &Bulks) -> Result<()> {
    let all = bulks.all().await?;
    if common.json {
        let bulks = all.into_iter().map(documents::bulk).collect();
        return print_json(&windlass_wire::Bulks { bulks });
    }
    if all.is_empty() {
        note("no bulk operations");
        return Ok(());
    }
    let now = all.iter().filter_map(|bulk| bulk.ended).chain(all.iter().map(|it| it.begun)).max();
    let mut table = Table::new(["ID", "CHANGE", "STATE", "TOTAL", "CHANGED", "REFUSED", "BEGUN"]);
    for bulk in &all {
        table.row([
            Cell::text(&bulk.id),
            Cell::text(bulk.change.as_str()),
            Cell::text(bulk.state.as_str()),
            Cell::text(bulk.total.to_string()).right(),
            Cell::text(bulk.changed.to_string()).right(),
            Cell::text(bulk.refused.to_string()).right(),
            Cell::text(ago(bulk.begun, now.unwrap_or(bulk.begun))),
        ]);
    }
    print(&table.to_string())
}
