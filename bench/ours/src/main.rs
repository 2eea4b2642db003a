//! The driver of Windlass in the peer benchmark: a client and a worker, as a program uses them. It takes no
//! short cut through an engine, because the drivers of the peers take none either.

use anyhow::Result;
use bench_harness::{About, Payload, Queue, Seen, drive, locked_version};
use serde::{Deserialize, Serialize};
use std::process::ExitCode;
use windlass::worker::State;
use windlass::{Client, Job, Stop};

/// Jobs per call where many are enqueued, and such calls at a time: while one is written, the next is made.
const BULK: usize = 1_000;
const BULK_CALLERS: usize = 2;
/// Jobs the worker runs at a time.
const CONCURRENCY: u32 = 500;

/// The job. Its JSON is that of the payload alone.
#[derive(Job, Serialize, Deserialize)]
#[serde(transparent)]
struct Mail {
    payload: Payload,
}

async fn mail(job: Mail, State(seen): State<Seen>) -> Result<(), Stop> {
    seen.start(job.payload.n);
    Ok(())
}

#[derive(Clone)]
struct Windlass {
    client: Client,
}

impl Queue for Windlass {
    async fn open(url: &str) -> Result<Self> {
        Ok(Self { client: windlass::connect(url).await? })
    }

    fn about(&self) -> About {
        About {
            version: locked_version(include_str!("../../../Cargo.lock"), "windlass"),
            settings: format!(
                "client and worker by default, but {CONCURRENCY} jobs at a time; what callers of one client \
                 enqueue at the same time travels together; bulk: {BULK_CALLERS} callers of {BULK}"
            ),
            bulk: BULK,
            bulk_callers: BULK_CALLERS,
        }
    }

    async fn enqueue(&self, payload: Payload) -> Result<()> {
        self.client.enqueue(&Mail { payload }).await?;
        Ok(())
    }

    async fn enqueue_many(&self, payloads: Vec<Payload>) -> Result<()> {
        let jobs = payloads.into_iter().map(|payload| Mail { payload });
        self.client.enqueue_all(jobs).await.into_iter().try_for_each(|answer| answer.map(drop))?;
        Ok(())
    }

    async fn work(&self, seen: Seen) -> Result<()> {
        let worker = self.client.worker().handle(mail).state(seen).concurrency(CONCURRENCY);
        // It goes on until the process ends.
        std::mem::forget(worker.build()?.start());
        Ok(())
    }

    async fn left(&self) -> Result<u64> {
        let lanes = self.client.stats().await?;
        Ok(lanes.iter().map(|lane| lane.available + lane.running + lane.scheduled).sum())
    }
}

fn main() -> ExitCode {
    drive::<Windlass>()
}
