//! An engine in a database of its own, on a clock of the test's own.

use crate::common::database::OwnDatabase;
use std::sync::Arc;
use std::time::Duration;
use tokio_postgres::{Client, IsolationLevel, Transaction};
use windlass_core::engine::*;
use windlass_core::model::{NewJob, QueuePatch};
use windlass_core::policy::Retention;
use windlass_core::time::ManualClock;
use windlass_core::{JobId, Timestamp};
use windlass_postgres::{Options, PostgresEngine};

/// When a test begins.
const START: Timestamp = Timestamp::from_millis(1_800_000_000_000);
/// How long finished jobs are kept.
pub(crate) const KEPT_MS: u64 = 3_600_000;
/// How long after it was made the first partition begins.
const BEGIN_AFTER_MS: u64 = 2_000;
/// How long the engine leaves a table alone after its lock was refused.
const REST_MS: u64 = 10_000;
/// Jobs in one step of upkeep.
const BUDGET: u32 = 1_000;
/// Rows that make a table larger than the engine lets it be.
const ROWS: u32 = 25_000;
/// Polling interval for transactions that wait for a lock.
const LOOK_EVERY: Duration = Duration::from_millis(1);

/// An engine, and a connection beside it.
pub(crate) struct Rig {
    pub(crate) engine: PostgresEngine,
    pub(crate) clock: Arc<ManualClock>,
    pub(crate) client: Client,
    database: OwnDatabase,
}

impl Rig {
    /// In a database with this default isolation level.
    pub(crate) async fn at_level(level: &str) -> Self {
        let database = OwnDatabase::with(&[("default_transaction_isolation", level)]).await;
        let url = database.url();
        Self::reached_at(database, url).await
    }

    /// In this database, reached by this URL, with a partition for jobs from now on.
    pub(crate) async fn reached_at(database: OwnDatabase, url: String) -> Self {
        let clock = Arc::new(ManualClock::at(START));
        let options = Options::new(url).test_clock(clock.clone());
        let engine = PostgresEngine::connect(options).await.expect("connects");
        let client = database.connect().await;
        let rig = Self { engine, clock, client, database };
        let patch = QueuePatch::retention(Retention::uniform_ms(KEPT_MS));
        let items = rig.engine.configure(vec![Configure::queue("default", patch)]).await;
        items.expect("configures").value.remove(0).expect("is accepted");
        rig.enqueue(1).await;
        rig.upkeep(Work::Compact).await;
        rig.clock.advance(BEGIN_AFTER_MS);
        assert!(
            rig.number("SELECT count(*) FROM windlass.partition").await > 0,
            "there are partitions"
        );
        rig
    }

    /// Another connection of the application's.
    pub(crate) async fn connect(&self) -> Client {
        self.database.connect().await
    }

    pub(crate) async fn enqueue(&self, count: usize) -> Vec<JobId> {
        let jobs = (0..count).map(|_| NewJob::new("k").json("{}"));
        let items = self.engine.enqueue(Enqueue::each(jobs)).await.expect("enqueues").value;
        items.into_iter().map(|item| item.expect("is accepted").id).collect()
    }

    /// Claims and completes at most this many; how many there were.
    pub(crate) async fn complete(&self, limit: u32) -> usize {
        let session =
            self.engine.open_session(OpenSession::new("w")).await.expect("opens").value.id;
        let by = Claimant::Session { session: session.clone(), claim_no: 1 };
        let claim = Claim::new(by, "default", limit);
        let jobs = self.engine.claim(claim).await.expect("claims").value.jobs;
        let items =
            jobs.iter().map(|job| SettleItem::new(job.header.id, job.lease.clone(), Outcome::DONE));
        let reply = self.engine.settle(Settle::new(items)).await.expect("settles").value;
        assert!(reply.items.iter().all(Result::is_ok), "{reply:?}");
        self.engine.close_session(session).await.expect("closes");
        jobs.len()
    }

    /// Completes everything that can be claimed; how many there were.
    pub(crate) async fn complete_all(&self) -> usize {
        let mut all = 0;
        loop {
            match self.complete(BUDGET).await {
                0 => return all,
                some => all += some,
            }
        }
    }

    pub(crate) async fn upkeep(&self, work: Work) {
        self.engine.maintain(MaintainRequest::new(work, BUDGET)).await.expect("maintains");
    }

    /// Makes a table so large that the next compaction rewrites it, and lets the engine ask for its lock again.
    pub(crate) async fn grow(&self, table: &str) {
        let row = match table {
            "ready" => "-1, 0, 0, n, gen_random_uuid()",
            "lease" => "gen_random_uuid(), gen_random_uuid(), 0, 0, 0, 0, -1, 0, ''",
            other => panic!("no rows are known for {other}"),
        };
        let sql = format!(
            "BEGIN ISOLATION LEVEL READ COMMITTED;
            INSERT INTO windlass.{table} SELECT {row} FROM generate_series(1, {ROWS}) n;
            DELETE FROM windlass.{table} WHERE lane = -1; COMMIT"
        );
        self.client.batch_execute(&sql).await.expect("grows");
        self.clock.advance(REST_MS);
    }

    /// The file of a table, which changes when the table is rewritten.
    pub(crate) async fn file(&self, table: &str) -> i64 {
        self.number(&format!("SELECT pg_relation_filenode('windlass.{table}')::bigint")).await
    }

    /// A number that a statement answers.
    pub(crate) async fn number(&self, sql: &str) -> i64 {
        self.client.query_one(sql, &[]).await.expect("answers").get(0)
    }

    /// Does some upkeep while a transaction is open that has stored a job, and commits as soon as the upkeep waits for
    /// its lock on `table`; whether it did wait.
    pub(crate) async fn upkeep_beside(&self, open: Open<'_>, work: Work, table: &str) -> bool {
        let engine = self.engine.clone();
        let upkeep = tokio::spawn(async move {
            engine.maintain(MaintainRequest::new(work, BUDGET)).await.expect("maintains");
        });
        let waits = format!(
            "SELECT count(*) FROM pg_locks WHERE NOT granted AND relation = 'windlass.{table}'::regclass"
        );
        let mut waited = false;
        while !waited && !upkeep.is_finished() {
            waited = self.number(&waits).await > 0;
            tokio::time::sleep(LOOK_EVERY).await;
        }
        open.0.commit().await.expect("commits");
        upkeep.await.expect("ends");
        waited
    }

    pub(crate) async fn is_sound(&self) {
        assert_eq!(self.engine.check(false).await.expect("checks").value.findings, []);
    }
}

/// A transaction of the application's that has stored a job.
pub(crate) struct Open<'a>(Transaction<'a>);

impl<'a> Open<'a> {
    pub(crate) async fn with_job(rig: &Rig, client: &'a mut Client) -> Self {
        let begin = client.build_transaction().isolation_level(IsolationLevel::ReadCommitted);
        let transaction = begin.start().await.expect("begins");
        let request = Enqueue::each([NewJob::new("k")]);
        let stored = rig.engine.enqueue_in(&transaction, request).await.expect("enqueues").value;
        assert!(stored.iter().all(Result::is_ok), "{stored:?}");
        Self(transaction)
    }
}
