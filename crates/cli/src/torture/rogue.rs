//! A worker that behaves as badly as the contract allows: claims and settles without the worker library, with
//! and without a session, late, twice, and with expired leases. The history checker decides whether the store
//! handled it correctly.

use super::client::Order;
use super::stage::{Stage, is_payload_of};
use super::{BACKOFF, FOLLOW_UP, LEASE_MS, happens};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use windlass_core::engine::{
    Claim, ClaimId, Claimant, Claimed, ClaimedJob, Heartbeat, Held, Jobs as _, OpenSession,
    Outcome, SessionId, Settle, SettleItem, Update, UpdateItem,
};
use windlass_core::model::{JobError, NewJob};
use windlass_core::random::{Random as _, Seeded};
use windlass_core::{Error, Result};
use windlass_kit::history::Recorded;

/// Maximum number of jobs in one claim.
const CLAIM_MAX: u64 = 6;
/// Maximum pause between two rounds.
const PAUSE_MAX_MS: u64 = 15;
/// Maximum pause when it holds no jobs.
const IDLE_MS: u64 = 40;
/// Duration of a stall: longer than a lease.
const STALL_MS: u64 = LEASE_MS + 700;
/// Maximum delay of a retry or snooze.
const DELAY_MAX_MS: u64 = 200;
/// Maximum number of settled jobs that it remembers in order to settle them again.
const GHOSTS_MAX: usize = 100;
/// Number of the most recent of them, which it prefers.
const LAST_GHOSTS: usize = 4;
/// Jobs a forgetful rogue forgets for certain after the faults have ended. More than one, because a
/// claim without a session has a lease that expires by itself.
const FORGOTTEN_AT_REST: u32 = 5;

pub(super) struct Rogue {
    stage: Arc<Stage>,
    engine: Recorded,
    random: Seeded,
    number: u64,
    /// Whether it forgets jobs. If so, it never closes its session, which would release them.
    is_forgetful: bool,
    /// How many jobs it still has to forget after the faults have ended. A job forgotten earlier may
    /// have been released because this process was killed or its session expired.
    must_forget: u32,
    session: Option<SessionId>,
    claim_no: u64,
    held: Vec<ClaimedJob>,
    /// An unanswered claim, to be repeated under the same name.
    claim: Option<Claim>,
    /// An unanswered settle, to be repeated with the same leases.
    reports: Option<Settle>,
    /// Settled jobs, whose leases must no longer be valid.
    ghosts: Vec<ClaimedJob>,
}

impl Rogue {
    pub(super) fn new(stage: Arc<Stage>, number: u64) -> Self {
        let (engine, random) = (stage.client(), stage.random(number));
        Self {
            stage,
            engine,
            random,
            number,
            is_forgetful: false,
            must_forget: 0,
            session: None,
            claim_no: 0,
            held: Vec::new(),
            claim: None,
            reports: None,
            ghosts: Vec::new(),
        }
    }

    /// A rogue that forgets jobs.
    pub(super) fn forgetful(stage: Arc<Stage>, number: u64) -> Self {
        Self { is_forgetful: true, must_forget: FORGOTTEN_AT_REST, ..Self::new(stage, number) }
    }

    pub(super) async fn run(mut self) {
        while self.stage.order() != Order::Stop {
            if let Some(session) = self.session().await {
                self.round(session).await;
            }
            let pause = if self.held.is_empty() { IDLE_MS } else { PAUSE_MAX_MS };
            self.stage.rest(self.random.below(pause), Order::Stop).await;
        }
        self.end().await;
    }

    async fn session(&mut self) -> Option<SessionId> {
        if let Some(session) = &self.session {
            return Some(session.clone());
        }
        let mut open = OpenSession::new(format!("{}-{}", self.stage.spec.name, self.number));
        open.ttl_ms = LEASE_MS;
        // Remote sessions survive a restart of a local store for a grace period; the client of this one may
        // never return.
        open.remote = happens(&self.random, 500);
        let opened = self.stage.ask("open_session", self.engine.open_session(open), &[]).await?;
        self.session = Some(opened.id.clone());
        Some(opened.id)
    }

    async fn round(&mut self, session: SessionId) {
        if happens(&self.random, 200) {
            self.heartbeat(session.clone()).await;
        }
        if let Some(reports) = self.reports.take() {
            return self.settle(reports).await;
        }
        if self.claim.is_some() || self.held.is_empty() || happens(&self.random, 200) {
            self.claim(&session).await;
        }
        if self.must_forget > 0 && self.stage.order() == Order::Rest {
            self.must_forget -= u32::from(self.held.pop().is_some());
        }
        if happens(&self.random, 150) {
            self.update().await;
        }
        if happens(&self.random, 300) {
            self.haunt().await;
        }
        if happens(&self.random, 600) && !self.held.is_empty() {
            let settle = self.next_reports(&session);
            self.settle(settle).await;
        }
        match self.random.below(1_000) {
            0..30 if self.is_forgetful => self.forget(),
            _ if self.is_forgetful => {}
            // Other workers reclaim its jobs meanwhile, and it settles them all the same.
            0..8 => self.stage.rest(STALL_MS, Order::Stop).await,
            8..20 => self.leave(session).await,
            20..100 if !self.held.is_empty() => self.turn_round(session).await,
            _ => {}
        }
    }

    /// Forgets a job as if the reply to its claim had been lost: heartbeats no longer declare it, and the store
    /// must give it to another worker although this one is alive.
    fn forget(&mut self) {
        self.held.pop();
    }

    /// Closes its session, which releases its jobs; it settles them later all the same.
    async fn leave(&mut self, session: SessionId) {
        self.stage.ask("close_session", self.engine.close_session(session), &[]).await;
        self.session = None;
    }

    /// Closes its session, opens a new one and claims, and only then settles the jobs it held before: another
    /// worker holds them now, or it does itself.
    async fn turn_round(&mut self, session: SessionId) {
        let before = std::mem::take(&mut self.held);
        self.leave(session).await;
        if let Some(session) = self.session().await {
            self.claim(&session).await;
        }
        let reports = Settle::new(before.iter().map(|job| self.report(job)));
        self.settle(reports).await;
    }

    async fn claim(&mut self, session: &SessionId) {
        let claim = match self.claim.take() {
            Some(claim) => claim,
            None => self.next_claim(session),
        };
        let call = self.engine.claim(claim.clone());
        match tokio::time::timeout(super::CALL_MAX, call).await {
            Ok(answer) => self.claimed(claim, answer.map(|answer| answer.value)),
            Err(_) => self.claim = Some(claim),
        }
    }

    fn next_claim(&mut self, session: &SessionId) -> Claim {
        self.claim_no += 1;
        let by = match happens(&self.random, 100) {
            true => Claimant::Alone {
                claim_id: ClaimId::new(format!("{:x}", self.random.next_u128())),
                worker: "alone".into(),
                lease_ms: LEASE_MS,
            },
            false => Claimant::Session { session: session.clone(), claim_no: self.claim_no },
        };
        let limit = 1 + self.random.below(CLAIM_MAX) as u32;
        Claim::new(by, self.stage.spec.queue.clone(), limit)
    }

    fn claimed(&mut self, claim: Claim, answer: Result<Claimed>) {
        if matches!(
            answer,
            Err(Error::Unavailable { .. } | Error::Busy { .. } | Error::StoreFull { .. })
        ) {
            self.claim = Some(claim);
        } else if let Some(claimed) = self.stage.expected("claim", answer, &["session_lost"]) {
            for job in claimed.jobs {
                let bytes = job.parts.payload.as_ref().map(|part| &*part.bytes).unwrap_or_default();
                if job.header.parent.is_none() && !is_payload_of(job.header.id, bytes) {
                    let id = job.header.id;
                    self.stage.bad("claim", format!("job {id} arrived without its payload"));
                }
                // A repeated claim returns the jobs still leased under it, some of which are known already.
                if !self.held.iter().any(|held| held.lease == job.lease) {
                    self.held.push(job);
                }
            }
        } else {
            // Keeps its jobs although the session is lost: the store must reject their leases.
            self.session = None;
        }
    }

    /// Settles some of the jobs it holds, and sometimes claims in the same call.
    fn next_reports(&mut self, session: &SessionId) -> Settle {
        let count = 1 + self.random.below(self.held.len() as u64) as usize;
        let jobs: Vec<ClaimedJob> = self.held.drain(..count).collect();
        let settle = Settle::new(jobs.iter().map(|job| self.report(job)));
        self.ghosts.extend(jobs);
        self.ghosts.drain(..self.ghosts.len().saturating_sub(GHOSTS_MAX));
        match happens(&self.random, 300) && self.claim.is_none() {
            true => settle.then(self.next_claim(session)),
            false => settle,
        }
    }

    fn report(&self, job: &ClaimedJob) -> SettleItem {
        let random = &self.random;
        let error = JobError::new("rogue", "by chance");
        let delay_ms = random.below(DELAY_MAX_MS);
        let outcome = match random.below(100) {
            0..80 => Outcome::Complete { result: self.stage.result() },
            80..85 => Outcome::Retry { error, delay_ms: Some(delay_ms) },
            85..91 => Outcome::Release,
            91..95 => Outcome::Snooze { delay_ms },
            95..98 => Outcome::Fail { error },
            _ => Outcome::Cancel,
        };
        let item = SettleItem::new(job.header.id, job.lease.clone(), outcome);
        // Follow-ups enqueue no follow-ups, or the run would never end.
        match job.header.parent.is_none() && happens(random, 100) {
            true => item.follow_up(
                NewJob::new(FOLLOW_UP).queue(self.stage.spec.queue.clone()).backoff(BACKOFF),
            ),
            false => item,
        }
    }

    async fn settle(&mut self, settle: Settle) {
        let call = self.engine.settle(settle.clone());
        let Some(reply) = self.stage.ask("settle", call, &[]).await else {
            self.reports = Some(settle);
            return;
        };
        for item in reply.items {
            let settled = self.stage.expected("settle", item, &["lease_lost", "not_found"]);
            let ended = settled.is_some_and(|it| !it.already && it.state.is_terminal());
            self.stage.ended.fetch_add(u64::from(ended), Ordering::Relaxed);
        }
        if let (Some(claim), Some(claimed)) = (settle.claim, reply.claimed) {
            self.claimed(claim, claimed);
        }
        // Repeats the settle as if the reply had been lost.
        if happens(&self.random, 100) {
            let again = self.engine.settle(Settle::new(settle.items));
            self.stage.ask("settle again", again, &[]).await;
        }
    }

    /// Settles a job that it has settled before, perhaps with another outcome: mostly one of the most recent,
    /// which another worker may hold now.
    async fn haunt(&self) {
        let last = if happens(&self.random, 700) { LAST_GHOSTS } else { GHOSTS_MAX };
        let among = last.min(self.ghosts.len()) as u64;
        let back = 1 + self.random.below(among) as usize;
        let Some(ghost) = self.ghosts.iter().nth_back(back - 1) else { return };
        let mut report = self.report(ghost);
        report.follow_ups.clear();
        let call = self.engine.settle(Settle::new([report]));
        for item in self.stage.ask("haunt", call, &[]).await.into_iter().flat_map(|it| it.items) {
            self.stage.expected("haunt", item, &["lease_lost", "not_found"]);
        }
    }

    async fn update(&self) {
        let items = self.held.iter().take(2).map(|job| {
            UpdateItem::new(job.header.id, job.lease.clone()).progress(1, None, "on its way")
        });
        let call = self.engine.update(Update::new(items));
        for item in self.stage.ask("update", call, &[]).await.into_iter().flatten() {
            self.stage.expected("update", item, &["lease_lost", "not_found"]);
        }
    }

    async fn heartbeat(&mut self, session: SessionId) {
        let held = self.held.iter().map(|job| (job.header.id, &job.lease));
        let reported = self.reports.iter().flat_map(|settle| &settle.items);
        let held = held.chain(reported.map(|item| (item.id, &item.lease)));
        let held = held.map(|(id, lease)| Held { id, lease: lease.clone() }).collect();
        let unanswered = self.claim.iter().chain(self.reports.iter().flat_map(|s| &s.claim));
        let unanswered = unanswered.filter_map(|claim| claim.by.claim_no());
        let beat = Heartbeat::new(session, self.claim_no, held).unanswered(unanswered);
        let answer = tokio::time::timeout(super::CALL_MAX, self.engine.heartbeat(beat)).await;
        match answer {
            // Sometimes it drops the lost jobs; otherwise it settles them all the same.
            Ok(Ok(reply)) if happens(&self.random, 300) => {
                self.held.retain(|job| !reply.value.lost.contains(&job.header.id));
            }
            Ok(Err(Error::SessionLost { .. })) => self.session = None,
            Ok(Err(error)) => drop(self.stage.expected::<()>("heartbeat", Err(error), &[])),
            Ok(Ok(_)) | Err(_) => {}
        }
    }

    /// Completes the jobs it holds and closes its session.
    async fn end(&mut self) {
        if let Some(mut reports) = self.reports.take() {
            reports.claim = None;
            self.settle(reports).await;
        }
        let jobs = std::mem::take(&mut self.held);
        if !jobs.is_empty() {
            let done = |job: ClaimedJob| SettleItem::new(job.header.id, job.lease, Outcome::DONE);
            self.settle(Settle::new(jobs.into_iter().map(done))).await;
        }
        if let Some(session) = self.session.take() {
            self.leave(session).await;
        }
    }
}
