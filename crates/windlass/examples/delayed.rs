//! Jobs that run later: after a while, at an instant, or sooner than planned.

use serde::{Deserialize, Serialize};
use std::time::Duration;
use windlass::{Job, State};

#[derive(Job, Serialize, Deserialize)]
struct Remind {
    what: String,
}

fn remind(what: &str) -> Remind {
    Remind { what: what.to_owned() }
}

async fn handle(job: Remind) {
    println!("{}", job.what);
}

#[tokio::main]
async fn main() -> windlass::Result<()> {
    let client = windlass::connect("memory:").await?;
    let worker = client.worker().handle(handle).build()?.start();

    // The store's clock decides, so that it does not matter what time it is here.
    let later = client.job(remind("tea is ready")).delay(Duration::from_millis(500)).await?;
    assert_eq!(later.state, Some(State::Scheduled));
    let now = client.enqueue(&remind("put the kettle on")).await?;

    // Or at an instant; one in the past is now.
    let tomorrow = client.engine().health().await?.now.plus(24 * 3_600_000);
    let planned = client.job(remind("wash the cups")).run_at(tomorrow).await?;

    client.wait(now.id).await?;
    client.wait(later.id).await?;
    // One customer cannot wait until tomorrow.
    client.promote(planned.id).await?;
    client.wait(planned.id).await?;

    worker.drain().await;
    Ok(())
}
