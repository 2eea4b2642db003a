//! The executor: the one function through which a stored job ever changes its state.

use crate::entry::{Entry, Leased};
use crate::rows::Rows;
use crate::session::SessionEntry;
use crate::taken::Taken;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use windlass_core::engine::{Capabilities, SessionId};
use windlass_core::id::Ids;
use windlass_core::machine::{Effect, EventKind, Facts, Refusal, Step, step};
use windlass_core::model::{
    AttemptEnd, Finish, JobError, KindSettings, Name, Order, QueueSettings, State,
};
use windlass_core::policy::{FairClock, Ready, rank};
use windlass_core::random::Random;
use windlass_core::{Error, JobId, Result, Timestamp};

/// The tenants of a fair queue and their turns.
#[derive(Debug, Default)]
pub struct Turns {
    /// Which turn is being served.
    pub clock: FairClock,
    /// Each tenant's latest turn. Tenants behind the turn being served are newcomers again and
    /// are forgotten by compaction.
    pub latest: HashMap<Option<String>, i64>,
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

/// Executes the contract over rows. See the crate's documentation.
pub struct Executor<R> {
    pub(crate) capabilities: Capabilities,
    pub(crate) random: Arc<dyn Random>,
    pub(crate) rows: R,
    pub(crate) sessions: BTreeMap<SessionId, SessionEntry>,
    pub(crate) queues: BTreeMap<Name, QueueSettings>,
    pub(crate) kinds: BTreeMap<Name, KindSettings>,
    pub(crate) turns: HashMap<Name, Turns>,
    /// Makes ids for jobs that come without one.
    pub(crate) ids: Ids,
    /// Counts entries; the second half of a job's place.
    seq: u64,
    /// Counts jobs that became ready and gates that opened: what waiters watch.
    pub(crate) readied: u64,
}

impl<R: Rows> Executor<R> {
    /// An executor over these rows, which count entries from `seq` on.
    pub fn new(capabilities: Capabilities, random: Arc<dyn Random>, rows: R, seq: u64) -> Self {
        Self {
            capabilities,
            random,
            rows,
            sessions: BTreeMap::new(),
            queues: BTreeMap::new(),
            kinds: BTreeMap::new(),
            turns: HashMap::new(),
            ids: Ids::default(),
            seq,
            readied: 0,
        }
    }

    /// Takes over what the rows remember: sessions and settings.
    ///
    /// The turns of fair queues are not among it. They begin anew behind what waits, so that whoever
    /// came first still goes first.
    pub fn remember(
        &mut self,
        sessions: BTreeMap<SessionId, SessionEntry>,
        queues: BTreeMap<Name, QueueSettings>,
        kinds: BTreeMap<Name, KindSettings>,
    ) -> Result<()> {
        (self.sessions, self.queues, self.kinds) = (sessions, queues, kinds);
        self.turns.clear();
        for (queue, _) in self.queues.iter().filter(|(_, settings)| settings.order == Order::Fair) {
            let mut turns = Turns::default();
            if let Some(rank) = self.rows.last_rank(queue)? {
                turns.clock.serve(rank.saturating_add(1));
            }
            self.turns.insert(queue.clone(), turns);
        }
        Ok(())
    }

    /// The rows.
    pub const fn rows(&self) -> &R {
        &self.rows
    }

    /// The rows, for whoever owns their transactions.
    pub const fn rows_mut(&mut self) -> &mut R {
        &mut self.rows
    }

    /// The rows, and the turns of fair queues, for whoever saves what was done with them.
    pub fn into_parts(self) -> (R, HashMap<Name, Turns>) {
        (self.rows, self.turns)
    }

    /// Rises whenever something may have become claimable.
    pub const fn readied(&self) -> u64 {
        self.readied
    }

    /// Looks at a job that must exist.
    pub(crate) fn look<T>(&self, id: JobId, look: impl FnOnce(&Entry) -> T) -> Result<T> {
        self.rows.with_job(id, look)?.ok_or(Error::NotFound { id })
    }

    pub(crate) fn state(&self, id: JobId) -> Result<Option<State>> {
        self.rows.with_job(id, |entry| entry.job.state)
    }

    /// Stores a new job; whoever calls has settled its uniqueness.
    pub(crate) fn insert(&mut self, mut entry: Box<Entry>, now: Timestamp) -> Result<State> {
        let facts = self.facts(&entry, EventKind::Enqueue, &Happening::default(), now)?;
        // Enqueue is possible from nothing under any facts.
        let next = step(None, EventKind::Enqueue, facts).ok().and_then(|taken| taken.next);
        let state = next.unwrap_or(State::Scheduled);
        self.enter(&mut entry, state, now);
        self.rows.put(entry)?;
        Ok(state)
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
        let taken = self.take_for(id, event, &what, now)?;
        self.apply_taken(taken, what, now)
    }

    /// Carries out the event that a job was taken for.
    pub(crate) fn apply_taken(
        &mut self,
        taken: Taken,
        what: Happening,
        now: Timestamp,
    ) -> Result<Option<State>> {
        let (mut entry, event, step) = taken.into_parts();
        let Some(next) = step.next else {
            self.rows.forget(entry)?;
            return Ok(None);
        };
        self.carry_out(&mut entry, step, event, what, now)?;
        if step.effects.has(Effect::Emit) {
            self.enter(&mut entry, next, now);
        }
        let header = &entry.job.header;
        let hands_over = step.effects.has(Effect::HandOverKey);
        let key = header.key.clone().filter(|_| hands_over).map(|key| (header.queue.clone(), key));
        self.rows.put(entry)?;
        if let Some((queue, key)) = key
            && let Some((_, heir)) = self.rows.line(&queue, &key)?.first
        {
            self.apply(heir, EventKind::Free, Happening::default(), now)?;
        }
        Ok(Some(next))
    }

    pub(crate) fn judge(
        &self,
        entry: &Entry,
        event: EventKind,
        what: &Happening,
        now: Timestamp,
    ) -> Result<Step> {
        let (id, state) = (entry.id(), entry.job.state);
        step(Some(state), event, self.facts(entry, event, what, now)?)
            .map_err(|Refusal(hint)| Error::Refused { id, state, event, hint })
    }

    /// What the machine must know about this job and this event.
    fn facts(
        &self,
        entry: &Entry,
        event: EventKind,
        what: &Happening,
        now: Timestamp,
    ) -> Result<Facts> {
        let header = &entry.job.header;
        Ok(Facts {
            due: what.run_at.unwrap_or(header.run_at) <= now,
            waits: match event {
                EventKind::Signal => false,
                EventKind::Wait => !entry.signalled,
                _ => entry.waits,
            },
            key_taken: self.key_taken(entry)?,
            spent: match event {
                EventKind::Retry => header.counters.failure_spends(&header.policy),
                EventKind::Lose => header.counters.crash_spends(&header.policy),
                _ => false,
            },
            cancel_requested: entry.job.cancel_requested,
        })
    }

    /// Whether a job would have to stand in line for its ordering key.
    fn key_taken(&self, entry: &Entry) -> Result<bool> {
        let header = &entry.job.header;
        let Some(key) = header.key.as_ref().filter(|_| !entry.holds_key) else { return Ok(false) };
        let line = self.rows.line(&header.queue, key)?;
        // A job that stands in line itself waits only for those before it.
        let is_before = |seq: u64| !entry.in_line() || seq < entry.seq;
        Ok(line.holder.is_some() || line.first.is_some_and(|(seq, _)| is_before(seq)))
    }

    /// The effects of a transition on the job itself and on its unique key.
    pub(crate) fn carry_out(
        &mut self,
        entry: &mut Entry,
        taken: Step,
        event: EventKind,
        what: Happening,
        now: Timestamp,
    ) -> Result<()> {
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
            self.free_unique(entry)?;
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
        Ok(())
    }

    /// Puts a job at the tail of its new state.
    pub(crate) fn enter(&mut self, entry: &mut Entry, state: State, now: Timestamp) {
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
        let mut latest = turns.latest.get(tenant).copied();
        if latest.is_none()
            && let Some(standing) = self.rows.standing(queue, tenant)
        {
            turns.clock.serve(standing.served);
            latest = standing.latest;
        }
        let turn = turns.clock.take_turn(latest);
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
