//! Changes to jobs by operators.

use crate::error::{Error, Result};
use crate::growing::growing;
use crate::id::JobId;
use crate::machine::EventKind;
use crate::model::{Due, Name, PartEdit, PartName, Policy, Signal, State};
use crate::name::check_name;
use crate::time::Timestamp;

/// Edits to a job that is replayed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Edits {
    /// The payload.
    pub payload: PartEdit,
    /// The checkpoint: keep it to resume, unset it to start over, without recorded steps.
    pub checkpoint: PartEdit,
    /// A new priority.
    pub priority: Option<i32>,
    /// A new policy.
    pub policy: Option<Policy>,
    /// The queue to run in; its own by default. It may exceed the depth limit there.
    pub queue: Option<Name>,
    /// When to run; immediately by default.
    pub due: Due,
    /// The name of the job's kind, as a confirmation for kinds registered as sensitive. Checked by layers in
    /// front of a store; stores ignore it.
    pub confirm: Option<Name>,
}

/// A change to a job.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Change {
    /// Cancel it. A running job is asked to stop and ends when its worker reports or dies.
    Cancel,
    /// Run it now.
    Promote,
    /// Change its run time.
    Reschedule(Due),
    /// Change its priority.
    Reprioritise(i32),
    /// Move a waiting job to another queue, which must have room. It enters at the tail, and keeps its id, parts,
    /// counters, history and keys. If another job holds its unique key there, the result is
    /// [`Error::Duplicate`](crate::Error::Duplicate). Needs [`Capability::Move`](super::Capability::Move).
    Move(Name),
    /// End a waiting job as dead, from where it can be replayed.
    Kill,
    /// Pause it.
    Pause,
    /// Resume it.
    Resume,
    /// Wake it, or keep the signal until it waits for it.
    Signal(Box<Signal>),
    /// Run a dead, cancelled or expired job again, with counters reset. It acquires its unique key again, or
    /// returns [`Error::Duplicate`](crate::Error::Duplicate).
    Replay(Box<Edits>),
    /// Delete an ended job now.
    Discard,
}

impl Change {
    /// A replay without edits.
    pub fn replay() -> Self {
        Self::Replay(Box::default())
    }

    /// A signal that consists of its name.
    pub fn signal(name: impl Into<Name>) -> Self {
        Signal::new(name).into()
    }

    /// The corresponding event of the state machine.
    pub const fn event(&self) -> EventKind {
        match self {
            Self::Cancel => EventKind::Cancel,
            Self::Promote => EventKind::Promote,
            Self::Reschedule(_) => EventKind::Reschedule,
            Self::Reprioritise(_) => EventKind::Reprioritise,
            Self::Move(_) => EventKind::Move,
            Self::Kill => EventKind::Kill,
            Self::Pause => EventKind::Pause,
            Self::Resume => EventKind::Resume,
            Self::Signal(_) => EventKind::Signal,
            Self::Replay(_) => EventKind::Replay,
            Self::Discard => EventKind::Discard,
        }
    }

    /// The queue that it moves the job to.
    pub fn queue(&self) -> Option<&Name> {
        match self {
            Self::Move(queue) => Some(queue),
            Self::Replay(edits) => edits.queue.as_ref(),
            Self::Cancel
            | Self::Promote
            | Self::Reschedule(_)
            | Self::Reprioritise(_)
            | Self::Kill
            | Self::Pause
            | Self::Resume
            | Self::Signal(_)
            | Self::Discard => None,
        }
    }

    /// Validates the change at `now`, for an engine with this payload limit.
    pub fn check(&self, now: Timestamp, payload_bytes_max: usize) -> Result<()> {
        match self {
            Self::Reschedule(due) => due.check(now),
            Self::Replay(edits) => {
                edits.payload.check(PartName::Payload, payload_bytes_max)?;
                edits.checkpoint.check(PartName::Checkpoint, payload_bytes_max)?;
                edits.due.check(now)?;
                edits.queue.as_ref().map_or(Ok(()), |queue| check_name("queue", queue))?;
                edits.policy.as_ref().map_or(Ok(()), Policy::check)
            }
            Self::Move(queue) => check_name("queue", queue),
            Self::Signal(signal) => signal.check(),
            _ => Ok(()),
        }
    }
}

impl From<Signal> for Change {
    fn from(signal: Signal) -> Self {
        Self::Signal(Box::new(signal))
    }
}

/// A change to one job.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ChangeItem {
    /// The job.
    pub id: JobId,
    /// The change.
    pub change: Change,
    /// The state that the change was decided for. A job in another state is left unchanged and returns
    /// [`Error::StateConflict`].
    pub if_state: Option<State>,
    /// The queue in which the caller expects the job. It may make the search cheaper and never changes its result: a
    /// job of another queue is changed, too.
    pub queue_hint: Option<Name>,
}

impl ChangeItem {
    /// A change to one job in any state.
    pub const fn new(id: JobId, change: Change) -> Self {
        Self { id, change, if_state: None, queue_hint: None }
    }

    /// Sets the queue in which the job is expected.
    #[must_use]
    pub fn queue_hint(mut self, queue: impl Into<Name>) -> Self {
        self.queue_hint = Some(queue.into());
        self
    }

    /// Validates the change at `now`, for an engine with this payload limit.
    pub fn check(&self, now: Timestamp, payload_bytes_max: usize) -> Result<()> {
        self.queue_hint.as_ref().map_or(Ok(()), |queue| check_name("queue_hint", queue))?;
        self.change.check(now, payload_bytes_max)
    }

    /// Applies the change only if the job is in this state.
    #[must_use]
    pub const fn if_state(mut self, state: State) -> Self {
        self.if_state = Some(state);
        self
    }

    /// Checks `found`, the current state of the job, against `if_state`.
    pub fn check_state(&self, found: State) -> Result<()> {
        match self.if_state {
            Some(expected) if expected != found => {
                Err(Error::StateConflict { id: self.id, expected, found })
            }
            _ => Ok(()),
        }
    }
}

growing! {
    /// The result of a change.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct Changed as ChangedFields {
        /// The job.
        pub id: JobId,
        /// The new state; `None` if the job was deleted.
        pub state: Option<State>,
    }
}

impl Changed {
    /// The result for a job that is in `state` now; `None` if it was deleted.
    pub const fn new(id: JobId, state: Option<State>) -> Self {
        Self { id, state }
    }
}
