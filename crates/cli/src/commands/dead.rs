//! `windlass dead`: lists, shows, replays and discards dead letters, by id or all at once.

use super::jobs::{ListArgs, change_all, check_sensitive, filter, list, show};
use crate::exit;
use crate::ids::{self, IdArg};
use crate::output::{print, print_json, progress_bar};
use crate::store::{Common, block_on};
use anyhow::{Context as _, Result, bail};
use clap::Subcommand;
use serde_json::json;
use std::io::{BufRead as _, IsTerminal as _};
use std::process::ExitCode;
use windlass::Client;
use windlass_core::JobId;
use windlass_core::engine::{Change, ChangeItem, Edits, List, ListOrder};
use windlass_core::limits::PAGE_MAX;
use windlass_core::model::{Part, PartEdit, State};

#[derive(Debug, clap::Args)]
pub(super) struct Args {
    #[command(flatten)]
    common: Common,
    #[command(subcommand)]
    action: Option<Action>,
    #[command(flatten)]
    list: Box<ListArgs>,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// List dead letters, newest first (the default)
    List(Box<ListArgs>),
    /// Show all details of a dead letter
    Show {
        /// Id of the job, or its first digits
        id: IdArg,
    },
    /// Replay dead letters, with counters reset
    #[command(visible_alias = "retry")]
    Replay {
        #[command(flatten)]
        which: Selection,
        /// Payload that replaces the old one (one job only): JSON, `-` for stdin, `@FILE` for a file
        #[arg(long, value_name = "JSON|-|@FILE", conflicts_with = "all")]
        payload: Option<String>,
        /// Discard the checkpoint, so that the jobs start from the beginning
        #[arg(long)]
        start_over: bool,
        /// Name of the kind, as a confirmation; required if the kind is registered as sensitive
        #[arg(long, value_name = "KIND")]
        confirm: Option<String>,
    },
    /// Discard dead letters
    Discard {
        #[command(flatten)]
        which: Selection,
    },
}

/// Selects dead letters.
#[derive(Debug, clap::Args)]
struct Selection {
    /// Ids of the jobs, or their first digits
    #[arg(value_name = "ID", required_unless_present = "all")]
    ids: Vec<IdArg>,
    /// Select all dead letters, or those that match --queue and --kind
    #[arg(long, conflicts_with = "ids")]
    all: bool,
    /// With --all: only dead letters of this queue
    #[arg(long, short, value_name = "NAME", requires = "all")]
    queue: Option<String>,
    /// With --all: only dead letters of this kind
    #[arg(long, short, value_name = "NAME", requires = "all")]
    kind: Option<String>,
    /// Skip the confirmation prompt
    #[arg(long, short)]
    yes: bool,
}

impl Args {
    pub(super) const fn common(&self) -> &Common {
        &self.common
    }

    pub(super) fn run(self) -> Result<ExitCode> {
        let Self { common, action, list: listed } = self;
        if action.is_some() && *listed != ListArgs::default() {
            bail!(
                "options of the list are given before another action: put them after it, as in `windlass dead list --queue mail`"
            );
        }
        match action.unwrap_or(Action::List(listed)) {
            Action::List(args) => block_on(list(&common, Some(State::Dead), &args)),
            Action::Show { id } => block_on(show(&common, id)),
            Action::Replay { which, payload, start_over, confirm } => {
                if payload.is_some() && which.ids.len() > 1 {
                    bail!("--payload applies to one job, but {} ids are given", which.ids.len());
                }
                let change = replay(payload.as_deref(), start_over, confirm)?;
                block_on(which.change(&common, "replay", change))
            }
            Action::Discard { which } => {
                block_on(which.change(&common, "discard", Change::Discard))
            }
        }
    }
}

fn replay(payload: Option<&str>, start_over: bool, confirm: Option<String>) -> Result<Change> {
    let mut edits = Edits::default();
    edits.confirm = confirm.map(Into::into);
    if let Some(text) = payload {
        let bytes = crate::job_args::payload(text, false)?;
        edits.payload = PartEdit::Set(Part::new(bytes));
    }
    if start_over {
        edits.checkpoint = PartEdit::Unset;
    }
    Ok(Change::Replay(Box::new(edits)))
}

impl Selection {
    async fn change(self, common: &Common, verb: &str, change: Change) -> Result<ExitCode> {
        let client = common.open().await?;
        if !self.all {
            // If one of the jobs is not dead, no job is changed.
            let ids = ids::all(&client, &self.ids).await?;
            only_dead(&client, &ids).await?;
            return change_all(&client, common, ids, &change, Some(State::Dead)).await;
        }
        let dead = self.count(&client).await?;
        if dead == 0 {
            return self.end(common, 0, 0);
        }
        if !self.yes && !confirmed(verb, dead)? {
            bail!("aborted; no dead letter was changed");
        }
        self.sweep(&client, common, dead, &change).await
    }

    async fn count(&self, client: &Client) -> Result<u64> {
        let fits = |name: &Option<String>, of: &str| name.as_deref().is_none_or(|name| name == of);
        let lanes = client.stats().await?;
        let lanes =
            lanes.iter().filter(|it| fits(&self.queue, &it.queue) && fits(&self.kind, &it.kind));
        Ok(lanes.map(|lane| lane.dead).sum())
    }

    /// Applies the change page by page. Refused jobs stay dead; the cursor moves past them.
    async fn sweep(
        &self,
        client: &Client,
        common: &Common,
        dead: u64,
        change: &Change,
    ) -> Result<ExitCode> {
        let bar = progress_bar(dead);
        let filter = filter(self.queue.as_deref(), self.kind.as_deref(), Some(State::Dead));
        let (mut done, mut refused, mut after) = (0, 0, None);
        loop {
            let request = List::new(filter.clone()).order(ListOrder::Oldest).limit(PAGE_MAX);
            let page = client.engine().list(request.after(after)).await?.value;
            let ids: Vec<_> = page.rows.iter().map(|job| job.header.id).collect();
            check_sensitive(client, &ids, change).await?;
            let item = |id| ChangeItem::new(id, change.clone()).if_state(State::Dead);
            let items: Vec<_> = ids.into_iter().map(item).collect();
            if !items.is_empty() {
                for answer in client.engine().change(items).await?.value {
                    match answer {
                        Ok(_) => done += 1,
                        Err(error) => {
                            refused += 1;
                            bar.suspend(|| eprintln!("error: {error}"));
                        }
                    }
                    bar.inc(1);
                }
            }
            after = page.next;
            if after.is_none() {
                bar.finish_and_clear();
                return self.end(common, done, refused);
            }
        }
    }

    fn end(&self, common: &Common, done: u64, refused: u64) -> Result<ExitCode> {
        if common.json {
            print_json(&json!({ "done": done, "refused": refused }))?;
        } else {
            print(&format!("{done} dead letters done, {refused} refused\n"))?;
        }
        Ok(if refused == 0 { ExitCode::SUCCESS } else { exit::partly() })
    }
}

async fn only_dead(client: &Client, ids: &[JobId]) -> Result<()> {
    for id in ids {
        if let Some(job) = client.get(*id).await?
            && job.state != State::Dead
        {
            bail!("job {id} is {}, not dead; use `windlass jobs` for it", job.state);
        }
    }
    Ok(())
}

fn confirmed(verb: &str, count: u64) -> Result<bool> {
    if !std::io::stdin().is_terminal() {
        bail!("this would {verb} {count} dead letters; add --yes to confirm");
    }
    eprint!("{verb} {count} dead letters? [y/N] ");
    let mut answer = String::new();
    std::io::stdin().lock().read_line(&mut answer).context("cannot read the answer")?;
    Ok(matches!(answer.trim(), "y" | "Y" | "yes"))
}
