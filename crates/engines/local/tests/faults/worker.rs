//! A worker in the child: claims with and without a session, settles with every outcome, and sometimes stalls.

use crate::load::{HURRY, Stage, bad, expected, expected_items};
use crate::producer::is_payload_of;
use crate::support::{QUEUE, happens};
use std::sync::Arc;
use std::time::Duration;
use windlass_core::Result;
use windlass_core::engine::{
    Claim, ClaimId, Claimant, Claimed, ClaimedJob, Heartbeat, Held, Jobs as _, OpenSession,
    Outcome, SessionId, Settle, SettleItem, SettleReply, Update, UpdateItem,
};
use windlass_core::model::{JobError, NewJob, Part, PartEdit};
use windlass_core::random::{Random as _, Seeded};
use windlass_kit::history::Recorded;

/// Maximum number of jobs in one claim.
const CLAIM_MAX: u64 = 12;
/// Number of different ordering keys of follow-ups.
const KEYS: u64 = 16;
/// Length of sessions and leases, on the child's clock.
const TTL_MS: u64 = 4_000;
/// Pause that outlasts the session.
const STALL: Duration = Duration::from_millis(2 * TTL_MS / HURRY);
/// Maximum delay of a retry or snooze, on the child's clock.
const DELAY_MAX_MS: u64 = 3_000;

pub(crate) struct Worker {
    stage: Arc<Stage>,
    engine: Recorded,
    random: Seeded,
    number: u64,
    session: Option<SessionId>,
    claim_no: u64,
    held: Vec<ClaimedJob>,
}

impl Worker {
    pub(crate) fn new(stage: Arc<Stage>, number: u64) -> Self {
        let (engine, random) = (stage.client(), stage.random(number));
        Self { stage, engine, random, number, session: None, claim_no: 0, held: Vec::new() }
    }

    pub(crate) async fn run(mut self) {
        loop {
            let session = self.session().await;
            if happens(&self.random, 300) {
                self.heartbeat(session.clone()).await;
            }
            if self.held.is_empty() || happens(&self.random, 200) {
                self.claim(&session).await;
            }
            if happens(&self.random, 200) {
                self.update().await;
            }
            if happens(&self.random, 700) && !self.held.is_empty() {
                self.settle(&session).await;
            }
            match self.random.below(1_000) {
                // The session expires, and other workers take over its jobs.
                0..5 => tokio::time::sleep(STALL).await,
                5..15 => self.leave(session).await,
                15..100 => tokio::time::sleep(Duration::from_millis(1)).await,
                _ => {}
            }
        }
    }

    async fn session(&mut self) -> SessionId {
        if let Some(session) = &self.session {
            return session.clone();
        }
        let mut open = OpenSession::new(format!("w{}", self.number)).ttl_ms(TTL_MS);
        // In the next round, remote sessions get time to reconnect, which never happens.
        open.remote = happens(&self.random, 300);
        let answer = self.engine.open_session(open).await;
        let id =
            expected("open_session", answer, &[]).expect("an unexpected error ends us").value.id;
        self.claim_no = 0;
        self.session.insert(id).clone()
    }

    /// Closes the session. Its jobs are released, and the worker still tries to settle them.
    async fn leave(&mut self, session: SessionId) {
        expected("close_session", self.engine.close_session(session).await, &[]);
        self.session = None;
    }

    async fn heartbeat(&mut self, session: SessionId) {
        let held = self.held.iter();
        let held = held.map(|job| Held { id: job.header.id, lease: job.lease.clone() }).collect();
        let answer = self.engine.heartbeat(Heartbeat::new(session, self.claim_no, held)).await;
        match expected("heartbeat", answer, &["session_lost"]) {
            Some(reply) if happens(&self.random, 500) => {
                self.held.retain(|job| !reply.value.lost.contains(&job.header.id));
            }
            Some(_) => {}
            None => self.session = None,
        }
    }

    fn next_claim(&mut self, session: &SessionId) -> Claim {
        self.claim_no += 1;
        let by = match happens(&self.random, 100) {
            true => Claimant::Alone {
                claim_id: ClaimId::new(format!("{:x}", self.random.next_u128())),
                worker: "alone".into(),
                lease_ms: TTL_MS,
            },
            false => Claimant::Session { session: session.clone(), claim_no: self.claim_no },
        };
        Claim::new(by, QUEUE, 1 + self.random.below(CLAIM_MAX) as u32)
    }

    async fn claim(&mut self, session: &SessionId) {
        let claim = self.next_claim(session);
        let answer = self.engine.claim(claim).await;
        self.claimed(answer.map(|answer| answer.value));
    }

    fn claimed(&mut self, answer: Result<Claimed>) {
        match expected("claim", answer, &["session_lost"]) {
            Some(claimed) => {
                if let Some(job) = claimed.jobs.iter().find(|job| !came_whole(job)) {
                    bad("claim", &format!("job {} has no payload of its own", job.header.id));
                }
                self.held.extend(claimed.jobs);
            }
            None => self.session = None,
        }
    }

    async fn update(&self) {
        let items = self.held.iter().take(2).map(|job| {
            let item = UpdateItem::new(job.header.id, job.lease.clone()).log("on its way");
            item.progress(1, None, "a step").checkpoint(PartEdit::Set(Part::new("half")))
        });
        let answer = self.engine.update(Update::new(items)).await;
        let items = expected("update", answer, &[]).map(|answer| answer.value).unwrap_or_default();
        expected_items("update", &items, &["lease_lost", "not_found"]);
    }

    async fn settle(&mut self, session: &SessionId) {
        let count = 1 + self.random.below(self.held.len() as u64) as usize;
        let jobs: Vec<ClaimedJob> = self.held.drain(..count).collect();
        let mut settle = Settle::new(jobs.iter().map(|job| self.report(job)));
        if happens(&self.random, 400) {
            settle = settle.then(self.next_claim(session));
        }
        let answer = self.engine.settle(settle.clone()).await;
        let Some(reply) = expected("settle", answer, &[]) else { return };
        self.settled(&settle, &reply.value);
        if let Some(claimed) = reply.value.claimed {
            self.claimed(claimed);
        }
        // Simulates a lost reply.
        if happens(&self.random, 100) {
            let again = self.engine.settle(Settle::new(settle.items)).await;
            expected("settle again", again, &[]);
        }
    }

    fn settled(&self, settle: &Settle, reply: &SettleReply) {
        expected_items("settle", &reply.items, &["lease_lost", "not_found"]);
        for (item, answer) in settle.items.iter().zip(&reply.items) {
            match (&item.outcome, answer) {
                (Outcome::Wait(_), Ok(_)) if happens(&self.random, 700) => {
                    self.stage.waits(item.id);
                }
                (_, Ok(settled)) if settled.state.is_terminal() => self.stage.pile(-1),
                _ => {}
            }
            self.stage.pile(item.follow_ups.len() as i64);
        }
    }

    fn report(&self, job: &ClaimedJob) -> SettleItem {
        let random = &self.random;
        let error = JobError::new("fault", "by chance");
        let delay_ms = random.below(DELAY_MAX_MS);
        let outcome = match random.below(100) {
            0..40 => Outcome::DONE,
            40..60 => Outcome::Complete { result: Some(Part::new(job.header.id.to_string())) },
            60..70 => Outcome::Retry { error, delay_ms: Some(delay_ms) },
            70..73 => Outcome::Retry { error, delay_ms: None },
            73..80 => Outcome::Release,
            80..86 => Outcome::Snooze { delay_ms },
            86..91 => Outcome::Fail { error },
            91..97 => Outcome::WAIT,
            _ => Outcome::Cancel,
        };
        let mut item = SettleItem::new(job.header.id, job.lease.clone(), outcome);
        if happens(random, 200) {
            item = item
                .checkpoint(PartEdit::Set(Part::new("so far")))
                .priority(random.below(3) as i32);
        }
        // Follow-ups have no follow-ups, so that the number of jobs stays finite.
        if job.header.parent.is_none() && happens(random, 150) {
            for _ in 0..1 + random.below(3) {
                let follow_up = NewJob::new("follow").queue(QUEUE);
                item = item.follow_up(follow_up.key(format!("f{}", random.below(KEYS))));
            }
        }
        item
    }
}

/// Whether a job has its own payload; follow-ups have none.
pub(crate) fn came_whole(job: &ClaimedJob) -> bool {
    match &job.parts.payload {
        Some(part) => is_payload_of(job.header.id, &part.bytes),
        None => job.header.parent.is_some(),
    }
}
