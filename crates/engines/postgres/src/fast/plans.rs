//! Tests the plans of all statements: rows are looked up by key, whatever the statistics of the tables.

use crate::conn::Lent;
use crate::conn::Row;
use crate::{Options, PostgresEngine, remove};
use windlass_core::engine::*;
use windlass_core::model::{Due, JobError, Limit, NewJob, QueuePatch, Rate};
use windlass_core::policy::Unique;
use windlass_core::random::{Random as _, SystemRandom};

/// URL of the server; `cargo xtask test` starts one and sets it.
const VARIABLE: &str = "WINDLASS_TEST_POSTGRES";
/// Waiting jobs in a full table.
const MANY: usize = 5_000;
/// Jobs of a batch.
const BATCH: usize = 20;
/// All prepared statements and their number of parameters.
const PREPARED: &str = "SELECT name, statement, cardinality(parameter_types)
    FROM pg_prepared_statements WHERE NOT from_sql AND statement NOT LIKE 'EXPLAIN%'";
/// Updates the statistics.
const ANALYZE: &str =
    "VACUUM ANALYZE {s}.ready, {s}.lease, {s}.scheduled, {s}.aside, {s}.job, {s}.life, {s}.part,
    {s}.finished, {s}.key_holder, {s}.key_line, {s}.unique_key, {s}.session, {s}.meter, {s}.group_lane,
    {s}.group_line";
/// Scans of a whole table, if no condition follows on the next line.
const SCANS: [&str; 3] = ["Seq Scan on ", "Index Scan using ", "Index Only Scan using "];
/// Tables with few rows, however many jobs there are.
const FEW: [&str; 6] = ["lane", "queue", "kind", "session", "tally", "limit_rule"];

/// An engine with one connection, which prepares everything.
async fn engine(url: &str, schema: &str) -> PostgresEngine {
    let options = Options::new(url).schema(schema).connections(1);
    PostgresEngine::connect(options).await.unwrap()
}

async fn enqueue(engine: &PostgresEngine, jobs: impl Iterator<Item = NewJob>) {
    for item in engine.enqueue(Enqueue::each(jobs)).await.unwrap().value {
        item.unwrap();
    }
}

async fn settle(engine: &PostgresEngine, jobs: &[ClaimedJob], outcome: &Outcome) {
    let item =
        |job: &ClaimedJob| SettleItem::new(job.header.id, job.lease.clone(), outcome.clone());
    let settled = engine.settle(Settle::new(jobs.iter().map(item))).await.unwrap().value;
    assert!(settled.items.iter().all(Item::is_ok));
}

/// Gives the queue `limited` its limits. Listing them reads all running jobs once, so it is not among the statements
/// under test.
async fn list_limits(url: &str, schema: &str) {
    let settings = [
        Configure::limit("over-all", Limit::max_running(50)),
        Configure::limit("by-group", Limit::max_running(3).rate(Rate::bucket(9_000, 1)).by_group()),
        Configure::queue("limited", QueuePatch::limits(["over-all", "by-group"])),
    ];
    for done in engine(url, schema).await.configure(settings.into()).await.unwrap().value {
        done.unwrap();
    }
}

/// Uses every common verb in a queue without limits and in one with limits; leaves no claimable job.
async fn work(engine: &PostgresEngine) {
    for queue in ["default", "limited"] {
        work_in(engine, queue).await;
    }
}

async fn work_in(engine: &PostgresEngine, queue: &str) {
    let session = engine.open_session(OpenSession::new("w")).await.unwrap().value.id;
    let claim = |claim_no| {
        let by = Claimant::Session { session: session.clone(), claim_no };
        let claim = Claim::new(by, queue, 10 * BATCH as u32);
        async { engine.claim(claim).await.unwrap().value.jobs }
    };
    let plain = |n: usize| {
        NewJob::new(format!("k{}", n % 3)).queue(queue).tenant(format!("t{}", n % 20)).json("{}")
    };
    enqueue(engine, (0..2 * BATCH).map(plain)).await;
    enqueue(engine, (0..BATCH).map(|n| plain(n).unique(Unique::by(n.to_string())))).await;
    enqueue(engine, (0..BATCH).map(|n| plain(n).key(format!("{}", n % 5)))).await;
    enqueue(engine, (0..BATCH).map(|n| plain(n).due(Due::After(1)))).await;
    let error = JobError::new("x", "by chance");
    let outcomes = [
        Outcome::DONE,
        Outcome::Retry { error: error.clone(), delay_ms: Some(0) },
        Outcome::Fail { error },
    ];
    let mut claim_no = 0;
    loop {
        engine.maintain(MaintainRequest::new(Work::Promote, 1_000)).await.unwrap();
        claim_no += 1;
        let jobs = claim(claim_no).await;
        if jobs.is_empty() {
            break;
        }
        let held = jobs.iter().map(|job| Held { id: job.header.id, lease: job.lease.clone() });
        let beat = Heartbeat::new(session.clone(), claim_no, held.collect());
        engine.heartbeat(beat).await.unwrap();
        for (n, outcome) in outcomes.iter().enumerate() {
            let some: Vec<_> = jobs.iter().skip(n).step_by(outcomes.len()).cloned().collect();
            settle(engine, &some, outcome).await;
        }
        let ids = jobs.iter().map(|job| job.header.id);
        engine.get(Get::new(ids)).await.unwrap();
    }
}

/// The lines of a plan that scan a whole table. A scan under a LIMIT does not count.
fn whole(plan: &[String]) -> impl Iterator<Item = &String> {
    let is_whole = |(at, line): &(usize, &String)| {
        let has = |at: Option<usize>, part: &str| {
            at.and_then(|at| plan.get(at)).is_some_and(|line| line.contains(part))
        };
        let is_scan = SCANS.iter().any(|scan| line.contains(scan));
        let is_few = FEW.iter().any(|few| line.contains(&format!(" on {few}")));
        let is_sought = has(at.checked_add(1), "Index Cond: ") || has(at.checked_sub(1), "Limit");
        is_scan && !is_few && !is_sought
    };
    plan.iter().enumerate().filter(is_whole).map(|(_, line)| line)
}

/// The plans of prepared statements that scan a whole table.
async fn scans(conn: &Lent) -> Vec<String> {
    let prepared = conn.query(PREPARED, &[]).await.unwrap();
    assert!(prepared.len() > 30, "{} statements are all that there is", prepared.len());
    let mut scans = Vec::new();
    for row in prepared {
        let (name, statement): (&str, &str) = (row.get(0), row.get(1));
        let values = vec!["NULL"; row.get::<_, i32>(2) as usize].join(", ");
        let values = if values.is_empty() { values } else { format!("({values})") };
        let explain = format!("EXPLAIN (COSTS OFF) EXECUTE \"{name}\"{values}");
        let plan = conn.query(explain.leak(), &[]).await.unwrap();
        let plan: Vec<String> = plan.iter().map(|row: &Row| row.get(0)).collect();
        scans.extend(
            whole(&plan).map(|line| format!("{line}\nin {statement}\nby\n{}", plan.join("\n"))),
        );
    }
    scans
}

#[tokio::test]
async fn no_statement_scans_a_whole_table_however_empty_it_seems() {
    let url = std::env::var(VARIABLE)
        .unwrap_or_else(|_| panic!("{VARIABLE} is not set: run `cargo xtask test`"));
    let schema = format!("test_{:016x}", SystemRandom.next_u64());
    list_limits(&url, &schema).await;
    let engine = engine(&url, &schema).await;
    work(&engine).await;
    let mut found = Vec::new();
    for waiting in [0, MANY] {
        enqueue(&engine, (0..waiting).map(|_| NewJob::new("k0"))).await;
        let conn = engine.inner.shared.pool.lend().await.unwrap();
        conn.plain(ANALYZE).await.unwrap();
        let scans = scans(&conn).await;
        conn.give_back();
        found.extend(scans.into_iter().map(|scan| format!("with {waiting} waiting: {scan}")));
    }
    drop(engine);
    remove(&url, &schema).await.unwrap();
    assert!(found.is_empty(), "{}", found.join("\n\n"));
}
