//! The store: the jobs, and the one function through which they change.

use crate::entry::{Entry, Leased, UniqueSlot};
use crate::index::Index;
use crate::records::Records;
use crate::session::SessionEntry;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use windlass_core::engine::{Capabilities, SessionId};
use windlass_core::machine::{Effect, EventKind, Facts, Refusal, Step, step};
use windlass_core::model::{
    AttemptEnd, Finish, JobError, KindSettings, Name, Order, QueueSettings, State,
};
use windlass_core::policy::{FairClock, Ready, rank};
use windlass_core::random::Random;
use windlass_core::{Error, JobId, Result, Timestamp};

/// The tenants of a fair queue and their turns.
#[derive(Debug, Default)]
pub(crate) struct Turns {
    pub(crate) clock: FairClock,
    /// Each tenant's latest turn. Tenants behind the turn being served are newcomers again and
    /// are forgotten by compaction.
    pub(crate) latest: HashMap<Option<String>, i64>,
}

/// A unique key that is held.
#[derive(Clone, Copy, Debug)]
pub(crate) struct UniqueHold {
    pub(crate) holder: JobId,
    /// `None`: until the holder ends.
    pub(crate) until: Option<Timestamp>,
}

/// What happens to a job, with the numbers the state machine does not know.
#[derive(Debug, Default)]
pub(crate) struct Happening {
    /// The time it is to run, if the event sets one.
    pub(crate) run_at: Option<Timestamp>,
    /// Another priority.
    pub(crate) priority: Option<i32>,
    /// The lease it runs under from now on.
    pub(crate) lease: Option<Leased>,
    /// Why it ended, if it is not what the event says.
    pub(crate) finish: Option<Finish>,
    /// What its worker reported.
    pub(crate) error: Option<JobError>,
}

/// Jobs, sessions, keys, settings, records.
pub(crate) struct Store {
    pub(crate) capabilities: Capabilities,
    pub(crate) random: Arc<dyn Random>,
    /// In order of id, which is the order of listings.
    pub(crate) jobs: BTreeMap<JobId, Box<Entry>>,
    pub(crate) index: Index,
    pub(crate) sessions: BTreeMap<SessionId, SessionEntry>,
    pub(crate) uniques: BTreeMap<UniqueSlot, UniqueHold>,
    pub(crate) queues: BTreeMap<Name, QueueSettings>,
    pub(crate) kinds: BTreeMap<Name, KindSettings>,
    pub(crate) turns: HashMap<Name, Turns>,
    pub(crate) records: Records,
    /// Counts entries; the second half of a job's place.
    seq: u64,
    /// Counts jobs that became ready and gates that opened: what waiters watch.
    pub(crate) readied: u64,
}

impl Store {
    pub(crate) fn new(capabilities: Capabilities, random: Arc<dyn Random>) -> Self {
        Self {
            capabilities,
            random,
            jobs: BTreeMap::new(),
            index: Index::default(),
            sessions: BTreeMap::new(),
            uniques: BTreeMap::new(),
            queues: BTreeMap::new(),
            kinds: BTreeMap::new(),
            turns: HashMap::new(),
            records: Records::default(),
            seq: 0,
            readied: 0,
        }
    }

    pub(crate) fn entry(&self, id: JobId) -> Result<&Entry> {
        self.jobs.get(&id).map(|entry| &**entry).ok_or(Error::NotFound { id })
    }

    pub(crate) fn queue_settings(&self, queue: &Name) -> QueueSettings {
        self.queues.get(queue).cloned().unwrap_or_default()
    }

    pub(crate) fn state(&self, id: JobId) -> Option<State> {
        self.jobs.get(&id).map(|entry| entry.job.state)
    }

    /// Stores a new job; whoever calls has settled its uniqueness.
    pub(crate) fn insert(&mut self, mut entry: Box<Entry>, now: Timestamp) -> State {
        let facts = self.facts(&entry, EventKind::Enqueue, &Happening::default(), now);
        // Enqueue is possible from nothing under any facts.
        let Ok(taken) = step(None, EventKind::Enqueue, facts) else { return entry.job.state };
        let state = taken.next.unwrap_or(State::Scheduled);
        self.enter(&mut entry, state, now);
        self.index.insert(&entry);
        self.jobs.insert(entry.id(), entry);
        state
    }

    /// Lets something happen to a job: the only way a stored job ever changes its state.
    ///
    /// Asks the machine, then carries out the next state and every effect in one step.
    pub(crate) fn apply(
        &mut self,
        id: JobId,
        event: EventKind,
        what: Happening,
        now: Timestamp,
    ) -> Result<Option<State>> {
        let taken = self.foresee_step(id, event, &what, now)?;
        let Some(mut entry) = self.jobs.remove(&id) else { return Err(Error::NotFound { id }) };
        self.index.remove(&entry);
        let Some(next) = taken.next else { return Ok(None) };
        self.carry_out(&mut entry, taken, event, what, now);
        if taken.effects.has(Effect::Emit) {
            self.enter(&mut entry, next, now);
        }
        self.index.insert(&entry);
        let freed = taken.effects.has(Effect::HandOverKey).then(|| self.index.next_in_line(&entry));
        self.jobs.insert(id, entry);
        if let Some(heir) = freed.flatten() {
            self.apply(heir, EventKind::Free, Happening::default(), now)?;
        }
        Ok(Some(next))
    }

    /// What would happen.
    pub(crate) fn foresee_step(
        &self,
        id: JobId,
        event: EventKind,
        what: &Happening,
        now: Timestamp,
    ) -> Result<Step> {
        let entry = self.entry(id)?;
        let state = entry.job.state;
        step(Some(state), event, self.facts(entry, event, what, now))
            .map_err(|Refusal(hint)| Error::Refused { id, state, event, hint })
    }

    /// What the machine must know about this job and this event.
    fn facts(&self, entry: &Entry, event: EventKind, what: &Happening, now: Timestamp) -> Facts {
        let header = &entry.job.header;
        Facts {
            due: what.run_at.unwrap_or(header.run_at) <= now,
            waits: match event {
                EventKind::Signal => false,
                EventKind::Wait => !entry.signalled,
                _ => entry.waits,
            },
            key_taken: self.index.key_taken(entry),
            spent: match event {
                EventKind::Retry => header.counters.failure_spends(&header.policy),
                EventKind::Lose => header.counters.crash_spends(&header.policy),
                _ => false,
            },
            cancel_requested: entry.job.cancel_requested,
        }
    }

    /// The effects of a transition on the job itself and on its unique key.
    fn carry_out(
        &mut self,
        entry: &mut Entry,
        taken: Step,
        event: EventKind,
        what: Happening,
        now: Timestamp,
    ) {
        let does = |effect| taken.effects.has(effect);
        if does(Effect::EndLease) {
            entry.end_attempt(attempt_end(event), what.error, now);
        }
        let counters = &mut entry.job.header.counters;
        if does(Effect::IssueLease) {
            counters.attempt = counters.attempt.saturating_add(1);
            entry.job.started_at = Some(now);
            entry.leased = what.lease;
        }
        if does(Effect::CountFailure) {
            counters.failures = counters.failures.saturating_add(1);
        }
        if does(Effect::CountCrash) {
            counters.crashes = counters.crashes.saturating_add(1);
        }
        if does(Effect::ClearCrashes) || does(Effect::ClearBudgets) {
            counters.crashes = 0;
        }
        if does(Effect::ClearBudgets) {
            counters.failures = 0;
            entry.job.finish = None;
            entry.job.finished_at = None;
            entry.job.cancel_requested = false;
            entry.signalled = false;
        }
        if does(Effect::RequestCancel) {
            entry.job.cancel_requested = true;
        }
        if does(Effect::FreeUnique) {
            entry.holds_key = false;
            self.free_unique(entry);
        }
        if let Some(run_at) = what.run_at {
            entry.job.header.run_at = run_at;
        }
        if let Some(priority) = what.priority {
            entry.job.header.priority = priority;
        }
        match event {
            EventKind::Wait => entry.waits = !std::mem::take(&mut entry.signalled),
            // It ends a wait, wherever the job is by now, or is kept for the next one.
            EventKind::Signal if entry.waits => entry.waits = false,
            EventKind::Signal => entry.signalled = true,
            _ => {}
        }
        if taken.next.is_some_and(State::is_terminal) && !entry.job.state.is_terminal() {
            entry.waits = false;
            entry.job.finished_at = Some(now);
            entry.job.finish = Some(what.finish.unwrap_or_else(|| finish(taken.next, event)));
        }
    }

    /// Puts a job at the tail of its new state.
    fn enter(&mut self, entry: &mut Entry, state: State, now: Timestamp) {
        self.seq += 1;
        entry.seq = self.seq;
        entry.job.state = state;
        if state == State::Available {
            entry.holds_key = entry.job.header.key.is_some();
            entry.ready_at = now;
            entry.rank = self.rank(entry, now);
            self.readied += 1;
        }
    }

    fn rank(&mut self, entry: &Entry, now: Timestamp) -> i64 {
        let header = &entry.job.header;
        let order = self.queues.get(&header.queue).map(|settings| settings.order);
        let order = order.unwrap_or_default();
        let turn = match order {
            Order::Fair => self.take_turn(&header.queue, &header.tenant),
            _ => 0,
        };
        rank(order, Ready { priority: header.priority, at: now, turn })
    }

    fn take_turn(&mut self, queue: &Name, tenant: &Option<String>) -> i64 {
        let turns = self.turns.entry(queue.clone()).or_default();
        let turn = turns.clock.take_turn(turns.latest.get(tenant).copied());
        turns.latest.insert(tenant.clone(), turn);
        turn
    }
}

/// How an attempt that this event ends stands in the history.
const fn attempt_end(event: EventKind) -> AttemptEnd {
    match event {
        EventKind::Complete => AttemptEnd::Complete,
        EventKind::Retry => AttemptEnd::Retry,
        EventKind::Snooze => AttemptEnd::Snooze,
        EventKind::Fail => AttemptEnd::Fail,
        EventKind::Release => AttemptEnd::Release,
        EventKind::Wait => AttemptEnd::Wait,
        EventKind::CancelSelf => AttemptEnd::Cancel,
        _ => AttemptEnd::Lost,
    }
}

/// Why a job ended that this event led there.
const fn finish(next: Option<State>, event: EventKind) -> Finish {
    match (next, event) {
        (Some(State::Completed), _) => Finish::Completed,
        (Some(State::Expired), _) => Finish::Expired,
        (Some(State::Dead), EventKind::Retry) => Finish::AttemptsSpent,
        (Some(State::Dead), EventKind::Lose) => Finish::CrashesSpent,
        (Some(State::Dead), _) => Finish::Failed,
        _ => Finish::Cancelled,
    }
}
