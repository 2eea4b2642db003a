//! The cost of calls in pages that the server reads: independent of the number of waiting jobs.
//!
//! `WINDLASS_LONG=1` makes it a million.

use crate::common::{OwnSchema, url};
use std::time::Duration;
use tokio_postgres::Client;
use windlass_core::engine::*;
use windlass_core::limits::READY_COUNTED_MAX;
use windlass_core::model::{JobError, NewJob};
use windlass_postgres::{Options, PostgresEngine};

/// Jobs that wait.
const FEW: usize = 1_000;
const MANY: usize = 50_000;
const MANY_LONG: usize = 1_000_000;
/// Lanes they are spread over.
const LANES: usize = 5;
/// How many wait when a process makes its plans.
const WHEN_PLANNED: [usize; 3] = [1_000, 3_000, 6_400];
/// Jobs in a claim, and claims that are measured together.
const BATCH: u32 = 50;
const CLAIMS: u64 = 10;
/// The same beside idle lanes, at which one in many claims looks.
const CLAIMS_BESIDE_IDLE: u64 = 100;
/// Thousands of jobs that come and go beside an old snapshot.
const DYING: usize = 30;
/// Dead letters among them.
const DEAD: u32 = 20;
/// How long servers keep their counts to themselves, and how long anything may take.
const COUNTED_AFTER: Duration = Duration::from_millis(1_200);
const PATIENCE: Duration = Duration::from_secs(30);
/// Maximum number of pages to read one job: it is in five tables at most, each behind an index.
const PAGES_PER_JOB_MAX: i64 = 30;
/// Pages that the numbers of a few lanes may take, once they are folded.
const PAGES_OF_STATS_MAX: i64 = 100;

struct Bench {
    schema: OwnSchema,
    engine: PostgresEngine,
    client: Client,
    session: SessionId,
    claim_no: u64,
}

impl Bench {
    async fn start() -> Self {
        let schema = OwnSchema::new();
        let options = Options::new(url()).schema(&schema.name).connections(1);
        let engine = PostgresEngine::connect(options).await.expect("connects");
        let (client, connection) =
            tokio_postgres::connect(&url(), tokio_postgres::NoTls).await.expect("connects");
        tokio::spawn(connection);
        let session = engine.open_session(OpenSession::new("w")).await.expect("opens").value.id;
        let bench = Self { schema, engine, client, session, claim_no: 0 };
        // No other session uses the tables meanwhile.
        bench.each_table("ALTER TABLE %s SET (autovacuum_enabled = off)").await;
        bench
    }

    /// Runs a command with the name of each table put in.
    async fn each_table(&self, command: &str) {
        let tables = "SELECT format($2::text, oid::regclass) FROM pg_class
            WHERE relnamespace = $1::text::regnamespace AND relkind = 'r'";
        let schema = format!("\"{}\"", self.schema.name);
        for row in self.client.query(tables, &[&schema, &command]).await.expect("tables") {
            self.client.batch_execute(row.get(0)).await.expect("is done");
        }
    }

    async fn fill(&self, jobs: usize) {
        let job = |number: usize| NewJob::new(format!("kind{}", number % LANES)).json("{}");
        let mut left = jobs;
        while left > 0 {
            let now = left.min(10_000);
            self.engine.enqueue(Enqueue::each((0..now).map(job))).await.expect("enqueues");
            left -= now;
        }
    }

    /// Enqueues jobs of two priorities.
    async fn fill_both(&self, kind: &str, of_each: usize) {
        for priority in [0, 1] {
            let jobs = vec![NewJob::new(kind).priority(priority).json("{}"); of_each];
            for batch in jobs.chunks(10_000) {
                self.engine.enqueue(Enqueue::each(batch.to_vec())).await.expect("enqueues");
            }
        }
    }

    /// Ready jobs that are read for the counts of all lanes, by priority.
    async fn seen_by_priority(&self) -> i64 {
        self.engine.maintain(MaintainRequest::new(Work::Compact, 1_000)).await.expect("compacts");
        let request = StatsRequest::default().by_priority();
        let lanes = self.engine.stats(request.clone()).await.expect("counts").value;
        assert!(lanes.iter().all(|lane| lane.priorities.len() == 2), "{lanes:?}");
        let before = self.ready_jobs_seen().await;
        self.engine.stats(request).await.expect("counts");
        self.ready_jobs_seen().await - before
    }

    async fn claim(&mut self, limit: u32) -> Vec<ClaimedJob> {
        self.claim_no += 1;
        let by = Claimant::Session { session: self.session.clone(), claim_no: self.claim_no };
        let claimed = self.engine.claim(Claim::new(by, "default", limit)).await.expect("claims");
        claimed.value.jobs
    }

    async fn settle(&self, jobs: Vec<ClaimedJob>, outcome: &Outcome) {
        let item = |job: ClaimedJob| SettleItem::new(job.header.id, job.lease, outcome.clone());
        let reply = self.engine.settle(Settle::new(jobs.into_iter().map(item))).await;
        assert!(reply.expect("settles").value.items.iter().all(Item::is_ok));
    }

    /// Pages of our tables and indexes read so far.
    async fn pages(&self) -> i64 {
        let sql = "SELECT coalesce(sum(heap_blks_read + heap_blks_hit + coalesce(idx_blks_read, 0)
            + coalesce(idx_blks_hit, 0)), 0)::bigint FROM pg_statio_all_tables WHERE schemaname = $1";
        self.at_rest(sql).await
    }

    /// Ready jobs read so far.
    async fn ready_jobs_seen(&self) -> i64 {
        let sql = "SELECT coalesce(sum(idx_tup_read), 0)::bigint FROM pg_stat_all_indexes
            WHERE schemaname = $1 AND relname = 'ready'";
        self.at_rest(sql).await
    }

    /// The server's statistics, once they are complete.
    async fn at_rest(&self, sql: &str) -> i64 {
        let deadline = tokio::time::Instant::now() + PATIENCE;
        let mut last = -1;
        loop {
            // Idle backends report at the end of their next transaction.
            tokio::time::sleep(COUNTED_AFTER).await;
            self.engine.health().await.expect("answers");
            let counted = self.client.query_one(sql, &[&self.schema.name]).await;
            let now = counted.expect("counts").get(0);
            if now == last {
                return now;
            }
            assert!(tokio::time::Instant::now() < deadline, "the counts do not come to rest");
            last = now;
        }
    }

    /// Pages for a claim and its reports.
    async fn pages_per_claim(&mut self) -> i64 {
        self.pages_of_each(CLAIMS).await
    }

    /// The same, averaged over this many runs.
    async fn pages_of_each(&mut self, claims: u64) -> i64 {
        let before = self.pages().await;
        for _ in 0..claims {
            let jobs = self.claim(BATCH).await;
            assert_eq!(jobs.len(), BATCH as usize);
            self.settle(jobs, &Outcome::DONE).await;
        }
        (self.pages().await - before) / claims as i64
    }

    /// Enqueues, claims and reports jobs, by single statements and the other way.
    async fn round(&mut self) {
        self.fill(2 * BATCH as usize).await;
        for outcome in [Outcome::DONE, Outcome::Fail { error: JobError::new("x", "by chance") }] {
            let jobs = self.claim(BATCH).await;
            assert_eq!(jobs.len(), BATCH as usize);
            self.settle(jobs, &outcome).await;
        }
    }

    async fn pages_per_round(&mut self) -> i64 {
        let before = self.pages().await;
        for _ in 0..CLAIMS {
            self.round().await;
        }
        (self.pages().await - before) / CLAIMS as i64
    }

    /// Pages that a query reads.
    async fn pages_of(&self, question: &str) -> i64 {
        let question = question.replace("{s}", &format!("\"{}\"", self.schema.name));
        let sql = format!("EXPLAIN (ANALYZE, BUFFERS, TIMING OFF, FORMAT JSON) {question}");
        let rows = self.client.simple_query(&sql).await.expect("explains");
        let text = rows.iter().find_map(|message| match message {
            tokio_postgres::SimpleQueryMessage::Row(row) => row.get(0),
            _ => None,
        });
        let plan: serde_json::Value = serde_json::from_str(text.expect("a plan")).expect("is JSON");
        let blocks = |name: &str| plan[0]["Plan"][name].as_i64().expect("a number");
        let pages = blocks("Shared Hit Blocks") + blocks("Shared Read Blocks");
        println!("{pages} pages: {question}");
        pages
    }
}

#[tokio::test]
async fn work_and_questions_cost_the_same_with_many_waiting_as_with_few() {
    let is_long = std::env::var_os("WINDLASS_LONG").is_some_and(|value| value == "1");
    let many = if is_long { MANY_LONG } else { MANY };
    let mut bench = Bench::start().await;
    bench.fill(FEW).await;
    // Statements are prepared, and lanes known.
    let jobs = bench.claim(BATCH).await;
    bench.settle(jobs, &Outcome::DONE).await;
    let few = bench.pages_per_claim().await;
    bench.fill(many).await;
    let deep = bench.pages_per_claim().await;
    println!("{few} pages per claim and reports with {FEW} waiting, {deep} with {many}");
    // A deeper tree has a level more; a scan would read thousands.
    assert!(deep < 2 * few, "{deep} pages with {many} waiting, {few} with {FEW}");

    let dead = bench.claim(DEAD).await;
    let one = dead[0].header.id;
    bench.settle(dead, &Outcome::Fail { error: JobError::new("x", "by chance") }).await;
    bench.engine.maintain(MaintainRequest::new(Work::Compact, 1_000)).await.expect("compacts");
    bench.each_table("ANALYZE %s").await;
    let by_id = format!("SELECT * FROM {{s}}.jobs WHERE id = '{one}'");
    assert!(bench.pages_of(&by_id).await <= PAGES_PER_JOB_MAX);
    let dead = bench.pages_of("SELECT id, queue, kind, error FROM {s}.dead_jobs").await;
    assert!(dead <= PAGES_PER_JOB_MAX * i64::from(DEAD), "{dead}");
    let newest = "SELECT id, state FROM {s}.jobs ORDER BY id DESC LIMIT 50";
    assert!(bench.pages_of(newest).await <= PAGES_PER_JOB_MAX * 50);
    assert!(bench.pages_of("SELECT * FROM {s}.queue_stats").await <= PAGES_OF_STATS_MAX);
}

#[tokio::test]
async fn a_claim_costs_the_same_beside_10_000_idle_lanes_as_beside_ten() {
    let mut bench = Bench::start().await;
    bench.fill(2 * FEW + (2 * CLAIMS_BESIDE_IDLE + 1) as usize * BATCH as usize).await;
    let (schema, mut idle) = (bench.schema.name.clone(), Vec::new());
    for (first, last) in [(1, 10), (11, 10_000)] {
        let add = format!(
            "INSERT INTO \"{schema}\".lane (queue, kind) SELECT 'default', 'idle' || n FROM generate_series({first}, {last}) n"
        );
        bench.client.batch_execute(&add).await.expect("adds lanes");
        // A process of its own, which looks through the lanes at once.
        let other = Options::new(url()).schema(&schema).connections(1);
        let other = PostgresEngine::connect(other).await.expect("connects");
        other.maintain(MaintainRequest::new(Work::Compact, 1_000)).await.expect("compacts");
        // Statements are prepared, and lanes known.
        let jobs = bench.claim(BATCH).await;
        bench.settle(jobs, &Outcome::DONE).await;
        idle.push(bench.pages_of_each(CLAIMS_BESIDE_IDLE).await);
    }
    println!(
        "{} pages per claim and reports beside 10 idle lanes, {} beside 10,000",
        idle[0], idle[1]
    );
    // Some pages for each lane would be 70,000; some claims read them all.
    assert!(idle[1] < idle[0] + 10_000, "{idle:?}");
}

#[tokio::test]
async fn a_claim_reads_only_what_it_takes_at_whatever_depth_it_was_planned() {
    for waiting in WHEN_PLANNED {
        let mut bench = Bench::start().await;
        let job = || NewJob::new("kind0").json("{}");
        for number in [waiting, MANY] {
            for batch in vec![job(); number].chunks(10_000) {
                bench.engine.enqueue(Enqueue::each(batch.to_vec())).await.expect("enqueues");
            }
            // The first time, plans are made.
            let jobs = bench.claim(BATCH).await;
            bench.settle(jobs, &Outcome::DONE).await;
        }
        let before = bench.ready_jobs_seen().await;
        for _ in 0..CLAIMS {
            let jobs = bench.claim(BATCH).await;
            assert_eq!(jobs.len(), BATCH as usize);
            bench.settle(jobs, &Outcome::DONE).await;
        }
        let seen = (bench.ready_jobs_seen().await - before) / CLAIMS as i64;
        println!("planned with {waiting} waiting: {seen} rows read for a claim of {BATCH}");
        assert!(seen <= 2 * i64::from(BATCH), "{seen} rows read, planned with {waiting} waiting");
    }
}

#[tokio::test]
async fn ready_jobs_by_priority_cost_the_same_with_many_waiting_as_with_few() {
    let bench = Bench::start().await;
    for number in 0..LANES {
        bench.fill_both(&format!("kind{number}"), 1).await;
    }
    // More than are counted.
    let counted = READY_COUNTED_MAX as usize / 4 + 1;
    bench.fill_both("deep", counted).await;
    let few = bench.seen_by_priority().await;
    bench.fill_both("deep", MANY / 2).await;
    let many = bench.seen_by_priority().await;
    println!("{few} rows read with {counted} of each waiting in one lane, {many} with {MANY} more");
    assert!((1..=READY_COUNTED_MAX as i64).contains(&few), "{few}");
    assert_eq!(many, few, "with {MANY} more");
}

#[tokio::test]
async fn work_costs_the_same_beside_an_old_snapshot() {
    let mut bench = Bench::start().await;
    // Statements are prepared while the statistics say that tables are empty.
    bench.each_table("VACUUM %s").await;
    bench.round().await;
    let fresh = bench.pages_per_round().await;
    let (reader, connection) =
        tokio_postgres::connect(&url(), tokio_postgres::NoTls).await.expect("connects");
    tokio::spawn(connection);
    let read = format!(
        "BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT * FROM \"{0}\".jobs LIMIT 1;
            SELECT * FROM \"{0}\".queue_stats",
        bench.schema.name
    );
    reader.batch_execute(&read).await.expect("reads");
    for _ in 0..DYING {
        bench.fill(1_000).await;
        let jobs = bench.claim(1_000).await;
        bench.settle(jobs, &Outcome::DONE).await;
    }
    let used = bench.pages_per_round().await;
    println!("{fresh} pages per round in tables that are fresh, {used} among what died");
    assert!(used < 2 * fresh, "{used} pages per round, {fresh} when nothing had died");
}
