//! An engine on a clock of the test's own, in a schema with partitions, and what jobs go through in it.

use crate::common::{OwnSchema, application, url};
use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;
use tokio_postgres::Client;
use uuid::Uuid;
use windlass_core::engine::*;
use windlass_core::model::{NewJob, QueuePatch, State};
use windlass_core::policy::Retention;
use windlass_core::time::{Clock as _, ManualClock};
use windlass_core::{JobId, Timestamp};
use windlass_postgres::{Options, PostgresEngine};

/// When a test begins.
const START: Timestamp = Timestamp::from_millis(1_800_000_000_000);
/// Jobs in one step of upkeep.
const BUDGET: u32 = 1_000;
/// How long finished jobs are kept; partitions are an eighth as wide.
pub(crate) const KEPT_MS: u64 = 3_600_000;
/// Longer than partitions reach.
pub(crate) const LONG_MS: u64 = 100 * KEPT_MS;
/// How long after it was made the first partition begins.
pub(crate) const BEGIN_AFTER_MS: u64 = 2_000;
/// How long the engine waits after a refused lock.
pub(crate) const ASK_AGAIN_MS: u64 = 10_000;
/// Bytes of the result of a job that [`Rig::fill`] stores: 7,000 of them are more than 4 MiB, so that their
/// partition is emptied as a whole.
const RESULT_BYTES: usize = 600;

/// How long anything may take on a busy machine.
const PATIENCE: Duration = Duration::from_secs(30);

/// An engine whose connections carry the name of its schema.
async fn connect(schema: &OwnSchema, clock: &Arc<ManualClock>) -> PostgresEngine {
    let (url, name) = (url(), &schema.name);
    let joint = if url.contains('?') { '&' } else { '?' };
    let options = Options::new(format!("{url}{joint}application_name={name}"));
    let options = options.schema(name).test_clock(clock.clone());
    PostgresEngine::connect(options).await.expect("connects")
}

/// An engine, and a way around it.
pub(crate) struct Rig {
    pub(crate) engine: PostgresEngine,
    pub(crate) clock: Arc<ManualClock>,
    pub(crate) client: Client,
    schema: OwnSchema,
    session: SessionId,
    claim_no: u64,
}

impl Rig {
    pub(crate) async fn new() -> Self {
        Self::keeping(KEPT_MS).await
    }

    /// With finished jobs kept for so long.
    pub(crate) async fn keeping(kept_ms: u64) -> Self {
        Self::with(Retention::uniform_ms(kept_ms)).await
    }

    /// An engine with this retention.
    pub(crate) async fn with(retention: Retention) -> Self {
        let schema = OwnSchema::new();
        let clock = Arc::new(ManualClock::at(START));
        let engine = connect(&schema, &clock).await;
        let client = application().await;
        let patch = QueuePatch::retention(retention);
        let items = engine.configure(vec![Configure::queue("default", patch)]).await;
        items.expect("configures").value.remove(0).expect("is taken");
        let open = OpenSession::new("w");
        let session = engine.open_session(open).await.expect("opens").value.id;
        let mut rig = Self { engine, clock, client, schema, session, claim_no: 0 };
        // A lane must be known before it is known how wide partitions should be.
        let first = rig.enqueue(1).await;
        rig.complete(&first).await;
        rig.upkeep(Work::Compact).await;
        assert!(rig.partitions().await >= 2, "there are partitions ahead");
        rig.pass(BEGIN_AFTER_MS);
        rig
    }

    /// Another engine on the same schema and clock.
    pub(crate) async fn another_engine(&self) -> PostgresEngine {
        connect(&self.schema, &self.clock).await
    }

    /// Simulates the promotion of a replica: the store gets another epoch, and every connection of the engine ends.
    pub(crate) async fn promote_replica(&self) {
        let before = self.engine.health().await.expect("answers").epoch;
        let mark = self.sql("UPDATE {s}.marker SET id = gen_random_uuid()");
        self.client.batch_execute(&mark).await.expect("is marked");
        let end =
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = $1";
        self.client.query(end, &[&self.schema.name]).await.expect("ends connections");
        let answers = async {
            loop {
                match self.engine.health().await {
                    Ok(health) if health.epoch != before => return,
                    _ => tokio::task::yield_now().await,
                }
            }
        };
        tokio::time::timeout(PATIENCE, answers).await.expect("the engine connects again");
    }

    /// Stores this many completed jobs by SQL, with ids of the current millisecond that are lower than any made by the
    /// engine; returns the first and the last of them.
    pub(crate) async fn fill(&self, count: u64) -> [JobId; 2] {
        let now = self.clock.now().as_millis();
        let base = JobId::first_at(self.clock.now()).as_uuid();
        let time = &base.simple().to_string()[..16];
        let sql = self.sql(&format!(
            "WITH made AS (SELECT ('{time}' || lpad(to_hex(n), 16, '0'))::uuid AS id, l.id AS lane
                FROM {{s}}.lane l, generate_series(1, {count}) n WHERE l.kind = 'k'),
            job AS (INSERT INTO {{s}}.job (id, created_at, run_at, rank, seq, lane, priority, state)
                SELECT id, {now}, {now}, 0, nextval('{{s}}.entry') << 20, lane, 0, 2 FROM made),
            tally AS (INSERT INTO {{s}}.tally (lane, completed) SELECT lane, count(*) FROM made GROUP BY lane)
            INSERT INTO {{s}}.finished (id, at, started_at, attempt, lane, state, own, token, worker, result)
            SELECT id, {now}, {now}, 1, lane, 5, false, gen_random_uuid(), 'w',
                convert_to(repeat('x', {RESULT_BYTES}), 'UTF8') FROM made"
        ));
        self.client.batch_execute(&sql).await.expect("stores jobs");
        let id = |n: u64| JobId::from_uuid(Uuid::from_u128(base.as_u128() + u128::from(n)));
        [id(1), id(count)]
    }

    /// Makes a completed job available again by SQL, and leaves no trace of it in `life`: the state on a replica that
    /// had not received the completion.
    pub(crate) async fn uncomplete(&self, id: JobId) {
        let sql = self.sql(&format!(
            "DELETE FROM {{s}}.finished WHERE id = '{id}';
            INSERT INTO {{s}}.ready (lane, flags, rank, seq, id)
                SELECT lane, 2, rank, seq, id FROM {{s}}.job WHERE id = '{id}';
            INSERT INTO {{s}}.tally (lane, available, completed)
                SELECT lane, 1, -1 FROM {{s}}.job WHERE id = '{id}'"
        ));
        self.client.batch_execute(&sql).await.expect("is changed");
        assert_eq!(self.state(id).await, Some(State::Available));
    }

    pub(crate) async fn enqueue(&self, count: usize) -> Vec<JobId> {
        let jobs = (0..count).map(|_| NewJob::new("k").json("{}"));
        let items = self.engine.enqueue(Enqueue::each(jobs)).await.expect("enqueues").value;
        items.into_iter().map(|item| item.expect("is taken").id).collect()
    }

    /// Claims as many and completes them.
    pub(crate) async fn complete(&mut self, ids: &[JobId]) {
        self.end(ids, Outcome::DONE).await;
    }

    pub(crate) async fn claim(&mut self, limit: u32) -> Vec<ClaimedJob> {
        self.claim_from("default", limit).await
    }

    pub(crate) async fn claim_from(&mut self, queue: &str, limit: u32) -> Vec<ClaimedJob> {
        self.claim_no += 1;
        let by = Claimant::Session { session: self.session.clone(), claim_no: self.claim_no };
        self.engine.claim(Claim::new(by, queue, limit)).await.expect("claims").value.jobs
    }

    pub(crate) async fn end(&mut self, ids: &[JobId], outcome: Outcome) {
        let claimed = self.claim(ids.len() as u32).await;
        let wanted: HashSet<&JobId> = ids.iter().collect();
        let done = claimed.into_iter().filter(|job| wanted.contains(&job.header.id));
        let done: Vec<ClaimedJob> = done.collect();
        assert_eq!(done.len(), ids.len(), "these were next");
        self.settle(&done, outcome).await;
    }

    pub(crate) async fn settle(&self, jobs: &[ClaimedJob], outcome: Outcome) {
        let items = jobs
            .iter()
            .map(|job| SettleItem::new(job.header.id, job.lease.clone(), outcome.clone()));
        let reply = self.engine.settle(Settle::new(items)).await.expect("settles").value;
        assert!(reply.items.iter().all(Result::is_ok));
    }

    /// Works until nothing is left to do; how many jobs were counted as removed.
    pub(crate) async fn upkeep(&self, work: Work) -> u64 {
        self.upkeep_by(work, BUDGET).await
    }

    /// The same, in steps of this many jobs.
    pub(crate) async fn upkeep_by(&self, work: Work, budget: u32) -> u64 {
        let mut removed = 0;
        for _ in 0..200 {
            let step = self.engine.maintain(MaintainRequest::new(work, budget)).await;
            let step = step.expect("maintains").value;
            assert!(step.done <= budget);
            removed += step.tallies.iter().map(|tally| tally.count).sum::<u64>();
            if !step.more {
                return removed;
            }
        }
        panic!("there is no end to {work:?}");
    }

    /// One step of retention, after which there is more to do.
    pub(crate) async fn step(&self) {
        let step = MaintainRequest::new(Work::Retain, BUDGET);
        assert!(self.engine.maintain(step).await.expect("maintains").value.more);
    }

    /// A statement of the test's own, with the schema put in.
    pub(crate) fn sql(&self, sql: &str) -> String {
        sql.replace("{s}", &format!("\"{}\"", self.schema.name))
    }

    pub(crate) async fn count(&self, sql: &str) -> i64 {
        self.client.query_one(&self.sql(sql), &[]).await.expect("answers").get(0)
    }

    /// Another connection, in a transaction that has begun with this and stays open.
    pub(crate) async fn meanwhile(&self, sql: &str) -> Client {
        let other = application().await;
        other.batch_execute("BEGIN").await.expect("begins");
        other.batch_execute(&self.sql(sql)).await.expect("is done");
        other
    }

    pub(crate) async fn partitions(&self) -> i64 {
        self.count("SELECT count(*) FROM {s}.partition").await
    }

    /// Jobs and ends of jobs that no partition covers, but for the one from before there was any.
    pub(crate) async fn in_default(&self) -> i64 {
        let since = JobId::first_at(START.plus(BEGIN_AFTER_MS));
        let jobs = format!("SELECT count(*) FROM {{s}}.job_default WHERE id >= '{since}'");
        self.count(&jobs).await + self.count(&jobs.replace("job_default", "finished_default")).await
    }

    pub(crate) async fn state(&self, id: JobId) -> Option<State> {
        let jobs = self.engine.get(Get::new([id])).await.expect("gets").value;
        jobs[0].as_ref().map(|job| job.state)
    }

    pub(crate) async fn change(&self, id: JobId, change: Change) {
        let items = self.engine.change(vec![ChangeItem::new(id, change)]).await;
        items.expect("changes").value.remove(0).expect("is taken");
    }

    pub(crate) fn pass(&self, ms: u64) {
        self.clock.advance(ms);
    }

    pub(crate) async fn is_sound(&self) {
        assert_eq!(self.engine.check(false).await.expect("checks").value.findings, []);
    }
}
