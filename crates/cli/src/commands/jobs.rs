//! `windlass jobs`: lists jobs, shows and explains one, and changes jobs by id or by filter.

mod change;
mod list;
mod many;
mod show;
mod wait;
mod why;

pub(super) use change::{change_all, check_sensitive};
pub(super) use list::{ListArgs, filter, list};
pub(super) use many::{How, resume};
pub(super) use show::show;

use crate::ids::{self, IdArg};
use crate::store::{Common, block_on};
use crate::values;
use anyhow::{Result, bail};
use clap::Subcommand;
use many::Target;
use std::process::ExitCode;
use windlass_core::Timestamp;
use windlass_core::engine::{Change, Edits};
use windlass_core::model::{Due, Name, Signal, State};
use windlass_services::BulkChange;

#[derive(Debug, clap::Args)]
pub(super) struct Args {
    #[command(flatten)]
    common: Common,
    #[command(subcommand)]
    action: Option<Action>,
    #[command(flatten)]
    list: Box<JobsList>,
}

/// Options of the list, which is the default action.
#[derive(Debug, Default, PartialEq, clap::Args)]
struct JobsList {
    /// Only jobs in this state
    #[arg(long, value_parser = state, value_name = "STATE")]
    state: Option<State>,
    #[command(flatten)]
    list: ListArgs,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// List jobs, newest first (the default)
    List(Box<JobsList>),
    /// Show all details of a job
    Show {
        /// Id of the job, or its first digits
        id: IdArg,
    },
    /// Explain why a job is not running, and what to do about it
    Why {
        /// Id of the job, or its first digits
        id: IdArg,
    },
    /// Wait until jobs have ended; exit code 1 if one of them did not complete
    Wait {
        #[command(flatten)]
        ids: Ids,
        /// Maximum time to wait for all of them, e.g. 30s [default: no limit]
        #[arg(long, value_name = "TIME", value_parser = values::duration_ms)]
        timeout: Option<u64>,
    },
    /// Cancel jobs; the worker of a running job is asked to stop it
    Cancel(Box<Target>),
    /// Replay dead, cancelled or expired jobs
    #[command(visible_alias = "retry")]
    Replay {
        #[command(flatten)]
        target: Box<Target>,
        /// Name of the kind, as a confirmation; required if the kind is registered as sensitive
        #[arg(long, value_name = "KIND")]
        confirm: Option<String>,
    },
    /// Make waiting jobs due now
    Promote(Box<Target>),
    /// Change the due time of waiting jobs
    Reschedule {
        #[command(flatten)]
        target: Box<Target>,
        /// Delay until the jobs become due, e.g. 10m
        #[arg(long, short, alias = "in", value_name = "TIME", value_parser = values::duration_ms)]
        delay: Option<u64>,
        /// Time at which the jobs become due, e.g. 2030-01-31T09:00:00Z
        #[arg(long, value_name = "TIME", value_parser = values::instant,
              conflicts_with = "delay", required_unless_present = "delay")]
        at: Option<Timestamp>,
    },
    /// Change the priority of jobs; lower runs first
    Reprioritise {
        #[command(flatten)]
        target: Box<Target>,
        /// New priority
        #[arg(long, short, value_name = "N", allow_negative_numbers = true)]
        priority: i32,
    },
    /// Move waiting jobs to another queue
    Move {
        #[command(flatten)]
        target: Box<Target>,
        /// Queue to move to
        #[arg(long, value_name = "QUEUE")]
        to: String,
    },
    /// End waiting jobs as dead
    Kill(Box<Target>),
    /// Pause waiting jobs
    Pause(Box<Target>),
    /// Resume paused jobs
    Resume(Box<Target>),
    /// Remove ended jobs now
    Discard(Box<Target>),
    /// Send a signal to a job; it is kept until the job waits for it
    Signal {
        /// Id of the job, or its first digits
        id: IdArg,
        /// Name of the signal
        name: String,
        /// What the signal says, as JSON
        payload: Option<String>,
        /// Id of the signal, which the job accepts once
        #[arg(long = "id", value_name = "SIGNAL")]
        signal_id: Option<String>,
    },
}

#[derive(Debug, clap::Args)]
struct Ids {
    /// Ids of the jobs, or their first digits
    #[arg(required = true, value_name = "ID")]
    ids: Vec<IdArg>,
}

impl Args {
    pub(super) const fn common(&self) -> &Common {
        &self.common
    }

    pub(super) fn run(self) -> Result<ExitCode> {
        let Self { common, action, list: listed } = self;
        if action.is_some() && *listed != JobsList::default() {
            bail!(
                "options of the list are given before another action: put them after it, as in `windlass jobs list --queue mail`"
            );
        }
        let (target, change, many) = match action.unwrap_or(Action::List(listed)) {
            Action::List(args) => return block_on(list(&common, args.state, &args.list)),
            Action::Show { id } => return block_on(show(&common, id)),
            Action::Why { id } => return block_on(why::why(&common, id)),
            Action::Wait { ids, timeout } => {
                return block_on(wait::wait(&common, ids.ids, timeout));
            }
            Action::Signal { id, name, payload, signal_id } => {
                let mut signal = Signal::new(name);
                (signal.payload, signal.id) = (payload, signal_id);
                return change_ids(&common, vec![id], &signal.into());
            }
            Action::Cancel(target) => (target, Change::Cancel, BulkChange::Cancel),
            Action::Replay { target, confirm } => {
                let confirm: Option<Name> = confirm.map(Into::into);
                let mut edits = Edits::default();
                edits.confirm.clone_from(&confirm);
                let many = BulkChange::Replay { start_over: false, confirm };
                (target, Change::Replay(Box::new(edits)), many)
            }
            Action::Promote(target) => (target, Change::Promote, BulkChange::Promote),
            Action::Reschedule { target, delay, at } => {
                let due = delay.map(Due::After).or(at.map(Due::At)).unwrap_or_default();
                return match target.is_filter()? {
                    true => block_on(target.change(&common, |now| {
                        let run_at = at.unwrap_or_else(|| now.plus(delay.unwrap_or(0)));
                        BulkChange::Reschedule { run_at }
                    })),
                    false => change_ids(&common, target.ids, &Change::Reschedule(due)),
                };
            }
            Action::Reprioritise { target, priority } => {
                let many = BulkChange::Reprioritise { priority };
                (target, Change::Reprioritise(priority), many)
            }
            Action::Move { target, to } => {
                let queue: Name = to.into();
                (target, Change::Move(queue.clone()), BulkChange::Move { queue })
            }
            Action::Kill(target) => (target, Change::Kill, BulkChange::Kill),
            Action::Pause(target) => (target, Change::Pause, BulkChange::Pause),
            Action::Resume(target) => (target, Change::Resume, BulkChange::Resume),
            Action::Discard(target) => (target, Change::Discard, BulkChange::Discard),
        };
        match target.is_filter()? {
            true => block_on(target.change(&common, |_| many)),
            false => change_ids(&common, target.ids, &change),
        }
    }
}

fn change_ids(common: &Common, ids: Vec<IdArg>, change: &Change) -> Result<ExitCode> {
    block_on(async {
        let client = common.open().await?;
        let ids = ids::all(&client, &ids).await?;
        change_all(&client, common, ids, change, None).await
    })
}

/// Parses a state.
fn state(text: &str) -> Result<State, String> {
    let found = State::ALL.into_iter().find(|state| state.as_str() == text);
    found.ok_or_else(|| {
        let known: Vec<_> = State::ALL.iter().map(|state| state.as_str()).collect();
        format!("unknown state {text:?}: use {}", known.join(", "))
    })
}
