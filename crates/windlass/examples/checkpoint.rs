//! A long job that goes on where its last attempt got to.

use serde::{Deserialize, Serialize};
use windlass::{Ctx, Job, Stop};

#[derive(Job, Serialize, Deserialize)]
#[job(output = u32, backoff = "fixed(10ms, jitter 0ms)")]
struct Import {
    rows: u32,
}

async fn import(job: Import, ctx: Ctx) -> Result<u32, Stop> {
    let first: u32 = ctx.checkpoint().await?.unwrap_or(0);
    println!("attempt {} begins at row {first}", ctx.attempt());
    for row in first..job.rows {
        if row == 500 && ctx.attempt() == 1 {
            return Err(Stop::retry("the other side hung up"));
        }
        if row % 100 == 0 {
            // Durable when it returns: an attempt after a crash, on whatever machine, finds it.
            ctx.save_checkpoint(&row).await?;
        }
    }
    Ok(job.rows - first)
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let dir = tempfile::tempdir()?;
    let client = windlass::connect(format!("file:{}", dir.path().display())).await?;
    let worker = client.worker().handle(import).build()?.start();

    let job = client.enqueue(Import { rows: 1_000 }).await?;
    println!("the last attempt imported {} rows", job.wait().await?);

    worker.drain().await;
    Ok(())
}
