//! The driver of Windlass in the peer benchmark: a client and a worker, as in an application. It does not call
//! an engine directly, because the drivers of the peers do not either.

use anyhow::Result;
use bench_harness::{About, Payload, Queue, Seen, drive, locked_version};
use serde::{Deserialize, Serialize};
use std::process::ExitCode;
use windlass::{Client, Data, Job, Stop};

/// Number of jobs per bulk call.
const BULK: usize = 1_000;
/// Number of concurrent bulk calls: while one batch is written, the next is prepared.
const BULK_CALLERS: usize = 2;
/// Number of jobs that the worker runs at a time.
const CONCURRENCY: u32 = 500;

/// The job. Its JSON is exactly that of the payload.
#[derive(Job, Serialize, Deserialize)]
#[serde(transparent)]
struct Mail {
    payload: Payload,
}

async fn mail(job: Mail, Data(seen): Data<Seen>) -> Result<(), Stop> {
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
                "client and worker by default, but {CONCURRENCY} jobs at a time; concurrent enqueues of \
                 one client are coalesced; bulk: {BULK_CALLERS} callers of {BULK}"
            ),
            bulk: BULK,
            bulk_callers: BULK_CALLERS,
        }
    }

    async fn enqueue(&self, payload: Payload) -> Result<()> {
        self.client.enqueue(Mail { payload }).await?;
        Ok(())
    }

    async fn enqueue_many(&self, payloads: Vec<Payload>) -> Result<()> {
        let jobs = payloads.into_iter().map(|payload| Mail { payload });
        self.client.enqueue_all(jobs).await.into_iter().try_for_each(|answer| answer.map(drop))?;
        Ok(())
    }

    async fn work(&self, seen: Seen) -> Result<()> {
        let worker = self.client.worker().handle(mail).data(seen).concurrency(CONCURRENCY);
        // The worker runs until the process ends.
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
