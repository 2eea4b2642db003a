//! The driver of apalis-postgres: wake-ups by NOTIFY, fetches in batches, jobs not locked one by one, as its
//! examples do.

use anyhow::Result;
use apalis::prelude::*;
use apalis_postgres::{Config, PostgresStorage};
use bench_harness::{About, Payload, Queue, Seen, drive, locked_version};
use sqlx::PgPool;
use sqlx::postgres::PgPoolOptions;
use std::process::ExitCode;
use tokio::runtime::Handle;

const CONNECTIONS: u32 = 20;
const BULK: usize = 1_000;
const BULK_CALLERS: usize = 2;
const FETCH: usize = 500;

async fn mail(job: Payload, seen: Data<Seen>) -> Result<(), BoxDynError> {
    seen.start(job.n);
    Ok(())
}

#[derive(Clone)]
struct Apalis {
    pool: PgPool,
    storage: PostgresStorage<Payload>,
}

impl Queue for Apalis {
    async fn open(url: &str) -> Result<Self> {
        let pool = PgPoolOptions::new().max_connections(CONNECTIONS).connect(url).await?;
        PostgresStorage::setup(&pool).await?;
        let config = Config::default().queue("bench").batch_size(FETCH).lock_tasks(false);
        let storage = PostgresStorage::new(&pool).with_config(config);
        Ok(Self { pool, storage })
    }

    fn about(&self) -> About {
        About {
            version: locked_version(include_str!("../../Cargo.lock"), "apalis-postgres"),
            settings: format!(
                "with_pubsub, batch_size {FETCH}, lock_tasks(false), parallelize(tokio::spawn), {CONNECTIONS} \
                 connections; bulk: {BULK_CALLERS} callers of push_bulk with {BULK}"
            ),
            bulk: BULK,
            bulk_callers: BULK_CALLERS,
        }
    }

    async fn enqueue(&self, payload: Payload) -> Result<()> {
        self.storage.clone().push(payload).await?;
        Ok(())
    }

    async fn enqueue_many(&self, payloads: Vec<Payload>) -> Result<()> {
        self.storage.clone().push_bulk(payloads).await?;
        Ok(())
    }

    async fn work(&self, seen: Seen) -> Result<()> {
        let worker = WorkerBuilder::new("bench")
            .backend(self.storage.clone().with_pubsub())
            .data(seen)
            .parallelize(tokio::spawn)
            .build(mail);
        // On a thread of its own, as in a `main`: its future cannot be shown to be `Send`.
        let runtime = Handle::current();
        tokio::task::spawn_blocking(move || runtime.block_on(worker.run()));
        Ok(())
    }

    async fn left(&self) -> Result<u64> {
        let count = "SELECT count(*) FROM apalis.jobs WHERE status <> 'Done'";
        let count: i64 = sqlx::query_scalar(count).fetch_one(&self.pool).await?;
        Ok(count as u64)
    }
}

fn main() -> ExitCode {
    drive::<Apalis>()
}
