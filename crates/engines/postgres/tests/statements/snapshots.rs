//! Old snapshots elsewhere in the cluster: no vacuum may clear away what they might see, and yet the tables that
//! turn over quickly stay small.

use crate::common::{OwnSchema, url};
use std::sync::Arc;
use windlass_core::Timestamp;
use windlass_core::engine::*;
use windlass_core::model::{Due, NewJob, Order, QueuePatch};
use windlass_core::time::ManualClock;
use windlass_postgres::{Options, PostgresEngine};

/// Jobs that pass through; their dead rows would be several megabytes.
const JOBS: usize = 60_000;
const BATCH: usize = 1_000;
/// Maximum size of a hot table.
const BOUND: i64 = 4 << 20;
const HOT: [&str; 7] = ["ready", "lease", "scheduled", "session", "tally", "turn", "served"];

struct Rig {
    engine: PostgresEngine,
    clock: Arc<ManualClock>,
    other: tokio_postgres::Client,
    schema: OwnSchema,
}

impl Rig {
    async fn new() -> Self {
        let schema = OwnSchema::new();
        let clock = Arc::new(ManualClock::at(Timestamp::from_millis(1_800_000_000_000)));
        let options = Options::new(url()).schema(&schema.name).test_clock(clock.clone());
        let engine = PostgresEngine::connect(options).await.expect("connects");
        let (other, connection) =
            tokio_postgres::connect(&url(), tokio_postgres::NoTls).await.expect("connects");
        tokio::spawn(connection);
        Self { engine, clock, other, schema }
    }

    /// Lets jobs pass through, with upkeep now and then.
    async fn work(&self) {
        let session =
            self.engine.open_session(OpenSession::new("w")).await.expect("opens").value.id;
        for batch in 0..JOBS / BATCH {
            let jobs = (0..BATCH).map(|_| NewJob::new("k").json("{}"));
            self.engine.enqueue(Enqueue::each(jobs)).await.expect("enqueues");
            let by = Claimant::Session { session: session.clone(), claim_no: batch as u64 + 1 };
            let claim = Claim::new(by, "default", BATCH as u32);
            let claimed = self.engine.claim(claim).await.expect("claims").value.jobs;
            assert_eq!(claimed.len(), BATCH);
            let done = claimed.into_iter();
            let done = done.map(|job| SettleItem::new(job.header.id, job.lease, Outcome::DONE));
            self.engine.settle(Settle::new(done)).await.expect("settles");
            if batch % 10 == 9 {
                self.compact().await;
            }
        }
    }

    async fn compact(&self) {
        let request = MaintainRequest::new(Work::Compact, 1_000);
        self.engine.maintain(request).await.expect("maintains");
    }

    /// Bytes of the largest of the hot tables.
    async fn largest(&self) -> i64 {
        let mut largest = 0;
        for table in HOT {
            let sql = format!("SELECT pg_relation_size('\"{}\".{table}')", self.schema.name);
            largest = largest.max(self.other.query_one(&sql, &[]).await.expect("answers").get(0));
        }
        largest
    }

    async fn is_sound(&self) {
        let report = self.engine.check(false).await.expect("checks").value;
        assert_eq!((report.findings.len(), report.jobs), (0, JOBS as u64), "{report:?}");
    }
}

#[tokio::test]
async fn an_old_snapshot_does_not_make_hot_tables_grow() {
    let rig = Rig::new().await;
    // It has a transaction number, too, as one that has written something would have.
    let begin = "BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT txid_current()";
    rig.other.batch_execute(begin).await.expect("begins");
    rig.work().await;
    let largest = rig.largest().await;
    assert!(largest < BOUND, "{largest} bytes");
    rig.is_sound().await;
}

#[tokio::test]
async fn a_reader_of_our_tables_lets_them_grow_only_until_it_ends() {
    let rig = Rig::new().await;
    let look = format!(
        "BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM \"{0}\".jobs;
        SELECT count(*) FROM \"{0}\".ready; SELECT count(*) FROM \"{0}\".lease",
        rig.schema.name
    );
    rig.other.batch_execute(&look).await.expect("begins");
    rig.work().await;
    let grown = rig.largest().await;
    assert!(grown >= BOUND / 2, "{grown} bytes: the lock was in the way");
    rig.other.batch_execute("COMMIT").await.expect("ends");
    rig.clock.advance(10_000);
    rig.compact().await;
    let largest = rig.largest().await;
    assert!(largest < grown / 2, "{largest} bytes after {grown}");
    rig.is_sound().await;
}

#[tokio::test]
async fn every_small_table_is_rewritten_with_its_live_rows() {
    let rig = Rig::new().await;
    let jobs = (0..30).map(|n| NewJob::new(format!("k-{}", n % 3)));
    let later = (0..5).map(|_| NewJob::new("later").due(Due::After(60_000)));
    let fair = Configure::queue("fair", QueuePatch::order(Order::Fair));
    rig.engine.configure(vec![fair]).await.expect("configures");
    let turns = (0..9).map(|n| NewJob::new("k").queue("fair").tenant(format!("t-{}", n % 3)));
    rig.engine.enqueue(Enqueue::each(jobs.chain(later).chain(turns))).await.expect("enqueues");
    let session = rig.engine.open_session(OpenSession::new("w")).await.expect("opens").value.id;
    for (number, queue) in ["default", "fair"].into_iter().enumerate() {
        let by = Claimant::Session { session: session.clone(), claim_no: number as u64 + 1 };
        rig.engine.claim(Claim::new(by, queue, 8)).await.expect("claims");
    }
    let stats =
        || async { rig.engine.stats(StatsRequest::default()).await.expect("answers").value };
    let before = stats().await;
    for table in HOT {
        let schema = &rig.schema.name;
        // The one that counts is folded on the way, and compared by what it says.
        let rows = format!(
            "SELECT coalesce(array_agg(t::text ORDER BY 1), '{{}}') FROM \"{schema}\".{table} t"
        );
        let rows = || async {
            rig.other.query_one(&rows, &[]).await.expect("answers").get::<_, Vec<String>>(0)
        };
        let alive = rows().await;
        assert_ne!(alive, Vec::<String>::new(), "{table} has something to keep");
        let place = format!("SELECT pg_relation_filenode('\"{schema}\".{table}')");
        let place =
            || async { rig.other.query_one(&place, &[]).await.expect("answers").get::<_, u32>(0) };
        let old = place().await;
        let rewrite = format!("SELECT \"{schema}\".rewrite('{table}', 100)");
        let done: bool = rig.other.query_one(&rewrite, &[]).await.expect("rewrites").get(0);
        assert!(done && place().await != old, "{table} is new");
        assert!(table == "tally" || rows().await == alive, "{table} is what it was");
    }
    assert_eq!(stats().await, before);
}
