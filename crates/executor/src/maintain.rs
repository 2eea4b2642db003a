//! Maintenance in bounded steps; each job changes by an event of its own.

use crate::commit::Transition;
use crate::entry::Entry;
use crate::executor::Executor;
use crate::rows::{Due, Maintenance, Opening, Rows};
use crate::unknown;
use windlass_core::engine::{
    MaintainReply, MaintainRequest, Page, RemovedCount, RemovedQuery, SessionId, Work,
};
use windlass_core::machine::EventKind;
use windlass_core::model::{Job, Name};
use windlass_core::policy::crash_delay_ms;
use windlass_core::{JobId, Result, Timestamp};

impl<R: Maintenance> Executor<R> {
    /// One bounded step; see [`windlass_core::engine::Maintain::maintain`].
    pub fn maintain(&mut self, request: MaintainRequest, now: Timestamp) -> Result<MaintainReply> {
        request.check()?;
        let due = match request.work {
            Work::Promote => return self.promote(request, now),
            Work::Expire => {
                let limit_ms = |queue: &Name| self.queues.get(queue)?.max_wait_ms;
                self.rows.to_expire(&limit_ms, one_more(request))?
            }
            Work::Retain => {
                let settings = |queue: &Name| self.queues.get(queue).cloned().unwrap_or_default();
                self.rows.to_remove(&settings, now, one_more(request))?
            }
            Work::Compact => return self.compact(request, now),
            Work::Reclaim => Vec::new(),
            _ => return Err(unknown("work")),
        };
        self.maintain_due(request, due, now)
    }

    /// Moves due jobs on, releases jobs from lines whose time has come, and continues to resolve the dependents of ended
    /// jobs.
    fn promote(&mut self, request: MaintainRequest, now: Timestamp) -> Result<MaintainReply> {
        let due = self.rows.scheduled(one_more(request))?;
        let mut reply = self.maintain_due(request, due, now)?;
        let openings = self.rows.all_openings(request.budget as usize)?;
        self.open_lines(openings, request, &mut reply, now)?;
        if let Some((_, next)) = self.rows.all_openings(1)?.first() {
            reply.more |= next.at <= now;
            reply.next_at = reply.next_at.into_iter().chain([next.at]).min();
        }
        self.deliver_listed(request, &mut reply, now)?;
        let unresolved = self.rows.unresolved(request.budget as usize)?;
        self.continue_resolving(unresolved, request, &mut reply, now)?;
        reply.more |= !self.rows.unresolved(1)?.is_empty();
        // Jobs that it has resolved may have dependents elsewhere.
        reply.more |= !self.routes(1)?.is_empty();
        Ok(reply)
    }

    /// Removes unique keys whose window is over, idle lanes, old history of removed jobs, old events, and tenants that a fair queue would treat
    /// as new ones anyway.
    fn compact(&mut self, request: MaintainRequest, now: Timestamp) -> Result<MaintainReply> {
        self.turns.retain(|_, turns| {
            let served = turns.clock.served;
            turns.latest.retain(|_, turn| *turn >= served);
            !turns.latest.is_empty()
        });
        let budget = request.budget as usize;
        self.rows.forget_removed(now.minus(request.removed_kept_ms), budget)?;
        self.rows.compact(now, budget)?;
        let mut reply = MaintainReply::default();
        reply.more = self.drop_events(request, now)?;
        Ok(reply)
    }

    /// A page of the history of removed jobs; see [`windlass_core::engine::Admin::removed`].
    pub fn removed(&mut self, query: &RemovedQuery) -> Result<Page<RemovedCount>> {
        query.check()?;
        self.rows.removed(query)
    }
}

impl<R: Rows> Executor<R> {
    /// One bounded step over jobs that the store found: `due` are those that are due for this work, and the first
    /// one after them.
    pub fn maintain_due(
        &mut self,
        request: MaintainRequest,
        due: Vec<Due>,
        now: Timestamp,
    ) -> Result<MaintainReply> {
        self.begin_resolving(request.budget);
        match request.work {
            Work::Promote => self.each_due(request, now, due, EventKind::Due),
            Work::Expire => self.each_due(request, now, due, EventKind::Expire),
            Work::Retain => self.each_due(request, now, due, EventKind::Retain),
            Work::Reclaim => {
                self.resolving_together(now, |executor| executor.reclaim(request, now))
            }
            Work::Compact => Ok(MaintainReply::default()),
            _ => Err(unknown("work")),
        }
    }

    /// Examines lines whose time has come, within the budget that the step has left.
    pub fn open_lines(
        &mut self,
        openings: Vec<(Name, Opening)>,
        request: MaintainRequest,
        reply: &mut MaintainReply,
        now: Timestamp,
    ) -> Result<()> {
        for (queue, opening) in openings {
            if opening.at > now || reply.done == request.budget {
                break;
            }
            let lane = (queue, opening.kind);
            self.in_step(&lane.0, now, |executor| {
                executor.examine_line(&lane, &opening.group, now)
            })?;
            reply.done += 1;
        }
        Ok(())
    }

    /// Applies `event` to one due job after the other. The first job beyond the budget determines the reply's
    /// `more` and `next_at`.
    fn each_due(
        &mut self,
        request: MaintainRequest,
        now: Timestamp,
        due: Vec<Due>,
        event: EventKind,
    ) -> Result<MaintainReply> {
        let (mut reply, mut done) = (MaintainReply::default(), Ok(()));
        for (at, id) in due {
            if at > now || reply.done == request.budget {
                (reply.next_at, reply.more) = (Some(at), at <= now);
                break;
            }
            // Goes on after an error, so that a store with many writers learns of all missing rows in one run.
            let data = Transition::default();
            done = done.and(self.count_applied(id, event, data, now, &mut reply));
        }
        done.map(|()| reply)
    }

    /// Ends the leases of expired sessions.
    fn reclaim(&mut self, request: MaintainRequest, now: Timestamp) -> Result<MaintainReply> {
        let mut reply = MaintainReply::default();
        loop {
            let next = self.next_to_reclaim();
            reply.next_at = next.as_ref().map(|(at, _)| *at);
            let Some((_, session)) = next.filter(|(at, _)| *at <= now) else { return Ok(reply) };
            if reply.done == request.budget {
                reply.more = true;
                return Ok(reply);
            }
            match self.rows.held(&session).first() {
                Some(id) => self.lose(*id, now, &mut reply)?,
                None => reply.done += 1,
            }
            if self.rows.held(&session).is_empty() {
                self.drop_session(&session)?;
            }
        }
    }

    /// The session that expires first.
    fn next_to_reclaim(&self) -> Option<(Timestamp, SessionId)> {
        let sessions = self.sessions.iter();
        sessions.map(|(id, session)| (session.expires_at, id.clone())).min()
    }

    fn lose(&mut self, id: JobId, now: Timestamp, reply: &mut MaintainReply) -> Result<()> {
        let crashes = self.read(id, |entry| entry.job.header.counters.crashes)?.saturating_add(1);
        let run_at = Some(now.plus(crash_delay_ms(crashes, &*self.random)));
        let data = Transition { run_at, ..Transition::default() };
        self.count_applied(id, EventKind::Lose, data, now, reply)
    }

    fn count_applied(
        &mut self,
        id: JobId,
        event: EventKind,
        data: Transition,
        now: Timestamp,
        reply: &mut MaintainReply,
    ) -> Result<()> {
        let (queue, from, fits) = self.read(id, |Entry { job, .. }| {
            (job.header.queue.clone(), job.state, is_for(event, job))
        })?;
        if !fits {
            return Ok(());
        }
        let to = self.in_step(&queue, now, |executor| executor.apply(id, event, data, now))?;
        reply.count(&queue, from, to);
        reply.done += 1;
        Ok(())
    }
}

/// Whether a job still fits an event of a maintenance step: the end of another job in the same step may have ended it, too,
/// and a job stays until its dependents are resolved and no longer need its result.
const fn is_for(event: EventKind, job: &Job) -> bool {
    let waits_for_it = matches!(event, EventKind::Due | EventKind::Expire);
    (!waits_for_it || job.state.is_waiting())
        && (!matches!(event, EventKind::Retain) || !job.is_unresolved() && !job.is_read())
}

/// The budget of a step, plus one job to learn what remains.
const fn one_more(request: MaintainRequest) -> usize {
    request.budget as usize + 1
}
