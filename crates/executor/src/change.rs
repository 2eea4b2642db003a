//! Changes by clients and operators, and settings.

use crate::commit::Transition;
use crate::enqueue::BatchPreview;
use crate::entry::Entry;
use crate::executor::Executor;
use crate::rows::Rows;
use crate::unknown;
use windlass_core::engine::{
    Capability, Change, ChangeItem, Changed, Configure, Edits, Item, Settings, check_items,
};
use windlass_core::limits::CALL_RESOLUTIONS_MAX;
use windlass_core::machine::EventKind;
use windlass_core::model::{Continuation, Due, Order, PartEdit, Signal, State};
use windlass_core::{Error, JobId, Result, Timestamp};

impl<R: Rows> Executor<R> {
    /// Changes jobs; see [`windlass_core::engine::Admin::change`].
    pub fn change(&mut self, batch: Vec<ChangeItem>, now: Timestamp) -> Result<Vec<Item<Changed>>> {
        check_items(&batch)?;
        self.begin_resolving(CALL_RESOLUTIONS_MAX);
        Ok(batch.into_iter().map(|item| self.change_one(item, now)).collect())
    }

    fn change_one(&mut self, item: ChangeItem, now: Timestamp) -> Item<Changed> {
        item.check(now, self.capabilities.payload_bytes_max)?;
        self.in_step_of(item.id, now, |executor| executor.change_in_step(item, now))
    }

    fn change_in_step(&mut self, item: ChangeItem, now: Timestamp) -> Item<Changed> {
        let (id, event) = (item.id, item.change.event());
        let at = |due: Due| Transition { run_at: Some(due.at(now)), ..Transition::default() };
        let data = match &item.change {
            Change::Promote => at(Due::Now),
            Change::Reschedule(due) => at(*due),
            Change::Reprioritise(priority) => {
                Transition { priority: Some(*priority), ..Transition::default() }
            }
            Change::Move(queue) => {
                Transition { queue: Some(queue.clone()), ..Transition::default() }
            }
            Change::Replay(edits) => {
                let queue = edits.queue.clone();
                Transition { priority: edits.priority, queue, ..at(edits.due) }
            }
            Change::Signal(signal) => {
                if let Some(state) = self.accepted(id, signal)? {
                    return Ok(Changed::new(id, Some(state)));
                }
                self.deliver(id, signal, now)?
            }
            Change::Cancel | Change::Kill | Change::Pause | Change::Resume | Change::Discard => {
                Transition::default()
            }
            _ => return Err(unknown("change")),
        };
        let fits = |executor: &Self, entry: &Entry| {
            item.check_state(entry.job.state)?;
            match item.change {
                Change::Replay(_) => executor.check_replay(entry, &data, now),
                Change::Move(_) => executor.check_move(entry, &data, now),
                Change::Signal(_) if entry.job.state.is_terminal() => Ok(()),
                Change::Signal(_) => check_inbox(entry, &data),
                Change::Cancel
                | Change::Promote
                | Change::Reschedule(_)
                | Change::Reprioritise(_)
                | Change::Kill
                | Change::Pause
                | Change::Resume
                | Change::Discard => Ok(()),
                _ => Err(unknown("change")),
            }
        };
        let taken = self.take_if(id, event, &data, now, fits)?;
        let mut taken = taken.ok_or(Error::NotFound { id })?;
        if let Change::Replay(edits) = item.change {
            edit(&mut taken.entry, *edits);
        }
        let (state, ()) = self.commit(taken, data, now, |_| ())?;
        Ok(Changed::new(id, state))
    }

    /// The state of a job that has accepted a signal with this id before.
    fn accepted(&self, id: JobId, signal: &Signal) -> Result<Option<State>> {
        let Some(signal_id) = &signal.id else { return Ok(None) };
        self.read(id, |entry| {
            let seen = entry.continuation().is_some_and(|kept| kept.has_seen(signal_id));
            seen.then_some(entry.job.state)
        })
    }

    /// The data of a signal. One that ends a wait with a time limit makes the job due.
    fn deliver(&self, id: JobId, signal: &Signal, now: Timestamp) -> Result<Transition> {
        let mut data = Transition { signal: Some(signal.clone()), ..Transition::default() };
        let timed = self.read(id, |entry| {
            let wait = data.wait(entry).filter(|_| data.takes_signal(entry));
            wait.is_some_and(|wait| wait.timeout_ms.is_some())
        })?;
        data.run_at = timed.then_some(now);
        Ok(data)
    }

    /// Checks that a job can be replayed: it has ended, and no other job holds its unique key.
    fn check_replay(&self, entry: &Entry, data: &Transition, now: Timestamp) -> Result<()> {
        self.decide(entry, EventKind::Replay, data, now)?;
        if entry.job.dependencies.total > 0 {
            self.check_outbox(1)?;
        }
        let mut batch = BatchPreview::default();
        if let Some(queue) = data.queue.as_ref().filter(|queue| **queue != entry.job.header.queue) {
            self.preview_lane_of(entry, queue, &mut batch)?;
        }
        let queue = data.queue.as_ref().unwrap_or(&entry.job.header.queue);
        match entry.unique_slot_in(queue) {
            Some(slot) => self.check_free(&slot, entry, now),
            None => Ok(()),
        }
    }

    /// Checks that a job can be moved: it waits, the other queue has room, and no job there holds its unique key.
    fn check_move(&self, entry: &Entry, data: &Transition, now: Timestamp) -> Result<()> {
        self.decide(entry, EventKind::Move, data, now)?;
        let queue = data.queue.as_ref().filter(|queue| **queue != entry.job.header.queue);
        let Some(queue) = queue else { return Ok(()) };
        let mut batch = BatchPreview::default();
        self.preview_move(entry, queue, &mut batch, now)?;
        self.preview_depth(queue, &mut batch)
    }

    /// Changes settings; see [`windlass_core::engine::Admin::configure`].
    pub fn configure(&mut self, batch: Vec<Configure>, now: Timestamp) -> Result<Vec<Item<()>>> {
        check_items(&batch)?;
        Ok(batch.into_iter().map(|change| self.configure_one(change, now)).collect())
    }

    fn configure_one(&mut self, change: Configure, now: Timestamp) -> Result<()> {
        change.check()?;
        match change {
            Configure::Queue(queue, patch) => {
                if patch.order == Some(Order::Fair) && !self.capabilities.has(Capability::FairOrder)
                {
                    return Err(Error::Unsupported {
                        engine: self.capabilities.engine,
                        capability: Capability::FairOrder,
                        hint: "use another order",
                    });
                }
                if let Some(limits) = &patch.limits {
                    self.check_listed(limits, Some(&queue))?;
                }
                if let Some(subscriptions) = &patch.subscriptions {
                    self.check_subscriptions(&queue, subscriptions)?;
                }
                if let Some(events) = patch.events {
                    self.check_events(&queue, events)?;
                }
                let settings = self.queues.entry(queue.clone()).or_default();
                let had_events = settings.events.is_some();
                patch.apply(settings);
                let switches_events = settings.events.is_some() != had_events;
                if *settings == Default::default() {
                    self.queues.remove(&queue);
                }
                self.rows.save_queue(&queue, self.queues.get(&queue))?;
                if switches_events {
                    self.rows.reset_events(&queue, now)?;
                    // Readers that wait learn of it.
                    self.events += 1;
                }
                if patch.limits.is_some() {
                    self.relist(Some(&queue), None, now)?;
                }
            }
            Configure::Kind(kind, patch) => {
                if let Some(limits) = &patch.limits {
                    self.check_listed(limits, None)?;
                }
                let settings = self.kinds.entry(kind.clone()).or_default();
                patch.apply(settings);
                if *settings == Default::default() {
                    self.kinds.remove(&kind);
                }
                self.rows.save_kind(&kind, self.kinds.get(&kind))?;
                if patch.limits.is_some() {
                    self.relist(None, Some(&kind), now)?;
                }
            }
            Configure::Limit(name, limit) => {
                self.set_limit(name, limit.map(|limit| *limit), now)?;
            }
            _ => {
                return Err(Error::invalid(
                    "configure",
                    "?",
                    "this engine is older than the request",
                ));
            }
        }
        // A gate may have opened.
        self.readied += 1;
        Ok(())
    }

    /// All settings that differ from the defaults.
    pub fn settings(&self) -> Settings {
        let queues = self.queues.iter().map(|(name, s)| (name.clone(), s.clone())).collect();
        let kinds = self.kinds.iter().map(|(name, s)| (name.clone(), s.clone())).collect();
        let limits = self.limits.iter().map(|(name, limit)| (name.clone(), limit.clone()));
        Settings::new(queues, kinds).limits(limits.collect())
    }
}

/// Checks that the inbox has room for a signal that no wait takes.
fn check_inbox(entry: &Entry, data: &Transition) -> Result<()> {
    let Some(signal) = data.signal.as_ref().filter(|_| !data.takes_signal(entry)) else {
        return Ok(());
    };
    match entry.continuation() {
        Some(continuation) => continuation.check_room(signal),
        None => Continuation::default().check_room(signal),
    }
}

/// Applies the edits of a replay.
fn edit(entry: &mut Entry, edits: Edits) {
    edits.payload.apply(&mut entry.job.parts.payload);
    if edits.checkpoint == PartEdit::Unset {
        // It starts over.
        entry.continue_with(|continuation| continuation.steps.clear());
    }
    edits.checkpoint.apply(&mut entry.job.parts.checkpoint);
    if let Some(policy) = edits.policy {
        entry.job.header.policy = policy;
    }
}
