//! Changes of jobs by clients other than their workers.

use crate::bounded;
use crate::new_job::{due_in, due_out};
#[cfg(feature = "openapi")]
use crate::openapi;
use crate::part::{PartEdits, absent, edit_in, edit_out};
use crate::policy::Policy;
use crate::signal::Signal;
use serde::{Deserialize, Serialize};
use windlass_core::engine;
use windlass_core::limits::BATCH_MAX;
use windlass_core::model::{self, Name, State};
use windlass_core::{Error, JobId, Result, Timestamp};

/// The type of change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum Change {
    /// Cancel it.
    Cancel,
    /// Make it due now.
    Promote,
    /// Change its due time to `run_at` or `delay_ms`; now if neither is given.
    Reschedule,
    /// Set its `priority`.
    Reprioritise,
    /// Move it to another `queue`.
    Move,
    /// End it as dead.
    Kill,
    /// Pause it.
    Pause,
    /// Resume it.
    Resume,
    /// Send it a `signal`.
    Signal,
    /// Replay it, with `edits`.
    Replay,
    /// Delete it.
    Discard,
}

/// Changes to a job that is replayed.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct Edits {
    /// New payload and checkpoint.
    #[serde(default, skip_serializing_if = "PartEdits::is_empty")]
    pub parts: PartEdits,
    /// New priority.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<openapi::Priority>))]
    pub priority: Option<i32>,
    /// New policy.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub policy: Option<Policy>,
    /// Queue to run in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<openapi::Name>))]
    pub queue: Option<Name>,
    /// Delay until the job is due.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<openapi::DelayMs>))]
    pub delay_ms: Option<u64>,
    /// Time at which the job is due.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<openapi::Timestamp>))]
    pub run_at: Option<Timestamp>,
    /// The job's kind, as confirmation; required to replay jobs of a sensitive kind.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<openapi::Name>))]
    pub confirm: Option<Name>,
}

impl Edits {
    /// Converts to the core edits.
    pub fn into_core(self) -> Result<engine::Edits> {
        let why = "a replay can edit payload and checkpoint";
        absent(&self.parts.blob, "parts.blob", why)?;
        absent(&self.parts.metadata, "parts.metadata", why)?;
        absent(&self.parts.result, "parts.result", why)?;
        let mut edits = engine::Edits::default();
        edits.payload = edit_in(self.parts.payload, "parts.payload")?;
        edits.checkpoint = edit_in(self.parts.checkpoint, "parts.checkpoint")?;
        edits.priority = self.priority;
        edits.policy = self.policy.map(Into::into);
        edits.due = due_in(self.delay_ms, self.run_at)?;
        edits.queue = self.queue;
        edits.confirm = self.confirm;
        Ok(edits)
    }
}

impl From<engine::Edits> for Edits {
    fn from(edits: engine::Edits) -> Self {
        let (delay_ms, run_at) = due_out(edits.due);
        let (payload, checkpoint) = (edit_out(edits.payload), edit_out(edits.checkpoint));
        let parts = PartEdits { payload, checkpoint, ..PartEdits::default() };
        let policy = edits.policy.map(Into::into);
        let engine::Edits { priority, queue, confirm, .. } = edits;
        Self { parts, priority, policy, queue, delay_ms, run_at, confirm }
    }
}

/// A change of one job.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema), schema(examples(json!({"id": "0190f5f6-6f3c-7d9b-9d0c-7b1f6a3f0c11", "change": "cancel"}))))]
#[serde(deny_unknown_fields)]
pub struct JobChange {
    /// The job.
    #[cfg_attr(feature = "openapi", schema(value_type = openapi::JobId))]
    pub id: JobId,
    /// The type of change.
    pub change: Change,
    /// New priority, for `reprioritise`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<openapi::Priority>))]
    pub priority: Option<i32>,
    /// Queue to move to, for `move`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<openapi::Name>))]
    pub queue: Option<Name>,
    /// Delay until the job is due, for `reschedule`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<openapi::DelayMs>))]
    pub delay_ms: Option<u64>,
    /// Time at which the job is due, for `reschedule`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<openapi::Timestamp>))]
    pub run_at: Option<Timestamp>,
    /// The signal, for `signal`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signal: Option<Signal>,
    /// Changes to the job, for `replay`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub edits: Option<Edits>,
    /// Required state of the job; in another state the change fails with `state_conflict`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<openapi::State>))]
    pub if_state: Option<State>,
    /// Queue in which the job is expected. A job of another queue is changed, too.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<openapi::Name>))]
    pub queue_hint: Option<Name>,
}

impl JobChange {
    /// Converts to the core change.
    pub fn into_core(self) -> Result<engine::ChangeItem> {
        if self.change != Change::Reprioritise {
            absent(&self.priority, "priority", "only `reprioritise` has a priority")?;
        }
        if self.change != Change::Move {
            absent(&self.queue, "queue", "only `move` has a queue; a replay has it in `edits`")?;
        }
        if self.change != Change::Reschedule {
            absent(&self.delay_ms, "delay_ms", "only `reschedule` has a time")?;
            absent(&self.run_at, "run_at", "only `reschedule` has a time")?;
        }
        if self.change != Change::Signal {
            absent(&self.signal, "signal", "only `signal` has a signal")?;
        }
        if self.change != Change::Replay {
            absent(&self.edits, "edits", "only `replay` has edits")?;
        }
        let change = match self.change {
            Change::Cancel => engine::Change::Cancel,
            Change::Promote => engine::Change::Promote,
            Change::Reschedule => engine::Change::Reschedule(due_in(self.delay_ms, self.run_at)?),
            Change::Reprioritise => {
                let needed = || Error::invalid("priority", "missing", "give the new priority");
                engine::Change::Reprioritise(self.priority.ok_or_else(needed)?)
            }
            Change::Move => {
                let needed = || Error::invalid("queue", "missing", "give the queue to move to");
                engine::Change::Move(self.queue.ok_or_else(needed)?)
            }
            Change::Kill => engine::Change::Kill,
            Change::Pause => engine::Change::Pause,
            Change::Resume => engine::Change::Resume,
            Change::Signal => {
                let needed = || Error::invalid("signal", "missing", "give the signal: {\"name\"}");
                model::Signal::from(self.signal.ok_or_else(needed)?).into()
            }
            Change::Replay => {
                let edits = self.edits.unwrap_or_default().into_core();
                engine::Change::Replay(Box::new(edits.map_err(|error| error.within("edits"))?))
            }
            Change::Discard => engine::Change::Discard,
        };
        let mut item = engine::ChangeItem::new(self.id, change);
        (item.if_state, item.queue_hint) = (self.if_state, self.queue_hint);
        Ok(item)
    }
}

impl TryFrom<engine::ChangeItem> for JobChange {
    type Error = Error;

    /// Fails for changes in core that this protocol version cannot express.
    fn try_from(item: engine::ChangeItem) -> Result<Self> {
        let mut request = Self {
            id: item.id,
            change: Change::Cancel,
            priority: None,
            queue: None,
            delay_ms: None,
            run_at: None,
            signal: None,
            edits: None,
            if_state: item.if_state,
            queue_hint: item.queue_hint,
        };
        request.change = match item.change {
            engine::Change::Cancel => Change::Cancel,
            engine::Change::Promote => Change::Promote,
            engine::Change::Reschedule(due) => {
                (request.delay_ms, request.run_at) = due_out(due);
                Change::Reschedule
            }
            engine::Change::Reprioritise(priority) => {
                request.priority = Some(priority);
                Change::Reprioritise
            }
            engine::Change::Move(queue) => {
                request.queue = Some(queue);
                Change::Move
            }
            engine::Change::Kill => Change::Kill,
            engine::Change::Pause => Change::Pause,
            engine::Change::Resume => Change::Resume,
            engine::Change::Signal(signal) => {
                // A payload that is not JSON cannot be sent.
                signal.check()?;
                request.signal = Some((*signal).into());
                Change::Signal
            }
            engine::Change::Replay(edits) => {
                request.edits = Some((*edits).into());
                Change::Replay
            }
            engine::Change::Discard => Change::Discard,
            other => {
                let expected = "this protocol version does not support it";
                return Err(Error::invalid("change", other.event(), expected));
            }
        };
        Ok(request)
    }
}

/// A batch of changes.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct ChangeBatch {
    /// The changes.
    #[serde(deserialize_with = "bounded::vec::<BATCH_MAX, _, _>")]
    #[cfg_attr(feature = "openapi", schema(max_items = 10000))]
    pub items: Vec<JobChange>,
}

/// The result of a change.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Changed {
    /// The job.
    #[cfg_attr(feature = "openapi", schema(value_type = openapi::JobId))]
    pub id: JobId,
    /// The job's new state; absent if it was deleted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<openapi::State>))]
    pub state: Option<State>,
}

impl From<engine::Changed> for Changed {
    fn from(changed: engine::Changed) -> Self {
        let engine::ChangedFields { id, state } = changed.into();
        Self { id, state }
    }
}

impl From<Changed> for engine::Changed {
    fn from(changed: Changed) -> Self {
        let Changed { id, state } = changed;
        engine::ChangedFields { id, state }.into()
    }
}
