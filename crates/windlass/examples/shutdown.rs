//! Graceful shutdown: short jobs finish, long ones are released, and no job is lost or counted as failed.
//!
//! A real worker ends with `worker.run_until_signal().await`, which does on ctrl-c and SIGTERM what
//! `drain` does here.

use serde::{Deserialize, Serialize};
use std::time::Duration;
use tokio::sync::mpsc;
use windlass::{Client, Ctx, Data, Job, Stop, WorkerHandle};

#[derive(Job, Serialize, Deserialize)]
struct Short;

#[derive(Job, Serialize, Deserialize)]
struct Long;

type Started = mpsc::Sender<()>;

async fn short(_: Short, Data(started): Data<Started>) -> Result<(), Stop> {
    started.send(()).await?;
    tokio::time::sleep(Duration::from_millis(100)).await;
    println!("the short job has finished");
    Ok(())
}

async fn long(_: Long, Data(started): Data<Started>, ctx: Ctx) -> Result<(), Stop> {
    if ctx.attempt() == 1 {
        started.send(()).await?;
        ctx.draining().await;
        ctx.save_checkpoint(&"half way").await?;
        println!("the long job is released");
        return Err(Stop::release());
    }
    let checkpoint: Option<String> = ctx.checkpoint().await?;
    println!("the long job goes on: {}", checkpoint.unwrap_or_default());
    Ok(())
}

fn start(client: &Client, started: &Started) -> windlass::Result<WorkerHandle> {
    // Handlers that have not ended after the grace period are stopped, and their jobs released.
    let worker = client.worker().handle(short).handle(long).grace(Duration::from_secs(10));
    Ok(worker.data(started.clone()).build()?.start())
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let dir = tempfile::tempdir()?;
    let client = windlass::connect(format!("file:{}", dir.path().display())).await?;
    let (started, mut starts) = mpsc::channel::<()>(2);
    let worker = start(&client, &started)?;
    let (one, other) = (client.enqueue(Short).await?, client.enqueue(Long).await?);
    starts.recv().await;
    starts.recv().await;

    let stopped = worker.drain().await;
    println!("drained, {} results undelivered", stopped.undelivered);
    one.wait().await?;

    let next = start(&client, &started)?;
    let job = other.ended().await?.job;
    println!("{} failures", job.header.counters.failures);
    next.drain().await;
    Ok(())
}
