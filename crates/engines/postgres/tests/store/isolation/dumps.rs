//! Dumps whose snapshot is older than a table that was truncated since: `TRUNCATE` is not hidden from them. A restore
//! loses no job; where it would, the dump fails.

use crate::common::database::OwnDatabase;
use crate::common::private::programs;
use std::process::{Command, Output};
use tokio_postgres::Client;
use windlass_core::engine::*;
use windlass_core::model::{Due, NewJob, Order, QueuePatch};
use windlass_postgres::{Options, PostgresEngine};

/// Tables that are rewritten.
const HOT: [&str; 7] = ["ready", "lease", "scheduled", "session", "tally", "turn", "served"];
/// Jobs of each sort.
const READY: usize = 5;
const LEASED: usize = 4;
const SCHEDULED: usize = 3;
const FAIR: usize = 9;

/// A database in which work is under way.
struct Rig {
    engine: PostgresEngine,
    client: Client,
    database: OwnDatabase,
}

/// A snapshot that others can use for as long as its transaction is open.
struct Snapshot {
    client: Client,
    name: String,
}

impl Rig {
    async fn new() -> Self {
        let database = OwnDatabase::with(&[]).await;
        let engine = PostgresEngine::connect(Options::new(database.url())).await.expect("connects");
        let fair = Configure::queue("fair", QueuePatch::order(Order::Fair));
        engine.configure(vec![fair]).await.expect("configures");
        let plain = (0..LEASED + READY).map(|_| NewJob::new("k").json("{}"));
        let later = (0..SCHEDULED).map(|_| NewJob::new("later").due(Due::After(3_600_000)));
        let turns = (0..FAIR).map(|n| NewJob::new("k").queue("fair").tenant(format!("t{}", n % 3)));
        let jobs = plain.chain(later).chain(turns);
        engine.enqueue(Enqueue::each(jobs)).await.expect("enqueues");
        assert_eq!(claim(&engine, "default", LEASED as u32).await, LEASED);
        assert_eq!(claim(&engine, "fair", 8).await, 8);
        let client = database.connect().await;
        Self { engine, client, database }
    }

    async fn snapshot(&self) -> Snapshot {
        let client = self.database.connect().await;
        client.batch_execute("BEGIN ISOLATION LEVEL REPEATABLE READ").await.expect("begins");
        let exported = client.query_one("SELECT pg_export_snapshot()", &[]).await;
        let name = exported.expect("exports").get(0);
        Snapshot { client, name }
    }

    /// A dump that sees what the snapshot sees.
    fn dump(&self, snapshot: &Snapshot) -> Output {
        let mut dump = Command::new(programs().join("pg_dump"));
        dump.args(["--schema=windlass", "--no-owner", "--no-privileges"]);
        dump.args(["--snapshot", &snapshot.name, &self.database.url()]);
        dump.output().expect("pg_dump runs")
    }

    async fn count(&self, table: &str) -> i64 {
        count(&self.client, table).await
    }
}

async fn count(client: &Client, table: &str) -> i64 {
    let sql = format!("SELECT count(*) FROM windlass.{table}");
    client.query_one(&sql, &[]).await.expect("answers").get(0)
}

/// Claims from a queue; how many there were.
async fn claim(engine: &PostgresEngine, queue: &str, limit: u32) -> usize {
    let session = engine.open_session(OpenSession::new("w")).await.expect("opens").value.id;
    let claim = Claim::new(Claimant::Session { session, claim_no: 1 }, queue, limit);
    engine.claim(claim).await.expect("claims").value.jobs.len()
}

/// A database restored from a dump.
async fn restored(dump: &Output) -> OwnDatabase {
    let database = OwnDatabase::with(&[]).await;
    let file = tempfile::NamedTempFile::new().expect("a file");
    std::fs::write(file.path(), &dump.stdout).expect("writes");
    let mut restore = Command::new(programs().join("psql"));
    restore.args(["--quiet", "--no-psqlrc", "-v", "ON_ERROR_STOP=1", "-f"]).arg(file.path());
    let restored = restore.arg(database.url()).output().expect("psql runs");
    assert!(restored.status.success(), "{restored:?}");
    database
}

#[tokio::test]
async fn a_dump_that_finds_rewritten_tables_empty_loses_no_job_when_it_is_restored_and_repaired() {
    let rig = Rig::new().await;
    let snapshot = rig.snapshot().await;
    for table in HOT {
        let rewrite = format!("SELECT windlass.rewrite('{table}', 1000)");
        let done: bool = rig.client.query_one(&rewrite, &[]).await.expect("rewrites").get(0);
        assert!(done, "{table}");
        // As the guide says of such a snapshot.
        let (seen, there) = (count(&snapshot.client, table).await, rig.count(table).await);
        assert!(seen == 0 && there > 0, "{table}: {seen} of {there} rows are seen");
    }
    let dump = rig.dump(&snapshot);
    assert!(dump.status.success(), "{dump:?}");
    let database = restored(&dump).await;
    let engine = PostgresEngine::connect(Options::new(database.url())).await.expect("connects");
    assert_eq!(claim(&engine, "default", 100).await, 0, "nothing of it can be claimed yet");
    assert_ne!(engine.check(true).await.expect("repairs").value.findings, []);
    assert_eq!(engine.check(false).await.expect("checks").value.findings, []);
    let lanes = engine.stats(StatsRequest::default()).await.expect("answers").value;
    let scheduled: u64 = lanes.iter().map(|lane| lane.scheduled).sum();
    assert_eq!(scheduled, SCHEDULED as u64);
    // Leases are gone with their table: those jobs run again.
    assert_eq!(claim(&engine, "default", 100).await, READY + LEASED);
    assert_eq!(claim(&engine, "fair", 100).await, FAIR);
    assert_eq!(rig.engine.check(false).await.expect("checks").value.findings, []);
}

#[tokio::test]
async fn a_dump_that_would_find_an_emptied_partition_without_the_jobs_it_keeps_fails() {
    let rig = Rig::new().await;
    let ids = "SELECT array_agg(id) FROM windlass.job";
    let kept: Vec<uuid::Uuid> = rig.client.query_one(ids, &[]).await.expect("answers").get(0);
    // A partition over all jobs there are.
    let add = "SELECT windlass.add_partitions(ARRAY[min(id::text)::uuid],
        ARRAY['ffffffff-ffff-ffff-ffff-ffffffffffff'::uuid]) FROM windlass.job";
    let added: bool = rig.client.query_one(add, &[]).await.expect("adds").get(0);
    assert!(added);
    let snapshot = rig.snapshot().await;
    let empty = "SELECT windlass.empty_partition(no, late_jobs, $1, 1000) FROM windlass.partition";
    let emptied = rig.client.query_one(empty, &[&kept]).await.expect("empties");
    assert_eq!(emptied.get::<_, &str>(0), "emptied");
    assert_eq!(rig.count("job").await, kept.len() as i64, "other sessions see them");
    let dump = rig.dump(&snapshot);
    let said = String::from_utf8_lossy(&dump.stderr);
    assert!(!dump.status.success() && said.contains("does not exist"), "{said}");
    // The rest of the partition is dropped as usual, and the next dump is complete.
    let drop = "SELECT windlass.drop_partition(no, 1000) FROM windlass.partition WHERE emptied";
    let dropped: bool = rig.client.query_one(drop, &[]).await.expect("drops").get(0);
    assert!(dropped);
    assert_eq!(rig.engine.check(false).await.expect("checks").value.findings, []);
    assert!(rig.dump(&rig.snapshot().await).status.success());
}
