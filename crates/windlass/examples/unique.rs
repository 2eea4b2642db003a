//! At most one job with a key at a time: the second one is answered with the first.

use serde::{Deserialize, Serialize};
use windlass::Job;

#[derive(Job, Serialize, Deserialize)]
struct Welcome {
    user: u32,
}

async fn welcome(job: Welcome) {
    println!("welcome, user {}", job.user);
}

#[tokio::main]
async fn main() -> windlass::Result<()> {
    let client = windlass::connect("memory:").await?;
    let sign_up = |user| client.enqueue(Welcome { user }).unique(format!("welcome:{user}"));

    let first = sign_up(1).await?;
    let again = sign_up(1).await?; // an impatient click
    let other = sign_up(2).await?;
    assert!(first.is_new());
    assert_eq!((again.is_new(), again.id()), (false, first.id()));

    let worker = client.worker().handle(welcome).build()?.start();
    first.wait().await?;
    other.wait().await?;

    // Once a job has ended, its key is free; `unique_for` would hold it for a while.
    let next = sign_up(1).await?;
    assert!(next.is_new());
    next.wait().await?;

    worker.drain().await;
    Ok(())
}
