//! Testing code that enqueues and code that handles: no server, no files, no sleeping.

use serde::{Deserialize, Serialize};
use std::time::Duration;
use windlass::testing::TestQueue;
use windlass::worker::Builder;
use windlass::{Client, Ctx, Job, State, Stop};

const DAY: Duration = Duration::from_secs(86_400);

#[derive(Job, Serialize, Deserialize)]
#[job(output = String, max_attempts = 3, backoff = "fixed(1h)")]
struct Remind {
    who: String,
}

/// The code under test: this enqueues …
async fn sign_up(jobs: &Client, who: &str) -> windlass::Result<()> {
    jobs.enqueue(Remind { who: who.into() }).delay(DAY).await?;
    Ok(())
}

/// … and this handles.
async fn remind(job: Remind, ctx: Ctx) -> Result<String, Stop> {
    if job.who == "unknown" {
        return Err(Stop::fatal("unknown user"));
    }
    if ctx.attempt() == 1 {
        return Err(Stop::retry("engaged"));
    }
    Ok(format!("{} was reminded", job.who))
}

/// The application's worker, in production and in tests.
fn worker(jobs: &Client) -> Builder {
    jobs.worker().handle(remind)
}

/// In a project of yours this is a `#[tokio::test]`.
#[tokio::main]
async fn main() -> windlass::Result<()> {
    let queue = TestQueue::new();
    let client = queue.client();
    sign_up(&client, "ada").await?;
    sign_up(&client, "unknown").await?;

    queue.assert_count::<Remind>(2);
    let ada = queue.assert_enqueued::<Remind>(|job| job.who == "ada").header.id;
    assert_eq!(queue.drain(worker(&client)).await.attempts, [], "not before tomorrow");

    queue.advance(DAY);
    let drained = queue.drain(worker(&client)).await;
    let failures: Vec<_> = drained.failures().map(|failure| failure.error()).collect();
    println!("{failures:?}");

    queue.advance(2 * Duration::from_secs(3_600));
    queue.drain(worker(&client)).await.assert_all_completed();
    assert_eq!(queue.job(ada).state, State::Completed);
    println!("{}", client.job::<Remind>(ada).wait().await?);
    Ok(())
}
