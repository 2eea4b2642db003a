//! The driver of graphile_worker (Rust): local queue and batched completions, as its documentation
//! recommends for throughput.

use anyhow::Result;
use bench_harness::{About, Payload, Queue, Seen, drive, locked_version};
use graphile_worker::{
    IntoTaskHandlerResult, JobSpec, LocalQueueConfig, TaskHandler, WorkerContext, WorkerOptions,
    WorkerUtils,
};
use serde::{Deserialize, Serialize};
use sqlx::PgPool;
use sqlx::postgres::PgPoolOptions;
use std::process::ExitCode;
use std::time::Duration;

const SCHEMA: &str = "graphile_worker";
const CONNECTIONS: u32 = 20;
const BULK: usize = 1_000;
const BULK_CALLERS: usize = 2;
const CONCURRENCY: usize = 24;
const LOCAL_QUEUE: usize = 500;
const COMPLETE_DELAY: Duration = Duration::from_millis(1);

#[derive(Clone, Serialize, Deserialize)]
#[serde(transparent)]
struct Mail {
    payload: Payload,
}

impl TaskHandler for Mail {
    const IDENTIFIER: &'static str = "mail";

    async fn run(self, ctx: WorkerContext) -> impl IntoTaskHandlerResult {
        let seen = ctx.get_ext::<Seen>().ok_or("the worker has no state for its handlers")?;
        seen.start(self.payload.n);
        Ok::<(), &str>(())
    }
}

#[derive(Clone)]
struct GraphileWorker {
    pool: PgPool,
    utils: WorkerUtils,
}

impl Queue for GraphileWorker {
    async fn open(url: &str) -> Result<Self> {
        let pool = PgPoolOptions::new().max_connections(CONNECTIONS).connect(url).await?;
        let utils = WorkerUtils::new(pool.clone(), SCHEMA);
        utils.migrate().await?;
        Ok(Self { pool, utils })
    }

    fn about(&self) -> About {
        About {
            version: locked_version(include_str!("../../Cargo.lock"), "graphile_worker"),
            settings: format!(
                "local queue of {LOCAL_QUEUE}, completions batched over {COMPLETE_DELAY:?}, concurrency \
                 {CONCURRENCY}, {CONNECTIONS} connections; bulk: {BULK_CALLERS} callers of add_jobs with {BULK}"
            ),
            bulk: BULK,
            bulk_callers: BULK_CALLERS,
        }
    }

    async fn enqueue(&self, payload: Payload) -> Result<()> {
        self.utils.add_job(Mail { payload }, JobSpec::default()).await?;
        Ok(())
    }

    async fn enqueue_many(&self, payloads: Vec<Payload>) -> Result<()> {
        let spec = JobSpec::default();
        let jobs: Vec<_> = payloads.into_iter().map(|payload| (Mail { payload }, &spec)).collect();
        self.utils.add_jobs(&jobs).await?;
        Ok(())
    }

    async fn work(&self, seen: Seen) -> Result<()> {
        let worker = WorkerOptions::default()
            .schema(SCHEMA)
            .pg_pool(self.pool.clone())
            .concurrency(CONCURRENCY)
            .local_queue(LocalQueueConfig::default().with_size(LOCAL_QUEUE))
            .complete_job_batch_delay(COMPLETE_DELAY)
            .add_extension(seen)
            .define_job::<Mail>()
            .init()
            .await?;
        tokio::spawn(async move { worker.run().await });
        Ok(())
    }

    async fn left(&self) -> Result<u64> {
        let count = "SELECT count(*) FROM graphile_worker._private_jobs";
        let count: i64 = sqlx::query_scalar(count).fetch_one(&self.pool).await?;
        Ok(count as u64)
    }
}

fn main() -> ExitCode {
    drive::<GraphileWorker>()
}
