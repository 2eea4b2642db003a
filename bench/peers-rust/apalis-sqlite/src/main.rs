//! The driver of apalis-sqlite: woken by SQLite's update hook, fetches in batches. Its `setup` turns syncing
//! off on the one connection it runs on; the connections used here sync before they acknowledge.

use anyhow::{Context as _, Result, ensure};
use apalis::prelude::*;
use apalis_sqlite::callback::HookCallbackListener;
use apalis_sqlite::{Config, SqlitePool, SqliteStorage};
use bench_harness::{About, Payload, Queue, Seen, drive, locked_version};
use std::process::ExitCode;
use std::sync::{Arc, Mutex};
use tokio::runtime::Handle;

const BULK: usize = 1_000;
const BULK_CALLERS: usize = 1;
const FETCH: usize = 500;
/// The value of `PRAGMA synchronous` that syncs every commit.
const SYNCHRONOUS_FULL: i64 = 2;

async fn mail(job: Payload, seen: Data<Seen>) -> Result<(), BoxDynError> {
    seen.start(job.n);
    Ok(())
}

#[derive(Clone)]
struct Apalis {
    pool: SqlitePool,
    storage: SqliteStorage<Payload>,
    /// Taken by the worker.
    listener: Arc<Mutex<Option<HookCallbackListener>>>,
}

impl Queue for Apalis {
    async fn open(url: &str) -> Result<Self> {
        let file = url.strip_prefix("file:").context("the URL must begin with file:")?;
        let url = format!("sqlite://{file}/jobs.sqlite?mode=rwc");
        let setup = SqlitePool::connect(&url).await?;
        SqliteStorage::setup(&setup).await?;
        setup.close().await;
        let (pool, listener) = SqliteStorage::connect_with_callback(&url)?;
        let synchronous: i64 = sqlx::query_scalar("PRAGMA synchronous").fetch_one(&pool).await?;
        ensure!(synchronous == SYNCHRONOUS_FULL, "PRAGMA synchronous is {synchronous}");
        let config = Config::default().queue("bench").batch_size(FETCH).lock_tasks(false);
        let storage = SqliteStorage::new(&pool).with_config(config);
        Ok(Self { pool, storage, listener: Arc::new(Mutex::new(Some(listener))) })
    }

    fn about(&self) -> About {
        About {
            version: locked_version(include_str!("../../Cargo.lock"), "apalis-sqlite"),
            settings: format!(
                "WAL, synchronous FULL, with_callback, batch_size {FETCH}, lock_tasks(false), \
                 parallelize(tokio::spawn), its own pool; bulk: {BULK_CALLERS} caller of push_bulk with {BULK}"
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
        let listener = self.listener.lock().ok().and_then(|mut it| it.take());
        let listener = listener.context("a second worker was asked for")?;
        let worker = WorkerBuilder::new("bench")
            .backend(self.storage.clone().with_callback(listener))
            .data(seen)
            .parallelize(tokio::spawn)
            .build(mail);
        // On a thread of its own, as in a `main`: its future cannot be shown to be `Send`.
        let runtime = Handle::current();
        tokio::task::spawn_blocking(move || runtime.block_on(worker.run()));
        Ok(())
    }

    async fn left(&self) -> Result<u64> {
        let count = "SELECT count(*) FROM Jobs WHERE status <> 'Done'";
        let count: i64 = sqlx::query_scalar(count).fetch_one(&self.pool).await?;
        Ok(count as u64)
    }
}

fn main() -> ExitCode {
    drive::<Apalis>()
}
