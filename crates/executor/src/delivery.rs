//! Delivery: the messages of an outbox are applied in steps of the queues that they are for, and then removed.
//!
//! Each queue records the number of the last message that it has applied from every other queue, in the step that applies
//! it. So a message whose delivery was cut off before it was removed is not applied again, whatever it does. Only a `Resolve`
//! for more dependents than one step may resolve is applied in parts; the dependencies it has resolved are not open.

use crate::commit::Transition;
use crate::dependencies::End;
use crate::enqueue::BatchPreview;
use crate::executor::Executor;
use crate::outbox::{Deferred, Message, Outbox, Posted, Route};
use crate::rows::{Maintenance, Rows};
use windlass_core::engine::{MaintainReply, MaintainRequest};
use windlass_core::limits::{DELIVERED_PER_STEP_MAX, RESOLUTIONS_MAX, ROUTES_READ_MAX};
use windlass_core::machine::EventKind;
use windlass_core::model::{Finish, JobError, Name, NewJob};
use windlass_core::{Error, JobId, Result, Timestamp};

/// The code of the error of a follow-up that its queue has refused.
pub const REFUSED: &str = "refused";

/// How far a delivery got.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Delivered {
    /// No message is left, or none can be applied now.
    All,
    /// The next message must wait for one to another queue.
    Behind,
    /// The work that a call may do is done.
    Spent,
}

impl<R: Rows> Executor<R> {
    /// Delivers the messages that this call has appended, within the budget that the call has left. Maintenance delivers the
    /// others. Called after the reply is known: what fails here does not fail the call.
    pub fn deliver_messages(&mut self, now: Timestamp) -> Result<()> {
        let (mut behind, mut progress) = (Vec::new(), false);
        loop {
            let Some(route) = self.steps.outgoing.pop_first() else {
                if !progress {
                    return Ok(());
                }
                progress = false;
                self.steps.outgoing.extend(behind.drain(..));
                continue;
            };
            let before = self.resolving.left;
            match self.deliver_route(&route, now)? {
                Delivered::All => {}
                Delivered::Behind => behind.push(route),
                Delivered::Spent => {
                    self.steps.outgoing.clear();
                    return Ok(());
                }
            }
            progress |= self.resolving.left < before;
        }
    }

    /// Delivers the messages of one route, in steps of [`DELIVERED_PER_STEP_MAX`].
    fn deliver_route(&mut self, route: &Route, now: Timestamp) -> Result<Delivered> {
        loop {
            let Some(outbox) = self.rows.outbox() else { return Ok(Delivered::All) };
            let mut posted = outbox.first(route, DELIVERED_PER_STEP_MAX)?;
            if posted.is_empty() {
                return Ok(Delivered::All);
            }
            let mut ready = 0;
            while let Some(next) = posted.get(ready)
                && !Self::must_wait(outbox, &route.from, next)?
            {
                ready += 1;
            }
            posted.truncate(ready);
            if posted.is_empty() {
                return Ok(Delivered::Behind);
            }
            if self.resolving.left == 0 {
                return Ok(Delivered::Spent);
            }
            let last = posted.last().map(|posted| posted.number);
            let apply = |executor: &mut Self| executor.apply_all(&route.from, posted, now);
            let applied = self.in_step(&route.to, now, apply)?;
            let remove = |executor: &mut Self| executor.remove(&route.to, applied);
            let removed = self.in_step(&route.from, now, remove)?;
            // A message that is applied in part, or a store that was cut off from the outbox: later.
            if removed == 0 || last.is_some_and(|last| applied < last) {
                return Ok(Delivered::Spent);
            }
        }
    }

    /// Whether a message must wait for others of its outbox.
    fn must_wait(outbox: &dyn Outbox, from: &Name, posted: &Posted) -> Result<bool> {
        for number in &posted.behind {
            if outbox.is_posted(from, *number)? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Removes the messages that a queue has applied. Returns how many.
    fn remove(&mut self, to: &Name, upto: u64) -> Result<u64> {
        let Some(outbox) = self.rows.outbox_mut() else { return Ok(0) };
        let before = outbox.undelivered()?;
        outbox.remove_upto(to, upto)?;
        Ok(before.saturating_sub(outbox.undelivered()?))
    }

    /// Applies messages to the step's queue, in order. Returns the number of the last one that is applied.
    fn apply_all(&mut self, from: &Name, posted: Vec<Posted>, now: Timestamp) -> Result<u64> {
        let applied = self.rows.outbox().map_or(Ok(0), |outbox| outbox.applied(from))?;
        let mut last = applied;
        for posted in posted.into_iter().filter(|posted| posted.number > applied) {
            let before = self.resolving.left;
            if before == 0 || !self.apply_message(from, posted.message, now)? {
                break;
            }
            self.resolving.left = self.resolving.left.min(before - 1);
            last = posted.number;
        }
        if last > applied
            && let Some(outbox) = self.rows.outbox_mut()
        {
            outbox.set_applied(from, last)?;
        }
        Ok(last)
    }

    /// Applies a message; returns whether it is applied as a whole.
    fn apply_message(&mut self, from: &Name, message: Message, now: Timestamp) -> Result<bool> {
        match message {
            Message::Store(deferred) => self.store_deferred(from, *deferred, now)?,
            Message::Follow(jobs) => {
                for job in jobs {
                    self.resolving.left = self.resolving.left.saturating_sub(1);
                    self.follow_from(from, job, now)?;
                }
            }
            Message::Resolve(end) => return self.apply_end(from, &end, now),
            Message::Readers { upstream, change } => {
                if self.rows.with_job(upstream, |_| ())?.is_some() {
                    self.edit(upstream, |entry| {
                        let readers = &mut entry.job.dependencies.readers;
                        *readers = readers.saturating_add_signed(change);
                    })?;
                }
            }
        }
        Ok(true)
    }

    /// Stores a follow-up that another queue has sent. One that is refused is stored as a dead job: its report was accepted
    /// long ago, and other jobs may depend on it.
    fn store_deferred(&mut self, from: &Name, deferred: Deferred, now: Timestamp) -> Result<()> {
        let Deferred { job, followed, needed, upstream } = deferred;
        let Some(id) = job.id else { return Ok(()) };
        if self.state(id)?.is_none() {
            self.steps.known.extend(upstream);
            let mut batch = BatchPreview::of_deferred(&job, needed);
            let stored = match self.preview_here(&job, &mut batch, now) {
                Ok(()) => self.admit_new(job.clone(), now),
                Err(refused) => Err(refused),
            };
            match stored {
                Ok(_) => {}
                Err(refused) if is_refusal(&refused) => {
                    self.store_refused(id, job, &refused, now)?;
                }
                Err(error) => return Err(error),
            }
        }
        if followed {
            self.follow_from(from, id, now)?;
        }
        Ok(())
    }

    /// Stores a follow-up as a dead job, without the unique key that it may have been refused for.
    fn store_refused(
        &mut self,
        id: JobId,
        mut job: NewJob,
        refused: &Error,
        now: Timestamp,
    ) -> Result<()> {
        job.unique = None;
        self.create(job, now)?;
        let error = JobError::new(REFUSED, refused.to_string()).bounded();
        self.edit(id, |entry| entry.job.error = Some(error))?;
        let data = Transition { finish: Some(Finish::Failed), ..Transition::default() };
        self.apply(id, EventKind::Kill, data, now).map(drop)
    }

    /// Lets another queue follow a job. If it has ended, its end is sent at once.
    fn follow_from(&mut self, queue: &Name, upstream: JobId, now: Timestamp) -> Result<()> {
        let Some(ended) = self.rows.with_job(upstream, |entry| entry.job.state.is_terminal())?
        else {
            let gone = Message::Resolve(End::gone(upstream));
            return self.post(queue, upstream, Vec::new(), gone).map(drop);
        };
        if let Some(outbox) = self.rows.outbox_mut() {
            outbox.set_follower(upstream, queue, true)?;
        }
        self.follow(upstream)?;
        if ended {
            self.resolving.ended.push_back((upstream, 1));
            self.resolve_ended(now)?;
        }
        Ok(())
    }

    /// Sends the end of a job to the queues that follow it, within the budget of the call and the room of the outbox. Each of
    /// them counts as a reader of the result until it says how many of its jobs are. Returns the number of these readers, and
    /// whether other queues are left.
    pub(crate) fn send_end(&mut self, end: &End) -> Result<(u32, bool)> {
        let most =
            u64::from(self.resolving.left.min(RESOLUTIONS_MAX)).min(self.outbox_room()?) as usize;
        let followers = self
            .rows
            .outbox()
            .map_or(Ok(Vec::new()), |outbox| outbox.followers(end.job, most + 1))?;
        let mut readers = 0;
        for (at, queue) in followers.iter().enumerate() {
            let bytes_left = &mut self.resolving.bytes_left;
            if at == most || end.bytes() > *bytes_left {
                return Ok((readers, true));
            }
            *bytes_left -= end.bytes();
            self.resolving.left = self.resolving.left.saturating_sub(1);
            readers += u32::from(end.bytes() > 0);
            self.post(queue, end.job, Vec::new(), Message::Resolve(end.clone()))?;
            if let Some(outbox) = self.rows.outbox_mut() {
                outbox.set_follower(end.job, queue, false)?;
            }
        }
        Ok((readers, false))
    }

    /// Resolves the open dependencies on a job elsewhere that has ended, within the budget of the call; returns whether none
    /// is left.
    fn apply_end(&mut self, from: &Name, end: &End, now: Timestamp) -> Result<bool> {
        let most = self.resolving.left.min(RESOLUTIONS_MAX) as usize;
        let (readers, more) = self.resolve_open(end, most, now)?;
        // The sender has counted one.
        let counted = i32::from(end.bytes() > 0 && !more);
        let change = i32::try_from(readers).unwrap_or(i32::MAX) - counted;
        if change != 0 {
            let upstream = end.job;
            self.post(from, upstream, Vec::new(), Message::Readers { upstream, change })?;
        }
        Ok(!more)
    }
}

/// Whether an error is about the job, not about the store.
const fn is_refusal(error: &Error) -> bool {
    matches!(error, Error::Invalid { .. } | Error::TooLarge { .. } | Error::Duplicate { .. })
}

impl<R: Maintenance> Executor<R> {
    /// Delivers messages of all outboxes, within the budget that the step has left.
    pub(crate) fn deliver_listed(
        &mut self,
        request: MaintainRequest,
        reply: &mut MaintainReply,
        now: Timestamp,
    ) -> Result<()> {
        loop {
            let left = request.budget.saturating_sub(reply.done);
            self.resolving.left = left;
            for route in self.routes(ROUTES_READ_MAX)? {
                self.deliver_route(&route, now)?;
            }
            reply.done += left - self.resolving.left;
            if self.resolving.left == left || self.resolving.left == 0 {
                break;
            }
        }
        // What the deliveries have appended is listed, too.
        self.steps.outgoing.clear();
        Ok(())
    }

    /// Routes with messages.
    pub(crate) fn routes(&self, limit: usize) -> Result<Vec<Route>> {
        self.rows.outbox().map_or(Ok(Vec::new()), |outbox| outbox.routes(limit))
    }
}
