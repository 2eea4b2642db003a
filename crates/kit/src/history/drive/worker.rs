//! A worker: claims, reports, repeats unanswered calls, sends heartbeats, stalls and dies.

use super::{OTHER, QUEUE, Stage, TTL_MS, happens};
use crate::history::recorder::Recorded;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use windlass_core::engine::{
    Claim, Claimant, Claimed, ClaimedJob, Heartbeat, Held, Jobs, OpenSession, Outcome, SessionId,
    Settle, SettleItem, Update, UpdateItem,
};
use windlass_core::model::{JobError, Join, NewJob};
use windlass_core::random::{Random, Seeded};
use windlass_core::{Error, Result};

/// Maximum number of jobs per claim.
const CLAIM_MAX: u64 = 4;
/// A worker ends after this many empty claims once the producers are done.
const EMPTY_MAX: u32 = 5;
/// A worker ends after this many rounds per enqueued batch.
const ROUNDS_PER_BATCH: u32 = 40;
/// Reports that wait for children, per mille, where jobs run after others.
const CHILDREN: u64 = 80;
/// Maximum number of children in a report, less one.
const CHILDREN_MAX: u64 = 3;
/// Longest stall, in rounds.
const STALL_MAX: u64 = 40;

pub(super) struct Worker {
    stage: Arc<Stage>,
    number: u32,
    random: Seeded,
    engine: Recorded,
    session: Option<SessionId>,
    claim_no: u64,
    held: Vec<ClaimedJob>,
    /// A claim without a reply, to be repeated under its name.
    claim: Option<Claim>,
    /// Reports without a reply, to be repeated under their leases.
    reports: Option<Settle>,
    stalled: u64,
    empty: u32,
}

impl Worker {
    pub(super) fn new(stage: Arc<Stage>, number: u32) -> Self {
        let (engine, random) = (stage.client(), stage.random(number.into()));
        Self {
            stage,
            number,
            random,
            engine,
            session: None,
            claim_no: 0,
            held: Vec::new(),
            claim: None,
            reports: None,
            stalled: 0,
            empty: 0,
        }
    }

    pub(super) async fn run(mut self) {
        let load = self.stage.load;
        let rounds = ROUNDS_PER_BATCH * (1 + load.batches * load.producers);
        for _ in 0..rounds {
            self.stage.round().await;
            if self.empty >= EMPTY_MAX && self.stage.producing.load(Ordering::SeqCst) == 0 {
                break;
            }
            if self.stalled > 0 {
                self.stalled -= 1;
            } else if happens(&self.random, load.deaths) {
                self.die();
            } else if happens(&self.random, load.stalls) {
                self.stalled = self.random.below(STALL_MAX);
            } else {
                self.round().await;
            }
        }
        match self.session.take() {
            // Graceful end: closing the session releases the jobs that it holds.
            Some(session) if happens(&self.random, 500) => {
                self.engine.close_session(session).await.expect("close_session");
                self.die();
            }
            _ => self.die(),
        }
    }

    /// Forgets everything; its successor is recorded as another client.
    fn die(&mut self) {
        self.stage.bury(self.held.drain(..));
        self.engine = self.stage.client();
        self.session = None;
        self.claim = None;
        self.reports = None;
    }

    async fn round(&mut self) {
        let session = match &self.session {
            Some(session) => session.clone(),
            None => {
                let open = OpenSession::new(format!("w{}", self.number)).ttl_ms(TTL_MS);
                let session = self.engine.open_session(open).await.expect("open_session").value.id;
                self.session.insert(session).clone()
            }
        };
        if happens(&self.random, 400) {
            self.heartbeat(session.clone()).await;
        }
        if let Some(reports) = self.reports.take() {
            return self.settle(reports).await;
        }
        if self.claim.is_some() || self.held.is_empty() || happens(&self.random, 200) {
            let claim = match self.claim.take() {
                Some(claim) => claim,
                None => self.next_claim(&session),
            };
            let answer = self.engine.claim(claim.clone()).await.map(|answer| answer.value);
            self.claimed(claim, answer);
        }
        if happens(&self.random, 200) {
            self.update().await;
        }
        if happens(&self.random, 250) {
            self.haunt().await;
        }
        if happens(&self.random, 500) && !self.held.is_empty() {
            let settle = self.next_reports(&session);
            self.settle(settle).await;
        }
    }

    fn next_claim(&mut self, session: &SessionId) -> Claim {
        self.claim_no += 1;
        let by = Claimant::Session { session: session.clone(), claim_no: self.claim_no };
        // One queue per claim: engines are faster then, and this is what is tested.
        let other = self.stage.load.dependencies && happens(&self.random, 250);
        let queue = if other { OTHER } else { QUEUE };
        Claim::new(by, queue, 1 + self.random.below(CLAIM_MAX) as u32)
    }

    fn claimed(&mut self, claim: Claim, answer: Result<Claimed>) {
        match answer {
            Ok(claimed) => {
                self.empty = if claimed.jobs.is_empty() { self.empty + 1 } else { 0 };
                // A repeated claim returns the jobs still leased under it, some of which are already known.
                let known = |job: &ClaimedJob| self.held.iter().any(|held| held.lease == job.lease);
                let new: Vec<ClaimedJob> =
                    claimed.jobs.into_iter().filter(|job| !known(job)).collect();
                self.held.extend(new);
            }
            Err(Error::Unavailable { .. }) => self.claim = Some(claim),
            // It continues with the jobs it holds, as if nothing had happened: reports under these leases
            // must be refused.
            Err(Error::SessionLost { .. }) => self.session = None,
            Err(error) => panic!("claim: {error}"),
        }
    }

    /// Reports on some of the jobs it holds, sometimes with a claim in the same call.
    fn next_reports(&mut self, session: &SessionId) -> Settle {
        let count = 1 + self.random.below(self.held.len() as u64) as usize;
        let jobs: Vec<ClaimedJob> = self.held.drain(..count).collect();
        let settle = Settle::new(jobs.iter().map(|job| self.report(job)));
        match happens(&self.random, 300) && self.claim.is_none() {
            true => settle.then(self.next_claim(session)),
            false => settle,
        }
    }

    fn report(&self, job: &ClaimedJob) -> SettleItem {
        let error = JobError::new("driven", "by chance");
        let outcome = match self.random.below(100) {
            0..70 => Outcome::DONE,
            70..80 => Outcome::Retry { error, delay_ms: Some(0) },
            80..86 => Outcome::Release,
            86..92 => Outcome::Snooze { delay_ms: 0 },
            92..97 => Outcome::Fail { error },
            _ => Outcome::Cancel,
        };
        // Follow-ups have no follow-ups, so that the run ends.
        let may_have_more = job.header.parent.is_none();
        if may_have_more && self.stage.load.dependencies && happens(&self.random, CHILDREN) {
            let item = SettleItem::new(job.header.id, job.lease.clone(), Outcome::WaitForJobs);
            let child = || NewJob::new("follow").queue(QUEUE).joins(Join::SELF);
            return (0..=self.random.below(CHILDREN_MAX))
                .fold(item, |item, _| item.follow_up(child()));
        }
        let item = SettleItem::new(job.header.id, job.lease.clone(), outcome);
        match may_have_more && happens(&self.random, 100) {
            true => item.follow_up(NewJob::new("follow").queue(QUEUE)),
            false => item,
        }
    }

    async fn settle(&mut self, settle: Settle) {
        match self.engine.settle(settle.clone()).await {
            Ok(reply) => {
                // A proxy may have repeated the call.
                if happens(&self.random, 100) {
                    let _ = self.engine.settle(Settle::new(settle.items)).await;
                }
                if let (Some(claim), Some(claimed)) = (settle.claim, reply.value.claimed) {
                    self.claimed(claim, claimed);
                }
            }
            Err(Error::Unavailable { .. }) => self.reports = Some(settle),
            Err(error) => panic!("settle: {error}"),
        }
    }

    /// Sends a report under a lease of a dead worker.
    async fn haunt(&self) {
        let Some(job) = self.stage.ghost(&self.random) else { return };
        let mut report = self.report(&job);
        report.follow_ups.clear();
        // The result is in the history.
        let _ = self.engine.settle(Settle::new([report])).await;
    }

    async fn update(&self) {
        let items = self.held.iter().take(2);
        let items = items.map(|job| {
            UpdateItem::new(job.header.id, job.lease.clone()).progress(1, None, "on its way")
        });
        // The result is in the history.
        let _ = self.engine.update(Update::new(items)).await;
    }

    async fn heartbeat(&mut self, session: SessionId) {
        let held = self.held.iter().map(|job| (job.header.id, &job.lease));
        let reported = self.reports.iter().flat_map(|settle| &settle.items);
        let held = held.chain(reported.map(|item| (item.id, &item.lease)));
        let held = held.map(|(id, lease)| Held { id, lease: lease.clone() }).collect();
        let unanswered = self.claim.iter().chain(self.reports.iter().flat_map(|s| &s.claim));
        let unanswered = unanswered.filter_map(|claim| claim.by.claim_no());
        let beat = Heartbeat::new(session, self.claim_no, held).unanswered(unanswered);
        match self.engine.heartbeat(beat).await {
            // Some workers stop working on lost jobs; others report on them nevertheless.
            Ok(reply) if happens(&self.random, 500) => {
                self.held.retain(|job| !reply.value.lost.contains(&job.header.id));
            }
            Ok(_) => {}
            Err(Error::SessionLost { .. }) => self.session = None,
            Err(error) => panic!("heartbeat: {error}"),
        }
    }
}
