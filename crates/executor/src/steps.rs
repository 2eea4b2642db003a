//! Steps: what one atomic step of the store may change, and what it leaves to messages.
//!
//! A store that is atomic as a whole has no [`Outbox`]; then everything here is free, and nothing is elsewhere.

use crate::executor::Executor;
use crate::outbox::{Deferred, Message, Posted, Route};
use crate::rows::Rows;
use std::collections::{BTreeMap, BTreeSet};
use windlass_core::engine::{Disposition, Enqueued, Item};
use windlass_core::limits::{FOLLOWS_PER_MESSAGE_MAX, OUTBOX_MAX};
use windlass_core::model::{Due, Name, NewJob, State};
use windlass_core::{Error, JobId, Result, Timestamp};

/// Bits of a message's number below the time: a million messages per millisecond and queue.
const NUMBER_BITS: u32 = 20;

/// The current step, and the messages of the call.
#[derive(Debug, Default)]
pub(crate) struct Steps {
    /// The queue of the step; `None` outside of steps.
    queue: Option<Name>,
    now: Timestamp,
    /// Jobs that messages of this step will store.
    sent: BTreeSet<JobId>,
    /// Queues of jobs that a message names.
    pub(crate) known: BTreeMap<JobId, Name>,
    /// Routes to which this call has appended messages.
    pub(crate) outgoing: BTreeSet<Route>,
}

/// What the jobs of one report need from each other.
#[derive(Default)]
pub(crate) struct Sending {
    queues: BTreeMap<JobId, Name>,
    /// Jobs that jobs of the step's queue depend on.
    followed: BTreeSet<JobId>,
    /// Jobs that any others depend on.
    needed: BTreeSet<JobId>,
    /// The messages that store the jobs, with the queues that they are for.
    numbers: BTreeMap<JobId, (Name, u64)>,
}

impl<R: Rows> Executor<R> {
    /// Runs one atomic step of a queue. All changes of jobs are part of one.
    pub(crate) fn in_step<T>(
        &mut self,
        queue: &Name,
        now: Timestamp,
        act: impl FnOnce(&mut Self) -> Result<T>,
    ) -> Result<T> {
        let Some(outbox) = self.rows.outbox_mut() else { return act(self) };
        outbox.enter(queue)?;
        (self.steps.queue, self.steps.now) = (Some(queue.clone()), now);
        let done = act(self);
        self.steps.queue = None;
        self.steps.sent.clear();
        self.steps.known.clear();
        self.rows.outbox_mut().map_or(Ok(()), |outbox| outbox.leave())?;
        done
    }

    /// Runs one atomic step of the queue that a job is in.
    pub(crate) fn in_step_of<T>(
        &mut self,
        job: JobId,
        now: Timestamp,
        act: impl FnOnce(&mut Self) -> Result<T>,
    ) -> Result<T> {
        let Some(outbox) = self.rows.outbox() else { return act(self) };
        match outbox.locate(job)? {
            Some(at) => self.in_step(&at.queue, now, act),
            // It does not exist: nothing will change.
            None => act(self),
        }
    }

    /// Whether this step cannot change rows of a queue.
    pub(crate) fn is_elsewhere(&self, queue: &Name) -> bool {
        self.steps.queue.as_ref().is_some_and(|here| here != queue)
    }

    /// The queue of a job, if this step cannot change it there.
    pub(crate) fn elsewhere(&self, job: JobId) -> Result<Option<Name>> {
        let Some(outbox) = self.rows.outbox() else { return Ok(None) };
        let queue = match outbox.locate(job)? {
            Some(at) => Some(at.queue),
            None => self.steps.known.get(&job).cloned(),
        };
        Ok(queue.filter(|queue| self.is_elsewhere(queue)))
    }

    /// Whether a message of this step will store a job.
    pub(crate) fn is_sent(&self, job: JobId) -> bool {
        self.steps.sent.contains(&job)
    }

    /// The state of a job. That of a job elsewhere is a hint.
    pub(crate) fn state(&self, id: JobId) -> Result<Option<State>> {
        if let Some(outbox) = self.rows.outbox()
            && let Some(at) = outbox.locate(id)?
            && self.is_elsewhere(&at.queue)
        {
            return Ok(Some(at.state));
        }
        self.rows.with_job(id, |entry| entry.job.state)
    }

    /// Whether undelivered messages are about a job of the step's queue.
    pub(crate) fn is_held(&self, job: JobId) -> Result<bool> {
        self.rows.outbox().map_or(Ok(false), |outbox| outbox.holds(job))
    }

    /// Refuses a step that would append `more` messages to an outbox without room.
    pub(crate) fn check_outbox(&self, more: usize) -> Result<()> {
        match more as u64 > self.outbox_room()? {
            true => Err(Error::Busy {
                store: self.capabilities.engine.to_owned(),
                reason: format!(
                    "{OUTBOX_MAX} messages of this queue to others are not delivered, the limit"
                ),
            }),
            false => Ok(()),
        }
    }

    /// The number of messages that the outbox of the step's queue has room for.
    pub(crate) fn outbox_room(&self) -> Result<u64> {
        let used = self.rows.outbox().map_or(Ok(0), |outbox| outbox.undelivered())?;
        Ok(OUTBOX_MAX.saturating_sub(used))
    }

    /// Appends a message about a job to the outbox of the step's queue. Returns its number.
    pub(crate) fn post(
        &mut self,
        to: &Name,
        about: JobId,
        behind: Vec<u64>,
        message: Message,
    ) -> Result<u64> {
        let now = self.steps.now;
        let (Some(outbox), Some(from)) = (self.rows.outbox_mut(), self.steps.queue.clone()) else {
            return Ok(0);
        };
        let number = outbox.last_number()?.saturating_add(1).max(first_number(now));
        outbox.post(to, Posted { number, about, behind, message })?;
        self.steps.outgoing.insert(Route { from, to: to.clone() });
        Ok(number)
    }

    /// Appends messages that a job of this queue runs after jobs of others.
    pub(crate) fn post_follows(
        &mut self,
        dependent: JobId,
        upstream: BTreeMap<Name, Vec<JobId>>,
    ) -> Result<()> {
        for (queue, jobs) in upstream {
            for jobs in jobs.chunks(FOLLOWS_PER_MESSAGE_MAX) {
                self.post(&queue, dependent, Vec::new(), Message::Follow(jobs.to_vec()))?;
            }
        }
        Ok(())
    }

    /// What must be known to send some of these jobs to other queues; `None` if none is elsewhere.
    pub(crate) fn sending(&self, jobs: &[NewJob]) -> Option<Sending> {
        if !jobs.iter().any(|job| self.is_elsewhere(&job.queue)) {
            return None;
        }
        let mut sending = Sending::default();
        for job in jobs {
            if let Some(id) = job.id {
                sending.queues.insert(id, job.queue.clone());
                if job.joins.is_some() {
                    // The job that it joins is in the step's queue.
                    sending.followed.insert(id);
                    sending.needed.insert(id);
                }
            }
            let upstream = job.after.iter().map(|dependency| dependency.job);
            if !self.is_elsewhere(&job.queue) {
                sending.followed.extend(upstream.clone());
            }
            sending.needed.extend(upstream);
        }
        Some(sending)
    }

    /// Sends a new job to its queue, in which it is stored later.
    pub(crate) fn send(
        &mut self,
        mut job: NewJob,
        sending: &mut Sending,
        now: Timestamp,
    ) -> Item<Enqueued> {
        let id = *job.id.get_or_insert_with(|| self.ids.next(now, &*self.random));
        if let Some(state) = self.state(id)? {
            return Ok(Enqueued::new(id, Disposition::Existing, Some(state)));
        }
        job.due = Due::At(job.due.at(now));
        job.joins = None;
        let (mut upstream, mut behind) = (Vec::new(), Vec::new());
        for before in job.after.iter().map(|dependency| dependency.job) {
            if let Some((_, number)) =
                sending.numbers.get(&before).filter(|(queue, _)| *queue != job.queue)
            {
                behind.push(*number);
            }
            let queue = match sending.queues.get(&before) {
                Some(queue) => Some(queue.clone()),
                None => self.elsewhere(before)?.or_else(|| self.steps.queue.clone()),
            };
            upstream.extend(queue.map(|queue| (before, queue)));
        }
        let (queue, about) = (job.queue.clone(), job.parent.unwrap_or(id));
        let followed = sending.followed.contains(&id);
        let needed = sending.needed.contains(&id);
        let deferred = Deferred { job, followed, needed, upstream };
        let number = self.post(&queue, about, behind, Message::Store(Box::new(deferred)))?;
        sending.numbers.insert(id, (queue, number));
        self.steps.sent.insert(id);
        Ok(Enqueued::new(id, Disposition::Deferred, None))
    }
}

/// The lowest number of a message that is appended now. Numbers contain the time, so they rise even if a store loses the
/// latest ones: the other queue would ignore a number that it has applied already.
fn first_number(now: Timestamp) -> u64 {
    u64::try_from(now.as_millis()).unwrap_or(0) << NUMBER_BITS
}
