//! Runs a story on one engine. It does not know the expected results; it returns the replies as text.

use super::op::{ClaimSpec, Op};
use super::translate::{Named, change, configuration, part_edit, pick, settle_item};
use crate::rig::Rig;
use crate::subject::{START, Subject};
use std::fmt::Debug;
use windlass_core::engine::{
    ChangeItem, Claim, Claimed, Enqueue, Heartbeat, Held, MaintainRequest, OpenSession, SessionId,
    Settle, SettleItem, Stamped, Update, UpdateItem, Work,
};
use windlass_core::limits::MAINTAIN_BUDGET_MAX;
use windlass_core::model::NewJob;
use windlass_core::{Result, Timestamp};

pub(super) struct StoryRunner {
    pub(super) rig: Rig,
    pub(super) named: Named,
    pub(super) now: Timestamp,
    /// The session of each lease, in the order of `named.leases`.
    holders: Vec<SessionId>,
}

impl StoryRunner {
    pub(super) fn new(subject: Subject) -> Self {
        Self { rig: Rig::new(subject), named: Named::new(), now: START, holders: Vec::new() }
    }

    /// Allows or forbids the engine's fast paths from now on.
    pub(super) fn fast_paths(&self, on: bool) {
        self.rig.subject().fast_paths.set(on);
    }

    /// Carries out one step; returns the engine's reply.
    pub(super) async fn step(&mut self, op: &Op) -> String {
        match op.clone() {
            Op::Enqueue { jobs, all_or_nothing } => {
                let jobs = jobs.iter().map(|spec| self.named.job(spec, self.now)).collect();
                self.enqueue(jobs, all_or_nothing).await
            }
            Op::OpenSession { ttl_ms } => {
                let request = OpenSession::new("story").ttl_ms(ttl_ms);
                let reply = self.rig.engine().open_session(request).await;
                self.named.sessions.extend(reply.iter().map(|reply| reply.value.id.clone()));
                self.text(&value(reply))
            }
            Op::CloseSession { session } => {
                let Some(session) = pick(&self.named.sessions, session).cloned() else {
                    return String::new();
                };
                let reply = self.rig.engine().close_session(session).await;
                self.text(&value(reply))
            }
            Op::Heartbeat { session, forgets, unanswered } => {
                self.heartbeat(session, forgets, unanswered).await
            }
            Op::Claim(spec) => match self.named.resolve(&spec) {
                Some((claim, session, _)) => self.claim(claim, &session).await,
                None => String::new(),
            },
            Op::Settle { lease, settle, claim } => {
                let Some(leased) = pick(&self.named.leases, lease).cloned() else {
                    return String::new();
                };
                let then = settle.then.iter().map(|spec| self.named.job(spec, self.now));
                let item = settle_item(leased, &settle, then.collect());
                self.settle(item, claim).await
            }
            Op::Update { lease, checkpoint, payload, extend_ms } => {
                let Some((id, lease)) = pick(&self.named.leases, lease).cloned() else {
                    return String::new();
                };
                let mut item = UpdateItem::new(id, lease);
                item.extend_ms = extend_ms;
                item.parts.checkpoint = part_edit(checkpoint);
                item.parts.payload = part_edit(payload);
                let reply = self.rig.engine().update(Update::new([item])).await;
                self.text(&value(reply))
            }
            Op::Change { job, wish, if_state } => {
                let Some(id) = pick(&self.named.ids, job).copied() else { return String::new() };
                let mut item = ChangeItem::new(id, change(wish));
                item.if_state = if_state;
                let reply = self.rig.engine().change(vec![item]).await;
                self.text(&value(reply))
            }
            Op::Import { job, discards } => self.import(job, discards).await,
            Op::Configure(setting) => {
                let reply = self.rig.engine().configure(vec![configuration(setting)]).await;
                self.text(&value(reply))
            }
            Op::Advance { ms } => {
                self.rig.advance(ms);
                self.now = self.now.plus(ms);
                String::new()
            }
            Op::Maintain { work, budget } => {
                // Which of several overdue jobs a small budget reaches is promised for promotion only.
                let budget = if work == Work::Promote { budget } else { MAINTAIN_BUDGET_MAX };
                let reply = self.rig.engine().maintain(MaintainRequest::new(work, budget)).await;
                let mut reply = value(reply);
                if let Ok(reply) = &mut reply {
                    reply.tallies.sort_by_key(|tally| format!("{tally:?}"));
                    // A fast claim leaves the job's deadline behind, which expiry finds and drops when it is due. So the
                    // next step may be advised too early, which is allowed.
                    reply.next_at = reply.next_at.filter(|_| work != Work::Expire);
                }
                self.text(&reply)
            }
        }
    }

    pub(super) async fn enqueue(&mut self, mut jobs: Vec<NewJob>, all_or_nothing: bool) -> String {
        for job in &mut jobs {
            let fresh = self.named.fresh_id(self.now);
            self.named.ids.push(*job.id.get_or_insert(fresh));
        }
        let request = match all_or_nothing {
            true => Enqueue::all_or_nothing(jobs),
            false => Enqueue::each(jobs),
        };
        let reply = self.rig.engine().enqueue(request).await;
        self.text(&value(reply))
    }

    /// Declares what was claimed by the session, whether or not it was settled or lost since.
    async fn heartbeat(&self, number: usize, forgets: Option<usize>, unanswered: bool) -> String {
        let Some(session) = pick(&self.named.sessions, number).cloned() else {
            return String::new();
        };
        let leases = self.named.leases.iter().zip(&self.holders);
        let leases = leases.filter(|(_, holder)| **holder == session);
        let mut held: Vec<Held> =
            leases.map(|((id, lease), _)| Held { id: *id, lease: lease.clone() }).collect();
        if let Some(forgotten) = forgets.filter(|_| !held.is_empty()) {
            held.remove(forgotten % held.len());
        }
        let mut beat = Heartbeat::new(session, self.named.claim_no, held);
        if unanswered {
            beat = beat.unanswered([self.named.claim_no]);
        }
        let reply = self.rig.engine().heartbeat(beat).await;
        self.text(&value(reply))
    }

    pub(super) async fn claim(&mut self, claim: Claim, session: &SessionId) -> String {
        let reply = value(self.rig.engine().claim(claim).await);
        self.claimed(&reply, session);
        self.text(&reply)
    }

    /// Remembers the leases of a reply.
    fn claimed(&mut self, reply: &Result<Claimed>, session: &SessionId) {
        for job in reply.iter().flat_map(|claimed| &claimed.jobs) {
            let given = (job.header.id, job.lease.clone());
            if !self.named.leases.contains(&given) {
                self.named.leases.push(given);
                self.holders.push(session.clone());
            }
        }
    }

    pub(super) async fn settle(&mut self, item: SettleItem, claim: Option<ClaimSpec>) -> String {
        let mut request = Settle::new([item]);
        let mut by = None;
        if let Some((claim, session, _)) = claim.and_then(|spec| self.named.resolve(&spec)) {
            request = request.then(claim);
            by = Some(session);
        }
        let reply = value(self.rig.engine().settle(request).await);
        if let Ok(reply) = &reply {
            let settled = reply.items.iter().flatten();
            let created = settled.flat_map(|settled| &settled.follow_ups).map(|job| job.id);
            self.named.ids.extend(created);
            if let (Some(claimed), Some(session)) = (&reply.claimed, by) {
                self.claimed(claimed, &session);
            }
        }
        self.text(&reply)
    }

    /// A value as text. Sessions and leases are random tokens, drawn in another order where fast paths draw a batch
    /// ahead; they are replaced by their numbers in the story. Job ids are the story's own and stay.
    pub(super) fn text(&self, value: &impl Debug) -> String {
        self.by_number(format!("{value:?}"))
    }

    /// See [`StoryRunner::text`].
    pub(super) fn by_number(&self, mut text: String) -> String {
        for (number, (_, lease)) in self.named.leases.iter().enumerate() {
            text = text.replace(lease.as_str(), &format!("lease {number}"));
        }
        for (number, session) in self.named.sessions.iter().enumerate() {
            text = text.replace(session.as_str(), &format!("session {number}"));
        }
        text
    }
}

/// A reply without its stamp: the time is compared in snapshots, and every store has its own epoch.
pub(super) fn value<T>(reply: Result<Stamped<T>>) -> Result<T> {
    reply.map(|reply| reply.value)
}
