//! Failures: retried with backoff, dead when no attempts are left, and replayed once the cause is fixed.

use serde::{Deserialize, Serialize};
use std::time::Duration;
use windlass::{Ctx, Job, State, Stop};

#[derive(Job, Serialize, Deserialize)]
#[job(max_attempts = 2, backoff = "fixed(100ms, jitter 0ms)")]
struct Deliver {
    to: String,
}

async fn deliver(job: Deliver, ctx: Ctx) -> Result<(), Stop> {
    println!("attempt {} to reach {}", ctx.attempt(), job.to);
    match job.to.as_str() {
        // Any error is a retry, so `?` does it too; a code groups errors, `after` overrides the backoff.
        "moody" => {
            Err(Stop::retry("mailbox busy").code("smtp_451").after(Duration::from_millis(10)))
        }
        // No attempt will ever help.
        "" => Err(Stop::fatal("no address").code("no_address")),
        _ => Ok(()),
    }
}

#[tokio::main]
async fn main() -> windlass::Result<()> {
    let client = windlass::connect("memory:").await?;
    let worker = client.worker().handle(deliver).build()?.start();

    for to in ["moody", ""] {
        let job = client.enqueue(Deliver { to: to.into() }).await?;
        assert_eq!(job.ended().await?.state(), State::Dead);
    }

    // Dead jobs wait for an operator.
    let dead = client.jobs().in_state(State::Dead).page().await?.rows;
    for job in dead {
        let error = job.error.map(|error| error.code).unwrap_or_default();
        println!("dead after {} failures: {error}", job.header.counters.failures);
        client.replay(job.header.id).payload(&Deliver { to: "ada".into() }).await?;
        assert!(client.wait(job.header.id).await?.is_completed());
    }

    worker.drain().await;
    Ok(())
}
