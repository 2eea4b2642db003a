//! What must come of a story: core's transition table, interpreted over a plain list of jobs.
//!
//! No indexes, no budgets, nothing clever: every question is answered by looking at all jobs. Where an
//! engine is free (jitter, the order within one maintenance step) the model takes what the engine
//! did, after checking that it was allowed to.

// tidy: long because one interpreter decides every event, and its parts share one list of jobs.

mod import;
mod keys;

pub(super) use keys::slot;

use super::events::Expected;
use std::collections::BTreeMap;
use windlass_core::engine::{Disposition, Gate, Lease, RemovedKey, RemovedTable, SessionId};
use windlass_core::limits::{CRASH_BACKOFF_BASE_MS, CRASH_BACKOFF_CAP_MS, CRASH_BACKOFF_JITTER_MS};
use windlass_core::machine::{Effect, EventKind, Facts, Step, step};
use windlass_core::model::{
    AttemptEnd, Counters, Finish, KindSettings, Name, NewJob, Part, QueueSettings, SignalWait,
    State,
};
use windlass_core::policy::{Holder, UniqueScope, UniqueVerdict};
use windlass_core::{JobId, Timestamp};

/// The code of the error an engine must answer with.
pub(super) type Code = &'static str;

/// A time between two bounds, until the engine has returned it.
pub(super) type Span = (Timestamp, Timestamp);

/// The place of a job among equals: the step of the story it entered in, and its turn there.
type Entered = (u64, u64);

#[derive(Clone, Debug)]
pub(super) struct Leased {
    pub(super) lease: Lease,
    pub(super) session: SessionId,
    pub(super) claim_no: u64,
    pub(super) started_at: Timestamp,
    /// Its place in the reply of its claim.
    pub(super) turn: usize,
}

/// A job as the model knows it.
#[derive(Clone, Debug)]
pub(super) struct ModelJob {
    pub(super) id: JobId,
    pub(super) new: NewJob,
    pub(super) created_at: Timestamp,
    pub(super) run_at: Span,
    pub(super) state: State,
    pub(super) counters: Counters,
    pub(super) cancel_requested: bool,
    /// Number of entries into a state before the step of the latest one, and in total.
    transitions_before: u32,
    pub(super) transitions: u32,
    /// The time of the latest entry.
    pub(super) changed_at: Timestamp,
    pub(super) leased: Option<Leased>,
    pub(super) finished_at: Option<Timestamp>,
    pub(super) finish: Option<Finish>,
    /// The checkpoint it carries.
    pub(super) checkpoint: Option<u8>,
    /// Its payload: the one it came with, or that a replay gave it.
    pub(super) payload: Option<u8>,
    holds_key: bool,
    /// The signals it waits for.
    wait: Option<SignalWait>,
    /// The names of the signals that it has kept.
    pub(super) inbox: Vec<Name>,
    /// The signal that ended its last wait; `None` within: the time ran out.
    pub(super) wake: Option<Option<Name>>,
    pub(super) rank: i64,
    pub(super) entered: Entered,
    past: Vec<(Lease, AttemptEnd)>,
}

#[derive(Clone, Debug)]
struct Hold {
    slot: Slot,
    holder: JobId,
    until: Option<Timestamp>,
}

type Slot = (UniqueScope, String, String, String);

/// Everything the model knows.
#[derive(Clone, Debug)]
pub(super) struct Model {
    pub(super) now: Timestamp,
    pub(super) jobs: BTreeMap<JobId, ModelJob>,
    pub(super) sessions: BTreeMap<SessionId, ModelSession>,
    pub(super) queues: BTreeMap<Name, QueueSettings>,
    pub(super) kinds: BTreeMap<Name, KindSettings>,
    uniques: Vec<Hold>,
    /// The history of removed jobs.
    pub(super) removed: RemovedTable,
    /// The events of this step, by queue.
    pub(super) events: BTreeMap<Name, Vec<Expected>>,
    /// The step of the story.
    number: u64,
    /// How many jobs entered a state in this step so far.
    turn: u64,
    /// Whether the order within this step is the engine's choice.
    any_order: bool,
    /// The signal that the next event delivers.
    pub(super) delivers: Option<Name>,
    /// The wait that the next event begins.
    pub(super) begins: Option<SignalWait>,
}

#[derive(Clone, Debug)]
pub(super) struct ModelSession {
    pub(super) ttl_ms: u64,
    pub(super) expires_at: Timestamp,
    pub(super) alone: bool,
}

/// Whether a wait ends by a signal with this name.
fn takes(wait: &SignalWait, name: &Name) -> bool {
    wait.signals.is_empty() || wait.signals.iter().any(|wanted| wanted == name)
}

impl Model {
    pub(super) fn new(now: Timestamp) -> Self {
        Self {
            now,
            jobs: BTreeMap::new(),
            sessions: BTreeMap::new(),
            queues: BTreeMap::new(),
            kinds: BTreeMap::new(),
            uniques: Vec::new(),
            removed: RemovedTable::default(),
            events: BTreeMap::new(),
            number: 0,
            turn: 0,
            any_order: false,
            delivers: None,
            begins: None,
        }
    }

    pub(super) fn next_step(&mut self) {
        self.number += 1;
        (self.turn, self.any_order) = (0, false);
    }

    /// Whether the order within this step is the engine's choice.
    pub(super) const fn is_any_order(&self) -> bool {
        self.any_order
    }

    /// Does all of it or, on an error, nothing.
    pub(super) fn or_nothing<T>(
        &mut self,
        act: impl FnOnce(&mut Self) -> Result<T, Code>,
    ) -> Result<T, Code> {
        let mut copy = self.clone();
        let value = act(&mut copy)?;
        *self = copy;
        Ok(value)
    }

    pub(super) fn enqueue(
        &mut self,
        job: NewJob,
        bounded: bool,
    ) -> Result<(JobId, Disposition), Code> {
        let id = job.id.expect("the story gives every job an id");
        if self.jobs.contains_key(&id) {
            return Ok((id, Disposition::Existing));
        }
        let mut run_at = job.due.at(self.now);
        let mut disposition = Disposition::Created;
        if let Some(unique) = &job.unique {
            let holder = self.holder(&slot(&job));
            let known = holder.map(|id| Holder {
                id,
                waiting: self.jobs.get(&id).is_some_and(|job| job.state.is_waiting()),
            });
            match (unique.on_conflict.decide(known), holder) {
                (UniqueVerdict::Existing, Some(holder)) => {
                    return Ok((holder, Disposition::Existing));
                }
                (UniqueVerdict::Throttled, Some(holder)) => {
                    return Ok((holder, Disposition::Throttled));
                }
                (UniqueVerdict::Reject, _) => return Err("duplicate"),
                (UniqueVerdict::Replace { keeps_time }, Some(holder)) => {
                    if keeps_time {
                        run_at = run_at.min(self.jobs[&holder].run_at.0);
                    }
                    self.apply(holder, EventKind::Cancel, None, Some(Finish::ReplacedBy(id)))?;
                    disposition = Disposition::Replaced(holder);
                }
                _ => {}
            }
        }
        let limit = self.queues.get(&job.queue).and_then(|settings| settings.max_depth);
        let replaced = matches!(disposition, Disposition::Replaced(_));
        if bounded && !replaced && limit.is_some_and(|limit| self.depth(&job.queue) >= limit) {
            return Err("queue_full");
        }
        self.create(id, job, run_at);
        Ok((id, disposition))
    }

    fn create(&mut self, id: JobId, new: NewJob, run_at: Timestamp) {
        let byte = |part: &Option<Part>| part.as_ref().and_then(|part| part.bytes.first().copied());
        let (checkpoint, payload) = (byte(&new.parts.checkpoint), byte(&new.parts.payload));
        let job = ModelJob {
            id,
            new,
            created_at: self.now,
            run_at: (run_at, run_at),
            state: State::Scheduled,
            counters: Counters::default(),
            cancel_requested: false,
            transitions_before: 0,
            transitions: 0,
            changed_at: self.now,
            leased: None,
            finished_at: None,
            finish: None,
            checkpoint,
            payload,
            holds_key: false,
            wait: None,
            inbox: Vec::new(),
            wake: None,
            rank: 0,
            entered: (0, 0),
            past: Vec::new(),
        };
        let facts = self.facts(&job, EventKind::Enqueue, None);
        let taken = step(None, EventKind::Enqueue, facts).expect("a job can always be enqueued");
        self.commit(job, EventKind::Enqueue, taken, None, None).expect("nothing refuses a new job");
    }

    /// Applies an event to a job, as the table says.
    pub(super) fn apply(
        &mut self,
        id: JobId,
        event: EventKind,
        run_at: Option<Span>,
        finish: Option<Finish>,
    ) -> Result<Option<State>, Code> {
        self.transition(id, event, run_at, finish, None)
    }

    /// Applies an event to a job that may move to another queue by it. On an error, the model is void.
    pub(super) fn apply_in(
        &mut self,
        id: JobId,
        event: EventKind,
        run_at: Option<Span>,
        queue: Option<Name>,
    ) -> Result<Option<State>, Code> {
        self.transition(id, event, run_at, None, queue)
    }

    fn transition(
        &mut self,
        id: JobId,
        event: EventKind,
        run_at: Option<Span>,
        finish: Option<Finish>,
        queue: Option<Name>,
    ) -> Result<Option<State>, Code> {
        let Some(mut job) = self.jobs.get(&id).cloned() else { return Err("not_found") };
        let queue = queue.filter(|queue| *queue != job.new.queue);
        let due_at = job.run_at;
        job.run_at = run_at.unwrap_or(due_at);
        let facts = self.facts(&job, event, queue.as_ref());
        let taken = step(Some(job.state), event, facts).map_err(|_| "refused")?;
        let is_timed = facts.timed && event == EventKind::Signal;
        if is_timed && taken.effects.has(Effect::EndWait) || taken.effects.has(Effect::UseSignal) {
            // The time limit of the wait is not needed any more.
            job.run_at = (self.now, self.now);
        }
        if taken.next.is_some_and(State::is_terminal) {
            job.run_at = due_at;
        }
        self.commit(job, event, taken, finish, queue)
    }

    /// Carries out a row of the table.
    fn commit(
        &mut self,
        mut job: ModelJob,
        event: EventKind,
        taken: Step,
        finish: Option<Finish>,
        queue: Option<Name>,
    ) -> Result<Option<State>, Code> {
        let from = job.new.queue.clone();
        let Some(next) = taken.next else {
            self.expect_event(&job, &from, event, None);
            for effect in taken.effects.iter() {
                assert_eq!(effect, Effect::FreeUnique, "a removal does nothing else");
                self.free_unique(job.id, true);
            }
            self.jobs.remove(&job.id);
            let ModelJob { new, state, .. } = job;
            let key = RemovedKey::new(self.now, new.queue, new.kind, new.tenant, state);
            self.removed.add(key, 1);
            return Ok(None);
        };
        let mut handed_over = None;
        for effect in taken.effects.iter() {
            match effect {
                // The claim's lease is taken over from the engine's reply.
                Effect::IssueLease => {
                    job.counters.attempt += 1;
                    let settings = self.kinds.get_mut(&job.new.kind);
                    if let Some(permits) = settings.and_then(|kind| kind.permits.as_mut()) {
                        *permits -= 1;
                    }
                }
                Effect::EndLease => job.leased = None,
                Effect::CountFailure => job.counters.failures += 1,
                Effect::CountCrash => job.counters.crashes += 1,
                Effect::ClearCrashes => job.counters.crashes = 0,
                Effect::StartOver => {
                    (job.counters.failures, job.counters.crashes) = (0, 0);
                    (job.finish, job.finished_at) = (None, None);
                    job.cancel_requested = false;
                    (job.wait, job.wake) = (None, None);
                    job.inbox.clear();
                }
                Effect::RequestCancel => job.cancel_requested = true,
                Effect::BeginWait => (job.wait, job.wake) = (self.begins.take(), None),
                Effect::EndWait => {
                    job.wait = None;
                    job.wake = Some(self.delivers.take());
                }
                Effect::KeepSignal => job.inbox.extend(self.delivers.take()),
                Effect::UseSignal => {
                    let wait = self.begins.take().expect("a wait begins");
                    let first = job.inbox.iter().position(|name| takes(&wait, name));
                    job.wake = first.map(|at| Some(job.inbox.remove(at)));
                }
                Effect::ChangeQueue => {
                    handed_over = job.new.key.clone().map(|key| (job.new.queue.clone(), key));
                    self.change_queue(&mut job, queue.clone())?;
                }
                Effect::Finish => {
                    job.wait = None;
                    job.finished_at = Some(self.now);
                    job.finish = finish.clone().or(Some(why(next, event)));
                }
                Effect::TakeUnique if event == EventKind::Import => self.keep_unique(&job, next),
                Effect::TakeUnique => self.take_unique(&job, self.now),
                Effect::FreeUnique => self.free_unique(job.id, false),
                Effect::TakeKey => job.holds_key = job.new.key.is_some(),
                Effect::HandOverKey => {
                    job.holds_key = false;
                    handed_over = job.new.key.clone().map(|key| (job.new.queue.clone(), key));
                }
                // These stories have no dependencies; see `flows`.
                Effect::Resolve => {}
                Effect::JoinLine => unreachable!("these stories have no limits; see `limits`"),
                Effect::Moved => self.enter(&mut job, next),
                Effect::Arrive => self.place(&mut job, next),
                // No claim waits in a story.
                Effect::Emit => {}
            }
        }
        if taken.effects.has(Effect::Moved) || taken.effects.has(Effect::Arrive) {
            self.expect_event(&job, &from, event, Some(next));
        }
        self.jobs.insert(job.id, job);
        if let Some((queue, key)) = handed_over
            && let Some(heir) = self.first_in_line(&queue, &key)
        {
            self.apply(heir, EventKind::Free, None, None)?;
        }
        Ok(Some(next))
    }

    /// Records an event in the streams of the queue that the job is in and of the one that it was in.
    fn expect_event(
        &mut self,
        job: &ModelJob,
        from: &Name,
        event: EventKind,
        state: Option<State>,
    ) {
        let expected = Expected {
            job: job.id,
            queue: job.new.queue.clone(),
            number: job.transitions + u32::from(state.is_none()),
            event,
            state,
            attempt: job.counters.attempt,
            reason: job.finish.clone().filter(|_| state.is_some_and(State::is_terminal)),
        };
        let queues = [from, &job.new.queue];
        for queue in &queues[usize::from(queues[0] == queues[1])..] {
            self.events.entry(Name::clone(queue)).or_default().push(expected.clone());
        }
    }

    fn facts(&self, job: &ModelJob, event: EventKind, queue: Option<&Name>) -> Facts {
        let Counters { failures, crashes, .. } = job.counters;
        let wait = self.begins.as_ref().or(job.wait.as_ref());
        Facts {
            due: job.run_at.1 <= self.now,
            waits: job.wait.is_some(),
            timed: wait.is_some_and(|wait| wait.timeout_ms.is_some()),
            signalled: wait.is_some_and(|wait| match &self.delivers {
                Some(name) => takes(wait, name),
                None => job.inbox.iter().any(|name| takes(wait, name)),
            }),
            key_taken: match queue {
                Some(queue) => self.key_taken(&job.arriving_in(queue)),
                None => self.key_taken(job),
            },
            // These stories have no dependencies; see `flows`.
            depends: false,
            followed: false,
            // These stories have no limits; see `limits`.
            limited: false,
            spent: match event {
                EventKind::Retry => failures + 1 >= job.new.policy.max_attempts,
                EventKind::Lose => crashes + 1 > job.new.policy.max_crashes,
                _ => false,
            },
            cancel_requested: job.cancel_requested,
            moves: queue.is_some(),
        }
    }

    fn enter(&mut self, job: &mut ModelJob, state: State) {
        if job.entered.0 != self.number {
            job.transitions_before = job.transitions;
        }
        job.transitions += 1;
        job.changed_at = self.now;
        self.place(job, state);
    }

    /// Puts a job at the tail of a state.
    fn place(&mut self, job: &mut ModelJob, state: State) {
        self.turn += 1;
        job.entered = (self.number, self.turn);
        job.state = state;
        if state == State::Available {
            job.rank = job.new.priority.into();
        }
    }

    /// Makes all jobs that enter in this step equals: their order is the engine's choice.
    pub(super) fn in_any_order(&mut self) {
        self.any_order = true;
        for job in self.jobs.values_mut().filter(|job| job.entered.0 == self.number) {
            job.entered.1 = 0;
        }
    }

    /// Adopts an engine's number of transitions. In a step with an order of its own, it may end a job before or after the
    /// end of another one frees it.
    pub(super) fn adopt_transitions(&mut self, id: JobId, counted: u32) {
        let is_free = |job: &&mut ModelJob| self.any_order && job.entered.0 == self.number;
        if let Some(job) = self.jobs.get_mut(&id).filter(is_free)
            && (1..=2).contains(&counted.wrapping_sub(job.transitions_before))
        {
            job.transitions = counted;
        }
    }

    pub(super) fn depth(&self, queue: &Name) -> u64 {
        let waiting = |job: &&ModelJob| job.new.queue == *queue && job.state.is_waiting();
        self.jobs.values().filter(waiting).count() as u64
    }

    /// Leases that this session holds, by job.
    pub(super) fn held_by(&self, session: &SessionId) -> Vec<JobId> {
        let held = |job: &&ModelJob| job.leased.as_ref().is_some_and(|l| l.session == *session);
        self.jobs.values().filter(held).map(|job| job.id).collect()
    }

    /// A report under a lease: whether it counts, was settled before, or is stale.
    pub(super) fn lease_of(&self, id: JobId, lease: &Lease) -> Result<Option<AttemptEnd>, Code> {
        let job = self.jobs.get(&id).ok_or("not_found")?;
        if job.leased.as_ref().is_some_and(|leased| leased.lease == *lease) {
            return Ok(None);
        }
        let settled = job.past.iter().find(|(past, _)| past == lease);
        settled.map(|(_, end)| Some(*end)).ok_or("lease_lost")
    }

    /// Remembers that a lease is settled.
    pub(super) fn remember_settled(&mut self, id: JobId, lease: Lease, end: AttemptEnd) {
        if let Some(job) = self.jobs.get_mut(&id) {
            job.past.push((lease, end));
        }
    }

    pub(super) fn edit_parts(&mut self, id: JobId, checkpoint: Option<u8>, payload: Option<u8>) {
        if let Some(job) = self.jobs.get_mut(&id) {
            job.checkpoint = checkpoint.or(job.checkpoint);
            job.payload = payload.or(job.payload);
        }
    }

    /// The delay of the next crash of this job, at least and at most.
    pub(super) fn crash_span(&self, id: JobId) -> Span {
        let crashes = self.jobs[&id].counters.crashes;
        let least = (CRASH_BACKOFF_BASE_MS << crashes.min(20)).min(CRASH_BACKOFF_CAP_MS);
        (self.now.plus(least), self.now.plus(least + CRASH_BACKOFF_JITTER_MS))
    }

    pub(super) fn gate(&self, queue: &Name, kind: &Name) -> Option<Gate> {
        let kind = self.kinds.get(kind);
        if self.queues.get(queue).is_some_and(|settings| settings.paused) {
            return Some(Gate::QueuePaused);
        }
        match kind {
            Some(kind) if kind.paused => Some(Gate::KindPaused),
            Some(kind) if kind.permits == Some(0) => Some(Gate::NoPermits),
            _ => None,
        }
    }
}

impl ModelJob {
    fn in_line(&self) -> bool {
        self.state == State::Blocked && self.new.key.is_some() && !self.holds_key
    }
}

const fn why(next: State, event: EventKind) -> Finish {
    match (next, event) {
        (State::Completed, _) => Finish::Completed,
        (State::Expired, _) => Finish::Expired,
        (State::Dead, EventKind::Retry) => Finish::AttemptsSpent,
        (State::Dead, EventKind::Lose) => Finish::CrashesSpent,
        (State::Dead, EventKind::Kill) => Finish::Killed,
        (State::Dead, _) => Finish::Failed,
        _ => Finish::Cancelled,
    }
}

/// Model and engine, side by side.
pub(super) fn agree<T: PartialEq + std::fmt::Debug>(
    what: &str,
    model: &T,
    engine: &T,
) -> Result<(), String> {
    if model == engine {
        return Ok(());
    }
    Err(format!("{what}: the table says {model:?}, the engine {engine:?}"))
}
