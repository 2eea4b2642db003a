//! `windlass jobs`: look at jobs, and change them one by one.

mod change;
mod list;
mod show;

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
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// List jobs, the newest first
    List {
        /// Only in this state
        #[arg(long, value_parser = state, value_name = "STATE")]
        state: Option<State>,
        #[command(flatten)]
        list: ListArgs,
    },
    /// Show everything known of a job
    Show {
        /// The job
        id: JobId,
    },
    /// Call jobs off; a running one is told
    Cancel(Ids),
    /// Give dead, cancelled or expired jobs another life
    Retry {
        #[command(flatten)]
        ids: Ids,
        /// The kind once more, if it is registered as sensitive
        #[arg(long, value_name = "KIND")]
        confirm: Option<String>,
    },
    /// Let waiting jobs run now
    Promote(Ids),
    /// Move the time of waiting jobs
    Reschedule {
        #[command(flatten)]
        ids: Ids,
        /// To run this long from now
        #[arg(long = "in", value_name = "TIME", value_parser = values::duration_ms)]
        delay: Option<u64>,
        /// To run at this instant, as in 2030-01-31T09:00:00Z
        #[arg(long, value_name = "TIME", value_parser = values::instant,
              conflicts_with = "delay", required_unless_present = "delay")]
        at: Option<Timestamp>,
    },
    /// Change the priority; lower runs first
    Reprioritise {
        #[command(flatten)]
        ids: Ids,
        /// The new priority
        #[arg(long, short, value_name = "N", allow_negative_numbers = true)]
        priority: i32,
    },
    /// Set waiting jobs aside
    Pause(Ids),
    /// Take jobs back that were set aside
    Resume(Ids),
    /// Throw ended jobs away now
    Discard(Ids),
    /// Wake jobs that wait for a signal
    Signal(Ids),
}

#[derive(Debug, clap::Args)]
struct Ids {
    /// The jobs
    #[arg(required = true, value_name = "ID")]
    ids: Vec<JobId>,
}

impl Args {
    pub(super) const fn common(&self) -> &Common {
        &self.common
    }

    pub(super) fn run(self) -> Result<ExitCode> {
        let Self { common, action } = self;
        let (ids, change) = match action {
            Action::List { state, list: args } => return block_on(list(&common, state, &args)),
            Action::Show { id } => return block_on(show(&common, id)),
            Action::Cancel(ids) => (ids, Change::Cancel),
            Action::Retry { ids, confirm } => {
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

/// A state by its name.
fn state(text: &str) -> Result<State, String> {
    let found = State::ALL.into_iter().find(|state| state.as_str() == text);
    found.ok_or_else(|| {
        let known: Vec<_> = State::ALL.iter().map(|state| state.as_str()).collect();
        format!("{text:?} is no state; the states: {}", known.join(", "))
    })
}
