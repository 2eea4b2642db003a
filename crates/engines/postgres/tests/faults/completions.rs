//! Workers that are killed while their handlers write a row and complete their job in one transaction. After every
//! kill, the rows and the completions agree.

use crate::child::{Part, Running};
use crate::common::{OwnSchema, application, url};
use crate::trial::{seed, times};
use crate::waiting::until;
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use std::time::Duration;
use tokio_postgres::NoTls;
use windlass_core::engine::{Enqueue, Jobs as _, Maintain as _};
use windlass_core::model::NewJob;
use windlass_core::policy::{Unique, Until};
use windlass_core::random::{Random as _, Seeded, SystemRandom};
use windlass_postgres::{Options, PostgresEngine, Transactional};
use windlass_services::ServiceOptions;
use windlass_worker::{Ctx, Raw, Stop, Worker};

/// Worker processes at a time, and jobs that each runs at a time.
const WORKERS: usize = 2;
const CONCURRENCY: u32 = 4;
/// Kills of an ordinary run, and of a long one.
const KILLS: u32 = 12;
const KILLS_LONG: u32 = 200;
/// Completions between two kills.
const STEP: i64 = 4;
/// The latest instant of a kill after that, and the longest pause of a handler inside its transaction.
const KILL_MAX_MS: u64 = 40;
const PAUSE_MAX_MS: u64 = 8;
/// How long the jobs of a dead worker wait for it.
const TTL: Duration = Duration::from_millis(1_500);
/// Jobs that wait or run while workers are killed.
const BACKLOG: i64 = 60;
const QUEUE: &str = "witnessed";

/// The store of a worker process.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Plan {
    schema: String,
}

/// Works until the process is killed.
pub(crate) async fn work(plan: Plan) {
    let options = Options::new(url()).schema(&plan.schema);
    let engine = Arc::new(PostgresEngine::connect(options).await.expect("connects"));
    let mut services = ServiceOptions::default();
    services.lead_ttl = Duration::from_millis(2_000);
    services.reclaim.interval = Duration::from_millis(100);
    let jobs = Transactional::new(&plan.schema).expect("a schema");
    let worker = Worker::builder(engine).queue(QUEUE).concurrency(CONCURRENCY);
    let worker = worker.session(TTL, TTL / 8).service_options(services);
    let handler = move |_: Raw, ctx: Ctx| {
        let (jobs, schema) = (jobs.clone(), plan.schema.clone());
        async move { write_and_complete(&jobs, &schema, &ctx).await }
    };
    let handle = worker.handle_kind("write", handler).build().expect("a worker").start();
    std::future::pending::<()>().await;
    drop(handle);
}

/// A handler: one row for the job, and its completion, in one transaction.
async fn write_and_complete(jobs: &Transactional, schema: &str, ctx: &Ctx) -> Result<(), Stop> {
    let (mut client, connection) = tokio_postgres::connect(&url(), NoTls).await?;
    tokio::spawn(connection);
    let mut transaction = client.transaction().await?;
    let insert = format!("INSERT INTO \"{schema}\".witness (id, attempt) VALUES ($1, $2)");
    let attempt = i64::from(ctx.attempt());
    transaction.execute(&insert, &[&ctx.id().as_uuid(), &attempt]).await?;
    pause().await;
    let settled = jobs.settle(&mut transaction, ctx.completion(None)).await?;
    pause().await;
    if !settled.already {
        transaction.commit().await?;
    }
    pause().await;
    Ok(())
}

async fn pause() {
    tokio::time::sleep(Duration::from_millis(SystemRandom.below(PAUSE_MAX_MS))).await;
}

/// A job of every kind of end: plain, freeing an ordering key, freeing a unique key, keeping one.
fn job(number: u64) -> NewJob {
    let job = NewJob::new("write").queue(QUEUE).max_crashes(10_000).max_attempts(10_000);
    match number % 4 {
        0 => job.key(format!("k{}", number % 3)),
        1 => job.unique(Unique::by(format!("u{number}"))),
        2 => job.unique(Unique::by(format!("r{number}")).until(Until::Removed)),
        _ => job,
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_handlers_row_and_its_completion_agree_however_often_workers_are_killed() {
    let (schema, random) = (OwnSchema::new(), Seeded::new(seed()));
    let options = Options::new(url()).schema(&schema.name);
    let engine = PostgresEngine::connect(options).await.expect("connects");
    let client = application().await;
    let name = &schema.name;
    let table =
        format!("CREATE TABLE \"{name}\".witness (id uuid NOT NULL, attempt bigint NOT NULL)");
    client.batch_execute(&table).await.expect("creates a table");
    // In one statement, and so in one snapshot.
    let agree = format!(
        "SELECT count(*) FILTER (WHERE (j.state = 'completed') IS DISTINCT FROM (w.rows IS NOT NULL)),
            count(*) FILTER (WHERE w.rows > 1), count(w.rows), count(*)
        FROM \"{name}\".jobs j
        FULL JOIN (SELECT id, count(*) AS rows FROM \"{name}\".witness GROUP BY id) w ON w.id = j.id"
    );
    let mut enqueued = 0_u64;
    let count = async || {
        let row = client.query_one(&agree, &[]).await.expect("counts");
        let [differ, double, written, all] = [0, 1, 2, 3].map(|at| row.get::<_, i64>(at));
        assert_eq!((differ, double), (0, 0), "rows and completions differ");
        (written, all)
    };
    let start = || {
        let part = Part::Complete(Plan { schema: schema.name.clone() });
        Running::start(&part, Arc::default())
    };
    let mut workers: Vec<Running> = (0..WORKERS).map(|_| start()).collect();
    let kills = times(KILLS, KILLS_LONG);
    for _ in 0..kills {
        let (written, all) = count().await;
        let jobs: Vec<NewJob> = (0..(BACKLOG - (all - written)).max(0).cast_unsigned())
            .map(|n| job(enqueued + n))
            .collect();
        enqueued += jobs.len() as u64;
        if !jobs.is_empty() {
            engine.enqueue(Enqueue::each(jobs)).await.expect("enqueues");
        }
        until("jobs are completed", async || count().await.0 >= written + STEP).await;
        tokio::time::sleep(Duration::from_millis(random.below(KILL_MAX_MS))).await;
        // SIGKILL, and another process in its place.
        workers[random.below(WORKERS as u64) as usize] = start();
        count().await;
    }
    until("everything is completed", async || {
        let (written, all) = count().await;
        written == all
    })
    .await;
    drop(workers);
    let (written, all) = count().await;
    let lost = format!("SELECT count(*) FROM \"{name}\".jobs WHERE attempt > 1");
    let again: i64 = client.query_one(&lost, &[]).await.expect("counts").get(0);
    println!("{kills} kills: {all} jobs, {written} rows, {again} jobs that ran more than once");
    assert_eq!((written, all), (enqueued.cast_signed(), enqueued.cast_signed()));
    assert!(again > 0, "no worker was killed in the middle of a job");
    let findings = engine.check(false).await.expect("checks").value.findings;
    assert!(findings.is_empty(), "{findings:?}");
}
