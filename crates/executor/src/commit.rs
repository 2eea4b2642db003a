//! The commit point: the only file that takes jobs out of their rows and stores them.
//!
//! A job is taken for an event that the state machine allows, or edited in its state. Then every effect of the
//! transition is executed and the job is stored. A refused event leaves the job where it was.

use crate::entry::{Entry, Leased};
use crate::executor::Executor;
use crate::limits::Left;
use crate::rows::Rows;
use windlass_core::engine::RemovedKey;
use windlass_core::machine::{Effect, EventKind, Refusal, Step, step};
use windlass_core::model::{Finish, JobError, KindSettings, Name, Signal, SignalWait, State};
use windlass_core::{Error, JobId, Result, Timestamp};

/// The data of a transition, which the state machine does not know.
#[derive(Debug, Default)]
pub(crate) struct Transition {
    /// The time at which the job may run, if the event sets one.
    pub(crate) run_at: Option<Timestamp>,
    /// The new priority.
    pub(crate) priority: Option<i32>,
    /// The queue to move to; the job's own changes nothing.
    pub(crate) queue: Option<Name>,
    /// The lease that [`Effect::IssueLease`] issues.
    pub(crate) lease: Option<Leased>,
    /// The reason of the end, if it differs from the one that the event implies.
    pub(crate) finish: Option<Finish>,
    /// The error that the worker reported.
    pub(crate) error: Option<JobError>,
    /// The wait that [`EventKind::Wait`] begins.
    pub(crate) wait: Option<SignalWait>,
    /// The signal that [`EventKind::Signal`] delivers.
    pub(crate) signal: Option<Signal>,
}

impl Transition {
    /// The wait that the transition begins, or the one that the job is in.
    pub(crate) fn wait<'a>(&'a self, entry: &'a Entry) -> Option<&'a SignalWait> {
        self.wait.as_ref().or_else(|| entry.continuation()?.wait.as_ref())
    }

    /// Whether the wait takes the signal that the transition delivers, or one from the inbox.
    pub(crate) fn takes_signal(&self, entry: &Entry) -> bool {
        let Some(wait) = self.wait(entry) else { return false };
        match &self.signal {
            Some(signal) => wait.takes(&signal.name),
            None => entry.continuation().is_some_and(|continuation| {
                continuation.inbox.iter().any(|signal| wait.takes(&signal.name))
            }),
        }
    }
}

/// A job taken out of its place for a transition that the machine allows.
///
/// From here on only the store can fail, and then its owner rolls back.
pub(crate) struct Taken {
    pub(crate) entry: Box<Entry>,
    event: EventKind,
    step: Step,
}

impl<R: Rows> Executor<R> {
    /// Takes a job for an event; `None` if there is no such job. If `check` or the machine refuses, the job is
    /// put back unchanged.
    pub(crate) fn take_if(
        &mut self,
        id: JobId,
        event: EventKind,
        data: &Transition,
        now: Timestamp,
        check: impl FnOnce(&Self, &Entry) -> Result<()>,
    ) -> Result<Option<Taken>> {
        let Some(entry) = self.rows.take(id)? else { return Ok(None) };
        match check(self, &entry).and_then(|()| self.decide(&entry, event, data, now)) {
            Ok(step) => Ok(Some(Taken { entry, event, step })),
            Err(refused) => {
                self.rows.put_back(entry)?;
                Err(refused)
            }
        }
    }

    /// Takes a job that must exist for an event.
    pub(crate) fn take_for(
        &mut self,
        id: JobId,
        event: EventKind,
        data: &Transition,
        now: Timestamp,
    ) -> Result<Taken> {
        self.take_if(id, event, data, now, |_, _| Ok(()))?.ok_or(Error::NotFound { id })
    }

    /// Applies an event to a stored job.
    pub(crate) fn apply(
        &mut self,
        id: JobId,
        event: EventKind,
        data: Transition,
        now: Timestamp,
    ) -> Result<Option<State>> {
        let taken = self.take_for(id, event, &data, now)?;
        self.commit(taken, data, now, |_| ()).map(|(next, ())| next)
    }

    /// Stores a new job; the caller has checked that its unique key is free.
    pub(crate) fn insert(&mut self, entry: Box<Entry>, now: Timestamp) -> Result<State> {
        let (event, data) = (EventKind::Enqueue, Transition::default());
        let step = self.step(None, &entry, event, &data, now)?;
        let (next, ()) = self.commit(Taken { entry, event, step }, data, now, |_| ())?;
        Ok(next.unwrap_or(State::Scheduled))
    }

    /// Stores a job of another store, unless another job holds its unique key.
    pub(crate) fn insert_imported(&mut self, entry: Box<Entry>, now: Timestamp) -> Result<State> {
        let (event, data) = (EventKind::Import, Transition::default());
        let step = self.decide(&entry, event, &data, now)?;
        if let Some((slot, _)) = entry.kept_unique(step.next, now) {
            self.check_free(&slot, &entry, now)?;
        }
        let (next, ()) = self.commit(Taken { entry, event, step }, data, now, |_| ())?;
        Ok(next.unwrap_or(State::Scheduled))
    }

    /// Edits a job that must exist and stays in its state.
    pub(crate) fn edit<T>(&mut self, id: JobId, edit: impl FnOnce(&mut Entry) -> T) -> Result<T> {
        let Some(mut entry) = self.rows.take(id)? else { return Err(Error::NotFound { id }) };
        let edited = edit(&mut entry);
        self.rows.put(entry)?;
        Ok(edited)
    }

    /// The transition that the machine allows for a stored job.
    pub(crate) fn decide(
        &self,
        entry: &Entry,
        event: EventKind,
        data: &Transition,
        now: Timestamp,
    ) -> Result<Step> {
        self.step(Some(entry.job.state), entry, event, data, now)
    }

    fn step(
        &self,
        from: Option<State>,
        entry: &Entry,
        event: EventKind,
        data: &Transition,
        now: Timestamp,
    ) -> Result<Step> {
        let facts = self.facts(entry, event, data, now)?;
        let (id, state) = (entry.id(), entry.job.state);
        step(from, event, facts).map_err(|Refusal(hint)| Error::Refused { id, state, event, hint })
    }

    /// Executes a transition, releases jobs from the lines of limits in which it made room, and resolves the dependents of
    /// a job that ended. `view` reads the job as it is stored.
    pub(crate) fn commit<T>(
        &mut self,
        taken: Taken,
        data: Transition,
        now: Timestamp,
        view: impl FnOnce(&Entry) -> T,
    ) -> Result<(Option<State>, T)> {
        let (next, viewed, left) = self.carry_out(taken, data, now, view)?;
        self.examine_left(left, now)?;
        self.resolve_ended(now)?;
        Ok((next, viewed))
    }

    /// Executes a transition: all its effects, then the job is stored or removed.
    pub(crate) fn carry_out<T>(
        &mut self,
        taken: Taken,
        mut data: Transition,
        now: Timestamp,
        view: impl FnOnce(&Entry) -> T,
    ) -> Result<(Option<State>, T, Left)> {
        let Taken { mut entry, event, step } = taken;
        let noted = self.note_event(&entry, step, data.queue.as_ref(), data.error.as_ref());
        let enters = [Effect::JoinLine, Effect::Moved, Effect::Arrive];
        let mut left = match enters.into_iter().any(|effect| step.effects.has(effect)) {
            true => self.leave_limits(&mut entry),
            false => Left::default(),
        };
        let header = &mut entry.job.header;
        // An ended job keeps the time at which it was due.
        let run_at = data.run_at.filter(|_| !step.next.is_some_and(State::is_terminal));
        header.run_at = run_at.unwrap_or(header.run_at);
        header.priority = data.priority.unwrap_or(header.priority);
        let leaves_line =
            step.effects.has(Effect::HandOverKey) || step.effects.has(Effect::ChangeQueue);
        let line = header.key.clone().filter(|_| leaves_line);
        let line = line.map(|key| (header.queue.clone(), key));
        for effect in step.effects.iter() {
            self.execute(effect, &mut entry, step.next, event, &mut data, now)?;
        }
        if let Some(noted) = noted {
            self.record_event(noted, &entry, event, step.next, now)?;
        }
        let (id, viewed) = (entry.id(), view(&entry));
        Self::note_line(&entry, &mut left);
        match step.next {
            Some(_) => self.rows.put(entry)?,
            None => {
                self.rows.count_removed(RemovedKey::of(&entry.job.header, entry.job.state, now))?;
                self.rows.remove(entry)?;
            }
        }
        self.follow_reopened(id)?;
        if let Some((queue, key)) = line
            && let Some((_, first)) = self.rows.line(&queue, &key)?.first
        {
            self.apply(first, EventKind::Free, Transition::default(), now)?;
        }
        Ok((step.next, viewed, left))
    }

    /// Executes one effect. The match is exhaustive: an effect that nothing consumes does not compile.
    fn execute(
        &mut self,
        effect: Effect,
        entry: &mut Entry,
        next: Option<State>,
        event: EventKind,
        data: &mut Transition,
        now: Timestamp,
    ) -> Result<()> {
        let counters = &mut entry.job.header.counters;
        match effect {
            Effect::EndLease => entry.end_attempt(event.attempt_end(next), data.error.take(), now),
            Effect::IssueLease => {
                counters.attempt = counters.attempt.saturating_add(1);
                entry.job.started_at = Some(now);
                entry.leased = data.lease.take();
                self.take_limits(entry, now)?;
                self.count_start(entry)?;
            }
            Effect::CountFailure => counters.failures = counters.failures.saturating_add(1),
            Effect::CountCrash => counters.crashes = counters.crashes.saturating_add(1),
            Effect::ClearCrashes => counters.crashes = 0,
            Effect::StartOver => {
                entry.start_over();
                self.look_up_again(entry)?;
            }
            Effect::RequestCancel => entry.job.cancel_requested = true,
            Effect::BeginWait => {
                let wait = data.wait.take().unwrap_or_default();
                entry.continue_with(|continuation| continuation.begin(wait));
            }
            Effect::EndWait => {
                let signal = data.signal.take();
                entry.continue_with(|continuation| continuation.end(signal));
            }
            Effect::KeepSignal => {
                if let Some(signal) = data.signal.take() {
                    entry.continue_with(|continuation| continuation.keep(signal));
                }
            }
            Effect::UseSignal => {
                let wait = data.wait.take().unwrap_or_default();
                entry.continue_with(|continuation| continuation.take(&wait));
            }
            // `commit` frees the first job in line of the old queue once this one is stored.
            Effect::ChangeQueue => self.change_queue(entry, data.queue.take(), now)?,
            Effect::Finish => {
                if entry.job.waits {
                    entry.continue_with(|continuation| continuation.wait = None);
                }
                entry.job.finished_at = Some(now);
                entry.job.finish = data.finish.take().or(Some(finish(next, event)));
            }
            Effect::TakeUnique if event == EventKind::Import => {
                self.keep_unique(entry, next, now)?;
            }
            Effect::TakeUnique => self.take_unique(entry, now)?,
            Effect::FreeUnique => self.free_unique(entry, next.is_none())?,
            Effect::TakeKey => entry.holds_key = entry.job.header.key.is_some(),
            // `commit` frees the first job in line once this one is stored.
            Effect::HandOverKey => entry.holds_key = false,
            // `commit` resolves them once this job is stored.
            Effect::Resolve => self.queue_end(entry),
            Effect::JoinLine => self.join_line(entry, now)?,
            Effect::Moved => self.enter(entry, next, now),
            Effect::Arrive => self.place(entry, next, now),
            Effect::Emit => self.readied += 1,
        }
        Ok(())
    }

    /// Uses one permit of the job's kind, and advances the turn of a fair queue.
    fn count_start(&mut self, entry: &Entry) -> Result<()> {
        let header = &entry.job.header;
        if self.kinds.get_mut(&header.kind).is_some_and(KindSettings::start_one) {
            self.rows.save_kind(&header.kind, self.kinds.get(&header.kind))?;
        }
        if let Some(turns) = self.turns.get_mut(&header.queue) {
            turns.clock.serve(entry.rank);
        }
        Ok(())
    }
}

/// The reason of an end in state `next` that this event implies.
const fn finish(next: Option<State>, event: EventKind) -> Finish {
    match (next, event) {
        (Some(State::Completed), _) => Finish::Completed,
        (Some(State::Expired), _) => Finish::Expired,
        (Some(State::Dead), EventKind::Retry) => Finish::AttemptsSpent,
        (Some(State::Dead), EventKind::Lose) => Finish::CrashesSpent,
        (Some(State::Dead), EventKind::Kill) => Finish::Killed,
        (Some(State::Dead), _) => Finish::Failed,
        _ => Finish::Cancelled,
    }
}
