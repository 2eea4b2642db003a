//! `windlass jobs`: lists jobs, shows and explains one, and changes jobs by id.

mod change;
mod list;
mod show;
mod why;

pub(super) use change::{change_all, check_sensitive};
pub(super) use list::{ListArgs, filter, list};
pub(super) use show::show;

use crate::store::{Common, block_on};
use crate::values;
use anyhow::Result;
use clap::Subcommand;
use std::process::ExitCode;
use windlass_core::engine::{Change, Edits};
use windlass_core::model::{Due, State};
use windlass_core::{JobId, Timestamp};

#[derive(Debug, clap::Args)]
pub(super) struct Args {
    #[command(flatten)]
    common: Common,
    #[command(subcommand)]
    action: Option<Action>,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// List jobs, newest first (the default)
    List {
        /// Only jobs in this state
        #[arg(long, value_parser = state, value_name = "STATE")]
        state: Option<State>,
        #[command(flatten)]
        list: ListArgs,
    },
    /// Show all details of a job
    Show {
        /// Id of the job
        id: JobId,
    },
    /// Explain why a job is not running, and what to do about it
    Why {
        /// Id of the job
        id: JobId,
    },
    /// Cancel jobs; the worker of a running job is asked to stop it
    Cancel(Ids),
    /// Replay dead, cancelled or expired jobs
    #[command(alias = "retry")]
    Replay {
        #[command(flatten)]
        ids: Ids,
        /// Name of the kind, as a confirmation; required if the kind is registered as sensitive
        #[arg(long, value_name = "KIND")]
        confirm: Option<String>,
    },
    /// Make waiting jobs due now
    Promote(Ids),
    /// Change the due time of waiting jobs
    Reschedule {
        #[command(flatten)]
        ids: Ids,
        /// Delay from now until the jobs become due, e.g. 10m
        #[arg(long = "in", value_name = "TIME", value_parser = values::duration_ms)]
        delay: Option<u64>,
        /// Time at which the jobs become due, e.g. 2030-01-31T09:00:00Z
        #[arg(long, value_name = "TIME", value_parser = values::instant,
              conflicts_with = "delay", required_unless_present = "delay")]
        at: Option<Timestamp>,
    },
    /// Change the priority of jobs; lower runs first
    Reprioritise {
        #[command(flatten)]
        ids: Ids,
        /// New priority
        #[arg(long, short, value_name = "N", allow_negative_numbers = true)]
        priority: i32,
    },
    /// Move waiting jobs to another queue
    Move {
        #[command(flatten)]
        ids: Ids,
        /// Queue to move to
        #[arg(long, value_name = "QUEUE")]
        to: String,
    },
    /// End waiting jobs as dead
    Kill(Ids),
    /// Pause waiting jobs
    Pause(Ids),
    /// Resume paused jobs
    Resume(Ids),
    /// Remove ended jobs now
    Discard(Ids),
    /// Wake jobs that wait for a signal
    Signal(Ids),
}

#[derive(Debug, clap::Args)]
struct Ids {
    /// Ids of the jobs
    #[arg(required = true, value_name = "ID")]
    ids: Vec<JobId>,
}

impl Args {
    pub(super) const fn common(&self) -> &Common {
        &self.common
    }

    pub(super) fn run(self) -> Result<ExitCode> {
        let Self { common, action } = self;
        let listed = Action::List { state: None, list: ListArgs::default() };
        let (ids, change) = match action.unwrap_or(listed) {
            Action::List { state, list: args } => return block_on(list(&common, state, &args)),
            Action::Show { id } => return block_on(show(&common, id)),
            Action::Why { id } => return block_on(why::why(&common, id)),
            Action::Cancel(ids) => (ids, Change::Cancel),
            Action::Replay { ids, confirm } => {
                let mut edits = Edits::default();
                edits.confirm = confirm.map(Into::into);
                (ids, Change::Replay(Box::new(edits)))
            }
            Action::Promote(ids) => (ids, Change::Promote),
            Action::Reschedule { ids, delay, at } => {
                let due = delay.map(Due::After).or(at.map(Due::At)).unwrap_or_default();
                (ids, Change::Reschedule(due))
            }
            Action::Reprioritise { ids, priority } => (ids, Change::Reprioritise(priority)),
            Action::Move { ids, to } => (ids, Change::Move(to.into())),
            Action::Kill(ids) => (ids, Change::Kill),
            Action::Pause(ids) => (ids, Change::Pause),
            Action::Resume(ids) => (ids, Change::Resume),
            Action::Discard(ids) => (ids, Change::Discard),
            Action::Signal(ids) => (ids, Change::Signal),
        };
        block_on(async {
            let client = common.open().await?;
            change_all(&client, &common, ids.ids, &change, None).await
        })
    }
}

/// Parses a state.
fn state(text: &str) -> Result<State, String> {
    let found = State::ALL.into_iter().find(|state| state.as_str() == text);
    found.ok_or_else(|| {
        let known: Vec<_> = State::ALL.iter().map(|state| state.as_str()).collect();
        format!("unknown state {text:?}: use {}", known.join(", "))
    })
}
