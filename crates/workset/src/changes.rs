//! The difference between the loaded rows and a working set: what a store has to save.

use crate::loaded::Found;
use crate::set::{Touched, WorkingSet};
use std::collections::HashMap;
use windlass_core::engine::{Event, RemovedKey, SessionId};
use windlass_core::model::{KindSettings, Name, QueueSettings};
use windlass_core::{JobId, Timestamp};
use windlass_executor::{Entry, SessionEntry, Turns, UniqueHold, UniqueSlot};

/// A job before and after a run.
#[derive(Debug)]
pub struct ChangedJob<'a, X> {
    /// The stored job; `None`: it is new.
    pub before: Option<&'a Found<X>>,
    /// The job to store; `None`: it is removed.
    pub after: Option<&'a Entry>,
}

/// The holder of an ordering key before and after a run.
#[derive(Debug)]
pub struct ChangedKey<'a> {
    /// The queue of the key.
    pub queue: &'a Name,
    /// The key.
    pub key: &'a str,
    /// The stored holder.
    pub before: Option<JobId>,
    /// The holder to store.
    pub after: Option<JobId>,
}

/// The holder of a unique key before and after a run.
#[derive(Debug)]
pub struct ChangedUnique<'a> {
    /// The key and its scope.
    pub slot: &'a UniqueSlot,
    /// The stored holder.
    pub before: Option<UniqueHold>,
    /// The holder to store.
    pub after: Option<UniqueHold>,
}

/// The turns of a fair queue that a run has taken and served.
#[derive(Debug)]
pub struct ChangedTurn<'a> {
    /// The queue.
    pub queue: &'a Name,
    /// The tenants that took turns: the stored latest turn, if any, and the latest turn to store.
    pub tenants: Vec<(&'a Option<String>, Option<i64>, i64)>,
    /// The turn being served, if the run has advanced it.
    pub served: Option<i64>,
}

impl<X> WorkingSet<'_, X> {
    /// The jobs that the run created, changed or removed.
    pub fn changed(&self) -> impl Iterator<Item = ChangedJob<'_, X>> {
        self.jobs.iter().filter_map(|(id, touched)| {
            let before = self.base.found(*id);
            match touched {
                Touched::Stored(entry) => Some(ChangedJob { before, after: Some(entry) }),
                Touched::Removed if before.is_some() => Some(ChangedJob { before, after: None }),
                Touched::Removed | Touched::Taken { .. } => None,
            }
        })
    }

    /// The ordering keys whose holder changed.
    pub fn changed_keys(&self) -> impl Iterator<Item = ChangedKey<'_>> {
        self.lines.iter().filter_map(|(name, line)| {
            let before = self.base.lines.get(name)?.holder;
            let (queue, key) = (&name.0, &*name.1);
            (before != line.holder).then_some(ChangedKey { queue, key, before, after: line.holder })
        })
    }

    /// The unique keys whose holder changed.
    pub fn changed_uniques(&self) -> impl Iterator<Item = ChangedUnique<'_>> {
        self.uniques.iter().filter_map(|(slot, after)| {
            let before = self.base.uniques.get(slot).copied().flatten();
            (before != *after).then_some(ChangedUnique { slot, before, after: *after })
        })
    }

    /// The removed jobs to add to the history.
    pub fn removed(&self) -> impl Iterator<Item = (&RemovedKey, u64)> {
        self.removed.iter().map(|(key, count)| (key, *count))
    }

    /// The events to append, in their order, each with the queue of its stream.
    pub fn appended_events(&self) -> impl Iterator<Item = (&Name, &Event)> {
        self.events.iter().map(|(queue, event)| (queue, event))
    }

    /// The queues whose streams of events end, when, and whether a new one begins. Comes before
    /// [`appended_events`](Self::appended_events).
    pub fn event_resets(&self) -> impl Iterator<Item = (&Name, Timestamp, bool)> {
        let is_on = |queue: &Name| match self.queues.get(queue) {
            Some(settings) => settings.as_ref().is_some_and(|it| it.events.is_some()),
            None => self.base.settings_of(queue).events.is_some(),
        };
        self.event_resets.iter().map(move |(queue, at)| (queue, *at, is_on(queue)))
    }

    /// The sessions to store; `None`: to remove.
    pub fn changed_sessions(&self) -> impl Iterator<Item = (&SessionId, Option<&SessionEntry>)> {
        // A session that was opened and ended within the run was never stored.
        let stored = |id: &SessionId| self.base.sessions.contains_key(id);
        let changed = self.sessions.iter().map(|(id, session)| (id, session.as_ref()));
        changed.filter(move |(id, session)| session.is_some() || stored(id))
    }

    /// The settings of queues to store; `None`: the defaults.
    pub fn changed_queues(&self) -> impl Iterator<Item = (&Name, Option<&QueueSettings>)> {
        self.queues.iter().map(|(queue, settings)| (queue, settings.as_ref()))
    }

    /// The settings of kinds to store; `None`: the defaults.
    pub fn changed_kinds(&self) -> impl Iterator<Item = (&Name, Option<&KindSettings>)> {
        self.kinds.iter().map(|(kind, settings)| (kind, settings.as_ref()))
    }

    /// The turns that the run has taken and served.
    pub fn changed_turns<'a>(
        &'a self,
        turns: &'a HashMap<Name, Turns>,
    ) -> impl Iterator<Item = ChangedTurn<'a>> {
        turns.iter().map(|(queue, Turns { clock, latest })| {
            let mut served = 0;
            let mut tenants = Vec::with_capacity(latest.len());
            for (tenant, turn) in latest {
                let standing = self.base.standing(queue, tenant).unwrap_or_default();
                served = served.max(standing.served);
                tenants.push((tenant, standing.latest, *turn));
            }
            let served = (clock.served > served).then_some(clock.served);
            ChangedTurn { queue, tenants, served }
        })
    }

    /// Whether a session belongs to a single claim.
    pub fn is_alone(&self, id: &SessionId) -> bool {
        let loaded = || self.base.sessions.get(id);
        let session = self.sessions.get(id).map_or_else(loaded, Option::as_ref);
        session.is_some_and(|session| session.alone)
    }
}
