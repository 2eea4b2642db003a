//! The changes that can be made in bulk, and the jobs that each applies to.

use serde::{Deserialize, Serialize};
use windlass_core::engine::{Change, ChangeItem, Edits};
use windlass_core::limits::PAYLOAD_BYTES_MAX;
use windlass_core::machine::{EventKind, table};
use windlass_core::model::{Due, Job, Name, PartEdit, State};
use windlass_core::{Result, Timestamp};

/// A change of many jobs. Times are absolute, so that a repeated step changes nothing.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
#[non_exhaustive]
pub enum BulkChange {
    /// End waiting jobs; ask the workers of running ones to stop.
    Cancel,
    /// End waiting jobs as dead.
    Kill,
    /// Make scheduled jobs due now.
    Promote,
    /// Change the due time of waiting jobs.
    Reschedule {
        /// The new time.
        run_at: Timestamp,
    },
    /// Change the priority.
    Reprioritise {
        /// The new priority.
        priority: i32,
    },
    /// Move waiting jobs to another queue.
    Move {
        /// The queue.
        queue: Name,
    },
    /// Pause waiting jobs.
    Pause,
    /// Resume paused jobs.
    Resume,
    /// Run dead, cancelled and expired jobs again.
    Replay {
        /// Whether to discard checkpoints.
        #[serde(default)]
        start_over: bool,
        /// The sensitive kind that may be replayed; jobs of other sensitive kinds are refused.
        #[serde(default)]
        confirm: Option<Name>,
    },
    /// Delete ended jobs.
    Discard,
    /// Delete jobs in any state: waiting jobs are cancelled first. The workers of running jobs are asked to stop, and
    /// the jobs stay until then.
    Purge,
}

impl BulkChange {
    /// The name in the API, on the command line and in the audit log.
    pub const fn as_str(&self) -> &'static str {
        match self {
            Self::Cancel => "cancel",
            Self::Kill => "kill",
            Self::Promote => "promote",
            Self::Reschedule { .. } => "reschedule",
            Self::Reprioritise { .. } => "reprioritise",
            Self::Move { .. } => "move",
            Self::Pause => "pause",
            Self::Resume => "resume",
            Self::Replay { .. } => "replay",
            Self::Discard => "discard",
            Self::Purge => "purge",
        }
    }

    /// Validates the change at `now`.
    pub(super) fn check(&self, now: Timestamp) -> Result<()> {
        self.single().check(now, PAYLOAD_BYTES_MAX)
    }

    /// The change of a single job.
    fn single(&self) -> Change {
        match self {
            Self::Cancel => Change::Cancel,
            Self::Kill => Change::Kill,
            Self::Promote => Change::Promote,
            Self::Reschedule { run_at } => Change::Reschedule(Due::At(*run_at)),
            Self::Reprioritise { priority } => Change::Reprioritise(*priority),
            Self::Move { queue } => Change::Move(queue.clone()),
            Self::Pause => Change::Pause,
            Self::Resume => Change::Resume,
            Self::Replay { start_over, confirm } => {
                let mut edits = Edits::default();
                edits.confirm.clone_from(confirm);
                if *start_over {
                    edits.checkpoint = PartEdit::Unset;
                }
                Change::Replay(Box::new(edits))
            }
            Self::Discard | Self::Purge => Change::Discard,
        }
    }

    /// The changes of one job, in order; the last one decides whether the job is done.
    pub(super) fn items(&self, job: &Job) -> Vec<ChangeItem> {
        let id = job.header.id;
        let first = |change: Change| ChangeItem::new(id, change).if_state(job.state);
        match (self, job.state) {
            (Self::Purge, State::Running) => vec![first(Change::Cancel)],
            (Self::Purge, state) if !state.is_terminal() => {
                let cancelled = ChangeItem::new(id, Change::Discard).if_state(State::Cancelled);
                vec![first(Change::Cancel), cancelled]
            }
            _ => vec![first(self.single())],
        }
    }

    /// Whether the change applies to a job, and was not made by an earlier, interrupted step of an operation that began
    /// at `begun`.
    ///
    /// Most changes end in a state or with a value that does not match again. A replayed job may die again, and a
    /// promoted or rescheduled one may be scheduled again, so these apply only to jobs that entered their state before the
    /// operation began.
    pub(super) fn applies_to(&self, job: &Job, begun: Timestamp) -> bool {
        let is_earlier = job.changed_at <= begun;
        match self {
            Self::Cancel => !job.state.is_terminal() && !job.cancel_requested,
            Self::Purge => job.state.is_terminal() || !job.cancel_requested,
            Self::Promote => job.state == State::Scheduled && is_earlier,
            Self::Reschedule { run_at } => {
                self.is_possible(job.state) && is_earlier && job.header.run_at != *run_at
            }
            Self::Reprioritise { priority } => {
                self.is_possible(job.state) && job.header.priority != *priority
            }
            Self::Move { queue } => self.is_possible(job.state) && job.header.queue != *queue,
            Self::Replay { .. } => self.is_possible(job.state) && is_earlier,
            Self::Kill | Self::Pause | Self::Resume | Self::Discard => self.is_possible(job.state),
        }
    }

    /// Whether the state machine has such a change for a state.
    fn is_possible(&self, state: State) -> bool {
        let event: EventKind = self.single().event();
        table::is_possible(state, event)
    }
}
