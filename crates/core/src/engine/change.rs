//! Changing jobs from outside.

use crate::error::{Error, Result};
use crate::id::JobId;
use crate::machine::EventKind;
use crate::model::{Due, Name, PartEdit, PartName, Policy, State};
use crate::time::Timestamp;

/// What to change about a job that gets another life.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Edits {
    /// The input.
    pub payload: PartEdit,
    /// The checkpoint; keep it to resume, unset it to start over.
    pub state: PartEdit,
    /// Another priority.
    pub priority: Option<i32>,
    /// Another policy.
    pub policy: Option<Policy>,
    /// When to run; at once by default.
    pub due: Due,
    /// Its kind, said once more, where the kind is registered as sensitive. For whoever guards such
    /// kinds in front of a store; a store itself knows of none.
    pub confirm: Option<Name>,
}

/// What to do with a job.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Change {
    /// Call it off. A running one is told, and ends when its worker reports or dies.
    Cancel,
    /// Let it run now.
    Promote,
    /// Move its time.
    Reschedule(Due),
    /// Change its priority.
    Reprioritise(i32),
    /// Set it aside.
    Pause,
    /// Take it back.
    Resume,
    /// Wake it, or keep the signal for when it waits.
    Signal,
    /// Give a dead, cancelled or expired job another life, counters cleared. It takes its unique
    /// key again, or answers [`Error::Duplicate`](crate::Error::Duplicate).
    Replay(Box<Edits>),
    /// Throw an ended job away now.
    Discard,
}

impl Change {
    /// Another life as it was.
    pub fn replay() -> Self {
        Self::Replay(Box::default())
    }

    /// The event of the state machine it stands for.
    pub const fn event(&self) -> EventKind {
        match self {
            Self::Cancel => EventKind::Cancel,
            Self::Promote => EventKind::Promote,
            Self::Reschedule(_) => EventKind::Reschedule,
            Self::Reprioritise(_) => EventKind::Reprioritise,
            Self::Pause => EventKind::Pause,
            Self::Resume => EventKind::Resume,
            Self::Signal => EventKind::Signal,
            Self::Replay(_) => EventKind::Replay,
            Self::Discard => EventKind::Discard,
        }
    }

    /// Whether it is acceptable at `now` to an engine that takes payloads up to `payload_bytes_max`.
    pub fn check(&self, now: Timestamp, payload_bytes_max: usize) -> Result<()> {
        match self {
            Self::Reschedule(due) => due.check("run_at", now),
            Self::Replay(edits) => {
                edits.payload.check(PartName::Payload, payload_bytes_max)?;
                edits.state.check(PartName::State, payload_bytes_max)?;
                edits.due.check("run_at", now)?;
                edits.policy.as_ref().map_or(Ok(()), Policy::check)
            }
            _ => Ok(()),
        }
    }
}

/// One change.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ChangeItem {
    /// The job.
    pub id: JobId,
    /// What to do with it.
    pub change: Change,
    /// The state that the change was decided for. A job in another state answers
    /// [`Error::StateConflict`] and stays as it is.
    pub if_state: Option<State>,
}

impl ChangeItem {
    /// A change of one job, whatever its state.
    pub const fn new(id: JobId, change: Change) -> Self {
        Self { id, change, if_state: None }
    }

    /// Only while the job is in this state.
    #[must_use]
    pub const fn if_state(mut self, state: State) -> Self {
        self.if_state = Some(state);
        self
    }

    /// Whether the change may be made to the job while it is in state `found`.
    pub fn check_state(&self, found: State) -> Result<()> {
        match self.if_state {
            Some(expected) if expected != found => {
                Err(Error::StateConflict { id: self.id, expected, found })
            }
            _ => Ok(()),
        }
    }
}

/// The answer to a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Changed {
    /// The job.
    pub id: JobId,
    /// Where it stands now; `None` if it is gone.
    pub state: Option<State>,
}
