//! A long job that reports its progress, and a caller that watches it.

use serde::{Deserialize, Serialize};
use std::time::Duration;
use windlass::{Ctx, Job};

#[derive(Job, Serialize, Deserialize)]
struct Encode {
    frames: u64,
}

async fn encode(job: Encode, ctx: Ctx) {
    for frame in 1..=job.frames {
        tokio::time::sleep(Duration::from_millis(10)).await;
        // As often as you like: the latest goes to the store a few times a second, and at the end.
        ctx.set_progress(frame, Some(job.frames), "encoding");
    }
    ctx.log("all frames encoded");
}

#[tokio::main]
async fn main() -> windlass::Result<()> {
    let client = windlass::connect("memory:").await?;
    let worker = client.worker().handle(encode).build()?.start();

    let encoding = client.enqueue(Encode { frames: 100 }).await?;
    let mut shown = 0;
    loop {
        let job = encoding.get().await?;
        if let Some(progress) = job.progress.filter(|progress| progress.done > shown) {
            shown = progress.done;
            println!("{} {shown} of {}", progress.note, progress.total.unwrap_or_default());
        }
        if job.state.is_terminal() {
            break;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    encoding.get().await?.log.iter().for_each(|line| println!("{}", line.text));

    worker.drain().await;
    Ok(())
}
