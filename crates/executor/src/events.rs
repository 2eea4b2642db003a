//! Events: the transitions of the jobs of queues that record them.

use crate::entry::Entry;
use crate::executor::Executor;
use crate::rows::{Maintenance, Rows};
use windlass_core::engine::{
    Capability, Event, EventFields, EventsReply, EventsRequest, MaintainRequest, events_are_off,
    events_unsupported,
};
use windlass_core::limits::EVENT_QUEUES_MAX;
use windlass_core::machine::{Effect, EventKind, Step};
use windlass_core::model::{EventBounds, JobError, Name, State};
use windlass_core::{Error, Result, Timestamp};

/// What an event records about a transition, noted before its effects are executed.
pub(crate) struct Noted {
    /// The queue that the job is in before, and the bounds of its events.
    from: (Name, Option<EventBounds>),
    /// The code of the error that the worker reported.
    error: Option<String>,
}

impl<R: Rows> Executor<R> {
    fn event_bounds(&self, queue: &Name) -> Option<EventBounds> {
        self.queues.get(queue)?.events
    }

    /// Notes what the event of this step needs; `None` if no queue records it.
    ///
    /// A step that changes the state of the job, or its place in it, has an event. Others, such as the request to cancel a
    /// running job, are no transitions.
    pub(crate) fn note_event(
        &self,
        entry: &Entry,
        step: Step,
        goes_to: Option<&Name>,
        error: Option<&JobError>,
    ) -> Option<Noted> {
        let from = &entry.job.header.queue;
        let bounds = self.event_bounds(from);
        let is_recorded = bounds.is_some() || self.event_bounds(goes_to?).is_some();
        let moves = [Effect::Moved, Effect::Arrive].into_iter().any(|it| step.effects.has(it));
        (is_recorded && (moves || step.next.is_none())).then(|| Noted {
            from: (from.clone(), bounds),
            error: error.map(|error| error.code.clone()),
        })
    }

    /// Appends the event of a step whose effects were executed: to the stream of the job's queue, and to that of the queue
    /// that it has left.
    pub(crate) fn record_event(
        &mut self,
        noted: Noted,
        entry: &Entry,
        event: EventKind,
        next: Option<State>,
        now: Timestamp,
    ) -> Result<()> {
        let job = &entry.job;
        let Noted { from: (from, bounds), error } = noted;
        let is_removed = next.is_none();
        let number = job.transitions.saturating_add(u32::from(is_removed));
        let ends = next.is_some_and(State::is_terminal);
        let event: Event = EventFields {
            job: job.header.id,
            queue: job.header.queue.clone(),
            kind: job.header.kind.clone(),
            number,
            event,
            state: next,
            at: now,
            attempt: job.header.counters.attempt,
            reason: job.finish.clone().filter(|_| ends),
            error,
        }
        .into();
        let queue = event.queue.clone();
        if queue != from
            && let Some(bounds) = self.event_bounds(&queue)
        {
            self.append_event(&queue, bounds, event.clone())?;
        }
        match bounds {
            Some(bounds) => self.append_event(&from, bounds, event),
            None => Ok(()),
        }
    }

    fn append_event(&mut self, queue: &Name, bounds: EventBounds, event: Event) -> Result<()> {
        self.events += 1;
        self.rows.append_event(queue, bounds, event)
    }

    /// Checks that events of a queue can be switched on.
    pub(crate) fn check_events(&self, queue: &Name, bounds: Option<EventBounds>) -> Result<()> {
        if bounds.is_none() {
            return Ok(());
        }
        self.can_have_events()?;
        let others = self.queues.iter().filter(|(name, it)| *name != queue && it.events.is_some());
        if others.count() < EVENT_QUEUES_MAX {
            return Ok(());
        }
        let hint = "switch the events of another queue off";
        Err(Error::TooLarge {
            field: "queues with events".into(),
            size: EVENT_QUEUES_MAX as u64 + 1,
            limit: EVENT_QUEUES_MAX as u64,
            hint,
        })
    }

    fn can_have_events(&self) -> Result<()> {
        if self.capabilities.has(Capability::Events) {
            return Ok(());
        }
        Err(events_unsupported(&self.capabilities))
    }

    /// A counter that rises with every event, for readers that wait.
    pub const fn events_appended(&self) -> u64 {
        self.events
    }
}

impl<R: Maintenance> Executor<R> {
    /// Events of a queue, without waiting; see [`windlass_core::engine::Admin::events`].
    pub fn events(&mut self, request: &EventsRequest) -> Result<EventsReply> {
        request.check()?;
        self.can_have_events()?;
        match self.event_bounds(&request.queue) {
            Some(_) => self.rows.events(request),
            None => Err(events_are_off(&request.queue)),
        }
    }

    /// Drops old events, within the budget of a step. Returns whether more are left.
    pub(crate) fn drop_events(&mut self, request: MaintainRequest, now: Timestamp) -> Result<bool> {
        if !self.capabilities.has(Capability::Events) {
            return Ok(false);
        }
        let bounds = |queue: &Name| self.queues.get(queue)?.events;
        self.rows.drop_events(&bounds, now, request.budget as usize)
    }
}
