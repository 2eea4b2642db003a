//! Retention by leaves: many ended jobs go at once, and nothing goes that must stay.

mod common;

use common::{OwnSchema, url};
use std::collections::HashSet;
use std::sync::Arc;
use windlass_core::engine::*;
use windlass_core::model::{JobError, NewJob, QueuePatch, State};
use windlass_core::policy::Retention;
use windlass_core::time::{Clock as _, ManualClock};
use windlass_core::{JobId, Timestamp};
use windlass_postgres::{Options, PostgresEngine};

/// Enough that a leaf is too large to be removed row by row.
const MANY: usize = 45_000;
const BATCH: usize = 1_000;
/// How long finished jobs are kept; leaves are an eighth as wide.
const KEPT_MS: u64 = 3_600_000;

struct Rig {
    engine: PostgresEngine,
    clock: Arc<ManualClock>,
    client: tokio_postgres::Client,
    schema: OwnSchema,
    session: SessionId,
    claim_no: u64,
}

impl Rig {
    async fn new() -> Self {
        let schema = OwnSchema::new();
        let clock = Arc::new(ManualClock::at(Timestamp::from_millis(1_800_000_000_000)));
        let options = Options::new(url()).schema(&schema.name).test_clock(clock.clone());
        let engine = PostgresEngine::connect(options).await.expect("connects");
        let (client, connection) =
            tokio_postgres::connect(&url(), tokio_postgres::NoTls).await.expect("connects");
        tokio::spawn(connection);
        let patch = QueuePatch::retention(Retention::uniform(KEPT_MS));
        let items = engine.configure(vec![Configure::queue("default", patch)]).await;
        items.expect("configures").value.remove(0).expect("is taken");
        let open = OpenSession::new("w");
        let session = engine.open_session(open).await.expect("opens").value.id;
        let mut rig = Self { engine, clock, client, schema, session, claim_no: 0 };
        // A lane must be known before it is known how wide leaves should be.
        let first = rig.enqueue(1).await;
        rig.complete(&first).await;
        rig.upkeep(Work::Compact).await;
        assert!(rig.leaves().await >= 2, "there are leaves ahead");
        rig
    }

    async fn enqueue(&self, count: usize) -> Vec<JobId> {
        let jobs = (0..count).map(|_| NewJob::new("k").json("{}"));
        let items = self.engine.enqueue(Enqueue::each(jobs)).await.expect("enqueues").value;
        items.into_iter().map(|item| item.expect("is taken").id).collect()
    }

    /// Claims as many and completes them.
    async fn complete(&mut self, ids: &[JobId]) {
        self.end(ids, Outcome::DONE).await;
    }

    async fn end(&mut self, ids: &[JobId], outcome: Outcome) {
        self.claim_no += 1;
        let by = Claimant::Session { session: self.session.clone(), claim_no: self.claim_no };
        let claim = Claim::new(by, "default", ids.len() as u32);
        let claimed = self.engine.claim(claim).await.expect("claims").value.jobs;
        let wanted: HashSet<&JobId> = ids.iter().collect();
        let done = claimed.iter().filter(|job| wanted.contains(&job.header.id));
        let done: Vec<SettleItem> = done
            .map(|job| SettleItem::new(job.header.id, job.lease.clone(), outcome.clone()))
            .collect();
        assert_eq!(done.len(), ids.len(), "these were next");
        let reply = self.engine.settle(Settle::new(done)).await.expect("settles").value;
        assert!(reply.items.iter().all(Result::is_ok));
    }

    async fn complete_many(&mut self) {
        for _ in 0..MANY / BATCH {
            let ids = self.enqueue(BATCH).await;
            self.complete(&ids).await;
        }
    }

    /// Works until nothing is left to do; how many jobs were counted as removed.
    async fn upkeep(&self, work: Work) -> u64 {
        let mut removed = 0;
        for _ in 0..200 {
            let step = self.engine.maintain(MaintainRequest::new(work, 1_000)).await;
            let step = step.expect("maintains").value;
            assert!(step.done <= 1_000);
            removed += step.tallies.iter().map(|tally| tally.count).sum::<u64>();
            if !step.more {
                return removed;
            }
        }
        panic!("there is no end to {work:?}");
    }

    /// One step of retention, after which there is more to do.
    async fn step(&self) {
        let step = MaintainRequest::new(Work::Retain, 1_000);
        assert!(self.engine.maintain(step).await.expect("maintains").value.more);
    }

    async fn count(&self, sql: &str) -> i64 {
        let sql = sql.replace("{s}", &format!("\"{}\"", self.schema.name));
        self.client.query_one(&sql, &[]).await.expect("answers").get(0)
    }

    async fn leaves(&self) -> i64 {
        self.count("SELECT count(*) FROM {s}.leaf").await
    }

    async fn state(&self, id: JobId) -> Option<State> {
        let jobs = self.engine.get(Get::new([id])).await.expect("gets").value;
        jobs[0].as_ref().map(|job| job.state)
    }

    async fn change(&self, id: JobId, change: Change) {
        let items = self.engine.change(vec![ChangeItem::new(id, change)]).await;
        items.expect("changes").value.remove(0).expect("is taken");
    }

    fn pass(&self, ms: u64) {
        self.clock.advance(ms);
    }

    async fn is_sound(&self) {
        assert_eq!(self.engine.check(false).await.expect("checks").value.findings, []);
    }
}

#[tokio::test]
async fn many_ended_jobs_go_with_their_leaf_and_what_must_stay_stays() {
    let mut rig = Rig::new().await;
    let waiting = rig.enqueue(1).await[0];
    rig.change(waiting, Change::Pause).await;
    rig.complete_many().await;
    let late = rig.enqueue(1).await[0];
    let later = rig.enqueue(1).await[0];
    rig.pass(KEPT_MS / 2);
    rig.complete(&[late]).await;
    let before = rig.leaves().await;
    // Past the retention of all but the one that ended late.
    rig.pass(KEPT_MS * 3 / 4);
    let removed = rig.upkeep(Work::Retain).await;
    assert_eq!(removed, MANY as u64 + 1, "each is counted once");
    assert!(rig.leaves().await < before, "the leaf is gone");
    assert_eq!(rig.count("SELECT count(*) FROM {s}.job").await, 3);
    assert_eq!(rig.state(waiting).await, Some(State::Paused));
    assert_eq!(rig.state(late).await, Some(State::Completed));
    assert_eq!(rig.state(later).await, Some(State::Available));
    rig.is_sound().await;
    // They go on from where they are now.
    rig.change(waiting, Change::Resume).await;
    rig.complete(&[waiting, later]).await;
    rig.pass(KEPT_MS * 2);
    assert_eq!(rig.upkeep(Work::Retain).await, 3);
    assert_eq!(rig.count("SELECT count(*) FROM {s}.job").await, 0);
    rig.is_sound().await;
}

#[tokio::test]
async fn a_job_replayed_while_its_leaf_is_looked_through_is_not_lost() {
    let mut rig = Rig::new().await;
    rig.complete_many().await;
    let dead = rig.enqueue(2).await;
    rig.end(&dead, Outcome::Fail { error: JobError::new("bad", "no use") }).await;
    rig.pass(KEPT_MS * 5 / 4);
    // The first page is looked at, and there is another.
    rig.step().await;
    assert!(rig.count("SELECT count(*) FROM {s}.job").await >= MANY as i64, "it goes as a whole");
    rig.change(dead[0], Change::Replay(Box::default())).await;
    let removed = rig.upkeep(Work::Retain).await;
    assert_eq!(removed, MANY as u64 + 2, "the others are gone");
    assert_eq!(rig.state(dead[0]).await, Some(State::Available));
    assert_eq!(rig.state(dead[1]).await, None);
    rig.is_sound().await;
}

#[tokio::test]
async fn a_job_enqueued_late_into_an_old_leaf_is_not_lost() {
    let mut rig = Rig::new().await;
    rig.complete_many().await;
    let old = rig.clock.now();
    rig.pass(KEPT_MS * 5 / 4);
    rig.step().await;
    // Before everything that was looked at.
    let mut job = NewJob::new("k").json("{}");
    let random = windlass_core::random::SystemRandom;
    let id = *job.id.insert(JobId::new(old.minus(1_000), &random));
    let items = rig.engine.enqueue(Enqueue::each([job])).await.expect("enqueues").value;
    assert!(items[0].is_ok());
    rig.upkeep(Work::Retain).await;
    assert_eq!(rig.state(id).await, Some(State::Available));
    rig.is_sound().await;
}

#[tokio::test]
async fn an_open_transaction_delays_a_leaf_and_holds_up_nobody() {
    let mut rig = Rig::new().await;
    rig.complete_many().await;
    rig.pass(KEPT_MS * 5 / 4);
    rig.client.batch_execute("BEGIN").await.expect("begins");
    let waiting = rig.count("SELECT count(*) FROM {s}.jobs").await;
    rig.upkeep(Work::Retain).await;
    let still = rig.count("SELECT count(*) FROM {s}.jobs").await;
    let ids = rig.enqueue(10).await;
    rig.complete(&ids).await;
    rig.client.batch_execute("COMMIT").await.expect("ends");
    rig.pass(10_000);
    assert!(still >= MANY as i64 && still >= waiting - 1, "{still} of {waiting}");
    rig.upkeep(Work::Retain).await;
    assert_eq!(rig.count("SELECT count(*) FROM {s}.job").await, 10);
    rig.is_sound().await;
}
