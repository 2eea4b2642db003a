//! Maintenance: bounded steps, each job by its own event.

use crate::store::{Happening, Store};
use windlass_core::engine::{MaintainReply, MaintainRequest, SessionId, Work};
use windlass_core::machine::EventKind;
use windlass_core::policy::crash_delay_ms;
use windlass_core::{JobId, Result, Timestamp};

/// What a step would touch next, and when it is due.
type Next<T> = Option<(Timestamp, T)>;

impl Store {
    pub(crate) fn maintain(
        &mut self,
        request: MaintainRequest,
        now: Timestamp,
    ) -> Result<MaintainReply> {
        match request.work {
            Work::Promote => self.each_due(request, now, Self::next_scheduled, EventKind::Due),
            Work::Expire => self.each_due(request, now, Self::next_to_expire, EventKind::Expire),
            Work::Retain => self.each_due(request, now, Self::next_to_remove, EventKind::Retain),
            Work::Reclaim => self.reclaim(request, now),
            _ => {
                self.compact(now);
                Ok(MaintainReply::default())
            }
        }
    }

    /// Lets `event` happen to one due job after the other.
    fn each_due(
        &mut self,
        request: MaintainRequest,
        now: Timestamp,
        next: fn(&Self) -> Next<JobId>,
        event: EventKind,
    ) -> Result<MaintainReply> {
        let mut reply = MaintainReply::default();
        while let Some((at, id)) = next(self) {
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

    fn next_scheduled(&self) -> Next<JobId> {
        self.index.scheduled.first().map(|(at, _, id)| (*at, *id))
    }

    fn next_to_expire(&self) -> Next<JobId> {
        self.index.waiting.next(|queue, _| self.queue_settings(queue).max_wait_ms)
    }

    fn next_to_remove(&self) -> Next<JobId> {
        self.index
            .finished
            .next(|queue, state| Some(self.queue_settings(queue).retention.of(state)))
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
            match self.held_by(&session).first() {
                Some(id) => self.lose(*id, now, &mut reply)?,
                None => reply.done += 1,
            }
            if !self.index.held.contains_key(&session) {
                self.sessions.remove(&session);
            }
        }
    }

    /// The session that runs out first.
    fn next_to_reclaim(&self) -> Next<SessionId> {
        let sessions = self.sessions.iter();
        sessions.map(|(id, session)| (session.expires_at, id.clone())).min()
    }

    fn lose(&mut self, id: JobId, now: Timestamp, reply: &mut MaintainReply) -> Result<()> {
        let crashes = self.entry(id)?.job.header.counters.crashes.saturating_add(1);
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
        let entry = self.entry(id)?;
        let (queue, from) = (entry.job.header.queue.clone(), entry.job.state);
        let to = self.apply(id, event, what, now)?;
        reply.count(&queue, from, to);
        reply.done += 1;
        Ok(())
    }

    /// Forgets what has no meaning any more: unique keys past their window, and tenants that a
    /// fair queue would treat as newcomers anyway.
    fn compact(&mut self, now: Timestamp) {
        self.uniques.retain(|_, hold| hold.until.is_none_or(|until| now < until));
        self.turns.retain(|_, turns| {
            let served = turns.clock.served;
            turns.latest.retain(|_, turn| *turn >= served);
            !turns.latest.is_empty()
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use windlass_core::engine::{Atomicity, Capabilities, Configure, Durability, Enqueue};
    use windlass_core::engine::{Capability, Claim, ClaimId, Claimant};
    use windlass_core::model::{NewJob, Order, QueuePatch};
    use windlass_core::policy::{Unique, Until};
    use windlass_core::random::Seeded;

    fn store() -> Store {
        let capabilities = Capabilities::new("memory", Atomicity::Store, Durability::Volatile);
        Store::new(capabilities.with(Capability::FairOrder), Arc::new(Seeded::new(1)))
    }

    #[test]
    fn compaction_forgets_unique_keys_past_their_window_and_no_others() {
        let (mut store, now) = (store(), Timestamp::from_millis(1_800_000_000_000));
        let job = |key: &str, until| NewJob::new("k").unique(Unique::by(key).until(until));
        let jobs = [job("window", Until::Window(1_000)), job("finished", Until::Finished)];
        store.enqueue(Enqueue::each(jobs), now);
        store.compact(now.plus(999));
        assert_eq!(store.uniques.len(), 2);
        store.compact(now.plus(1_000));
        assert_eq!(store.uniques.len(), 1);
    }

    #[test]
    fn compaction_forgets_tenants_whose_turn_has_passed() {
        let (mut store, now) = (store(), Timestamp::from_millis(1_800_000_000_000));
        let fair = Configure::queue("default", QueuePatch::order(Order::Fair));
        store.configure(fair).unwrap();
        let of = |tenant: &str| NewJob::new("k").tenant(tenant);
        store.enqueue(Enqueue::each([of("a"), of("b"), of("b"), of("b")]), now);
        let by =
            Claimant::Alone { claim_id: ClaimId::new("c"), worker: "w".into(), lease_ms: 1_000 };
        store.claim(&Claim::new(by, "default", 4), now).unwrap();
        store.compact(now);
        let turns = store.turns.values().next().unwrap();
        let tenants: Vec<_> = turns.latest.keys().flatten().collect();
        assert_eq!(tenants, ["b"], "a would be a newcomer now");
    }
}
