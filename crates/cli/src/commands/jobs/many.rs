//! Changes all jobs that match a filter, as a bulk operation that survives the death of this process.

use super::list::{SearchArgs, filter};
use super::state;
use crate::exit;
use crate::ids::IdArg;
use crate::operator;
use crate::output::{note, print, print_json, progress_bar};
use crate::store::Common;
use anyhow::{Context as _, Result, bail};
use std::io::{BufRead as _, IsTerminal as _};
use std::process::ExitCode;
use windlass_core::Timestamp;
use windlass_core::engine::Filter;
use windlass_core::model::State;
use windlass_services::{Bulk, BulkChange, BulkState, Bulks, NewBulk};

/// Selects jobs by id, or by a filter.
#[derive(Debug, clap::Args)]
pub(super) struct Target {
    /// Ids of the jobs, or their first digits
    #[arg(value_name = "ID")]
    pub(super) ids: Vec<IdArg>,
    /// Select all jobs that match the other filters, or all jobs of the store if there are none
    #[arg(long, conflicts_with = "ids")]
    all: bool,
    /// Only jobs of this queue
    #[arg(long, short, value_name = "NAME", conflicts_with = "ids")]
    queue: Option<String>,
    /// Only jobs of this kind
    #[arg(long, short, value_name = "NAME", conflicts_with = "ids")]
    kind: Option<String>,
    /// Only jobs in this state
    #[arg(long, value_parser = state, value_name = "STATE", conflicts_with = "ids")]
    state: Option<State>,
    #[command(flatten)]
    search: SearchArgs,
    #[command(flatten)]
    how: How,
}

/// How to run a bulk operation.
#[derive(Debug, clap::Args)]
pub(in crate::commands) struct How {
    /// Count the matching jobs, and change none
    #[arg(long)]
    dry_run: bool,
    /// Skip the confirmation prompt
    #[arg(long, short)]
    yes: bool,
}

impl Target {
    /// The filter at this time of the store.
    fn filter(&self, now: Timestamp) -> Filter {
        let narrow = filter(self.queue.as_deref(), self.kind.as_deref(), self.state);
        self.search.narrow(narrow, now)
    }

    /// Whether jobs are selected by a filter, and not by id.
    pub(super) fn is_filter(&self) -> Result<bool> {
        let is_filtered = self.filter(Timestamp::EPOCH) != Filter::default();
        match (self.ids.is_empty(), is_filtered || self.all) {
            (true, true) => Ok(true),
            (true, false) => {
                bail!("give ids, or a filter such as --queue or --where; --all selects all jobs")
            }
            (false, true) => bail!("give ids or a filter, not both"),
            (false, false) if self.how.dry_run => bail!("--dry-run needs a filter, not ids"),
            (false, false) => Ok(false),
        }
    }

    /// Changes all jobs that match; `change` gets the time of the store.
    pub(super) async fn change(
        &self,
        common: &Common,
        change: impl FnOnce(Timestamp) -> BulkChange,
    ) -> Result<ExitCode> {
        self.how.change(common, |now| self.filter(now), change).await
    }
}

impl How {
    /// Skips the prompt, because the command has its own confirmation.
    pub(in crate::commands) const fn confirmed(mut self) -> Self {
        self.yes = true;
        self
    }

    /// Counts the jobs, asks, and changes them; `filter` and `change` get the time of the store.
    pub(in crate::commands) async fn change(
        &self,
        common: &Common,
        filter: impl FnOnce(Timestamp) -> Filter,
        change: impl FnOnce(Timestamp) -> BulkChange,
    ) -> Result<ExitCode> {
        let client = common.open().await?;
        let bulks = Bulks::new(client.engine().clone());
        let now = client.engine().health().await?.now;
        let new = NewBulk::new(filter(now), change(now)).by(operator::principal().name());
        if self.dry_run || !self.yes {
            let counted = bulks.start(new.clone().dry_run(true)).await?;
            let counted = bulks.run(&counted.id, |_| {}).await?;
            if self.dry_run || counted.total == 0 {
                return end(common, &counted);
            }
            if !confirmed(new.change.as_str(), counted.total)? {
                bail!("aborted; no job was changed");
            }
        }
        let bulk = bulks.start(new).await?;
        note(&format!(
            "operation {}: if interrupted, use `windlass bulk resume {}`",
            bulk.id, bulk.id
        ));
        resume(common, &bulks, &bulk.id).await
    }
}

/// Runs an operation to its end, with a progress bar.
pub(in crate::commands) async fn resume(
    common: &Common,
    bulks: &Bulks,
    id: &str,
) -> Result<ExitCode> {
    let bar = progress_bar(0);
    let progress = |bulk: &Bulk| {
        bar.set_length(bulk.total);
        bar.set_position(bulk.changed + bulk.refused);
    };
    let done = bulks.run(id, progress).await?;
    bar.finish_and_clear();
    end(common, &done)
}

/// Prints the result.
fn end(common: &Common, bulk: &Bulk) -> Result<ExitCode> {
    if common.json {
        print_json(&windlass_server::documents::bulk(bulk.clone()))?;
    } else if bulk.dry_run {
        print(&format!("would {} {} jobs\n", bulk.change.as_str(), bulk.total))?;
    } else {
        let Bulk { changed, refused, .. } = bulk;
        print(&format!("{} done: {changed} jobs, {refused} refused\n", bulk.change.as_str()))?;
        if let Some(error) = &bulk.error {
            eprintln!("the first refusal: {error}");
        }
    }
    let is_good = bulk.state == BulkState::Done && bulk.refused == 0;
    Ok(if is_good { ExitCode::SUCCESS } else { exit::partly() })
}

fn confirmed(verb: &str, count: u64) -> Result<bool> {
    if !std::io::stdin().is_terminal() {
        bail!("this would {verb} {count} jobs; add --yes to confirm");
    }
    eprint!("{verb} {count} jobs? [y/N] ");
    let mut answer = String::new();
    std::io::stdin().lock().read_line(&mut answer).context("cannot read the answer")?;
    Ok(matches!(answer.trim(), "y" | "Y" | "yes"))
}
