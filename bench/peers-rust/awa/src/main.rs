//! The driver of awa: its queue storage with the receipt path for jobs without a deadline, COPY for bulk.

use anyhow::Result;
use awa::{
    Client, InsertOpts, InsertParams, JobArgs, JobResult, QueueConfig, QueueStorage,
    QueueStorageConfig,
};
use bench_harness::{About, Payload, Queue, Seen, drive, locked_version};
use serde::{Deserialize, Serialize};
use sqlx::PgPool;
use sqlx::postgres::PgPoolOptions;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tokio::runtime::Handle;

const QUEUE: &str = "bench";
/// Four for the queue and 20 more, as its notes on benchmarks advise.
const CONNECTIONS: u32 = 24;
const BULK: usize = 1_000;
const BULK_CALLERS: usize = 2;
/// From 512 on it completes in four lanes at a time instead of one. A job holds its place until its completion
/// is stored, so that twice as many let it claim and complete at the same time.
const WORKERS: u32 = 1_024;
const CLAIMERS: u16 = 2;

/// Its own exact counts take seconds where many jobs were run; this adds up the same places.
const COMPLETED: &str = "SELECT (\
    (SELECT coalesce(sum(completed_count), 0) FROM awa.receipt_completion_batches) \
    + (SELECT count(*) FROM awa.done_entries) \
    + (SELECT coalesce(sum(pruned_completed_count), 0) FROM awa.queue_terminal_rollups))::bigint";

#[derive(Serialize, Deserialize, JobArgs)]
struct Mail {
    #[serde(flatten)]
    payload: Payload,
}

#[derive(Clone)]
struct Awa {
    pool: PgPool,
    storage: Arc<QueueStorage>,
    /// How many jobs it was given.
    stored: Arc<AtomicU64>,
}

fn options() -> InsertOpts {
    InsertOpts { queue: QUEUE.into(), ..InsertOpts::default() }
}

impl Queue for Awa {
    async fn open(url: &str) -> Result<Self> {
        let pool = PgPoolOptions::new().max_connections(CONNECTIONS).connect(url).await?;
        let storage = Arc::new(QueueStorage::new(QueueStorageConfig::default())?);
        // On a thread of its own: the future of its migrations cannot be shown to be `Send`.
        let (runtime, queue) = (Handle::current(), Self { pool, storage, stored: Arc::default() });
        tokio::task::spawn_blocking(move || {
            runtime.block_on(async {
                awa::migrations::run(&queue.pool).await?;
                queue.storage.install(&queue.pool).await?;
                Ok(queue)
            })
        })
        .await?
    }

    fn about(&self) -> About {
        About {
            version: locked_version(include_str!("../../Cargo.lock"), "awa"),
            settings: format!(
                "queue storage, no deadline (receipt path), {WORKERS} workers, {CLAIMERS} claimers, claims of up to \
                 512, {CONNECTIONS} connections; bulk: {BULK_CALLERS} callers of enqueue_params_copy with {BULK}"
            ),
            bulk: BULK,
            bulk_callers: BULK_CALLERS,
        }
    }

    async fn enqueue(&self, payload: Payload) -> Result<()> {
        awa::insert_with(&self.pool, &Mail { payload }, options()).await?;
        self.stored.fetch_add(1, Ordering::SeqCst);
        Ok(())
    }

    async fn enqueue_many(&self, payloads: Vec<Payload>) -> Result<()> {
        let jobs = payloads
            .into_iter()
            .map(|payload| awa::model::insert::params_with(&Mail { payload }, options()));
        let jobs: Vec<InsertParams> = jobs.collect::<Result<_, _>>()?;
        let stored = self.storage.enqueue_params_copy(&self.pool, &jobs).await?;
        self.stored.fetch_add(stored as u64, Ordering::SeqCst);
        Ok(())
    }

    async fn work(&self, seen: Seen) -> Result<()> {
        let queue = QueueConfig {
            max_workers: WORKERS,
            claimers: CLAIMERS,
            deadline_duration: Duration::ZERO,
            ..QueueConfig::default()
        };
        let client = Client::builder(self.pool.clone())
            .queue(QUEUE, queue)
            .register::<Mail, _, _>(move |job: Mail, _| {
                seen.start(job.payload.n);
                async { Ok(JobResult::Completed) }
            })
            .build()?;
        client.start().await?;
        // It goes on until the process ends.
        std::mem::forget(client);
        Ok(())
    }

    async fn left(&self) -> Result<u64> {
        let completed: i64 = sqlx::query_scalar(COMPLETED).fetch_one(&self.pool).await?;
        Ok(self.stored.load(Ordering::SeqCst).saturating_sub(completed as u64))
    }
}

fn main() -> ExitCode {
    drive::<Awa>()
}
