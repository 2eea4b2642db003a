//! Maintenance: bounded steps, each job by its own event.

use crate::executor::{Executor, Happening};
use crate::rows::{Next, Rows};
use windlass_core::engine::{MaintainReply, MaintainRequest, SessionId, Work};
use windlass_core::machine::EventKind;
use windlass_core::policy::crash_delay_ms;
use windlass_core::{JobId, Result, Timestamp};

impl<R: Rows> Executor<R> {
    /// One bounded step; see [`windlass_core::engine::Maintain::maintain`].
    pub fn maintain(&mut self, request: MaintainRequest, now: Timestamp) -> Result<MaintainReply> {
        request.check()?;
        match request.work {
            Work::Promote => self.each_due(request, now, Self::next_scheduled, EventKind::Due),
            Work::Expire => self.each_due(request, now, Self::next_to_expire, EventKind::Expire),
            Work::Retain => self.each_due(request, now, Self::next_to_remove, EventKind::Retain),
            Work::Reclaim => self.reclaim(request, now),
            _ => {
                self.compact(now)?;
                Ok(MaintainReply::default())
            }
        }
    }

    /// Lets `event` happen to one due job after the other.
    fn each_due(
        &mut self,
        request: MaintainRequest,
        now: Timestamp,
        next: fn(&Self) -> Result<Next>,
        event: EventKind,
    ) -> Result<MaintainReply> {
        let mut reply = MaintainReply::default();
        while let Some((at, id)) = next(self)? {
            reply.next_at = Some(at);
            reply.more = at <= now && reply.done == request.budget;
            if at > now || reply.more {
                return Ok(reply);
            }
            self.count_applied(id, event, Happening::default(), now, &mut reply)?;
        }
        reply.next_at = None;
        Ok(reply)
    }

    fn next_scheduled(&self) -> Result<Next> {
        self.rows.next_scheduled()
    }

    fn next_to_expire(&self) -> Result<Next> {
        self.rows.next_to_expire(&|queue| self.queue_settings(queue).max_wait_ms)
    }

    fn next_to_remove(&self) -> Result<Next> {
        self.rows.next_to_remove(&|queue| self.queue_settings(queue))
    }

    /// Takes back what sessions held that ran out.
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

    /// The session that runs out first.
    fn next_to_reclaim(&self) -> Option<(Timestamp, SessionId)> {
        let sessions = self.sessions.iter();
        sessions.map(|(id, session)| (session.expires_at, id.clone())).min()
    }

    fn lose(&mut self, id: JobId, now: Timestamp, reply: &mut MaintainReply) -> Result<()> {
        let crashes = self.look(id, |entry| entry.job.header.counters.crashes)?.saturating_add(1);
        let run_at = Some(now.plus(crash_delay_ms(crashes, &*self.random)));
        let what = Happening { run_at, ..Happening::default() };
        self.count_applied(id, EventKind::Lose, what, now, reply)
    }

    fn count_applied(
        &mut self,
        id: JobId,
        event: EventKind,
        what: Happening,
        now: Timestamp,
        reply: &mut MaintainReply,
    ) -> Result<()> {
        let (queue, from) =
            self.look(id, |entry| (entry.job.header.queue.clone(), entry.job.state))?;
        let to = self.apply(id, event, what, now)?;
        reply.count(&queue, from, to);
        reply.done += 1;
        Ok(())
    }

    /// Forgets what has no meaning any more: unique keys past their window, and tenants that a
    /// fair queue would treat as newcomers anyway.
    fn compact(&mut self, now: Timestamp) -> Result<()> {
        self.rows.forget_windows(now)?;
        self.turns.retain(|_, turns| {
            let served = turns.clock.served;
            turns.latest.retain(|_, turn| *turn >= served);
            !turns.latest.is_empty()
        });
        self.rows.compact()
    }
}
