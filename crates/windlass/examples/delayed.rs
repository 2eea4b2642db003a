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
    let later = client.enqueue(remind("tea is ready")).delay(Duration::from_millis(500)).await?;
    assert_eq!(later.state().await?, State::Scheduled);
    let now = client.enqueue(remind("put the kettle on")).await?;

    // Or at an instant; one in the past is now.
    let tomorrow = client.engine().health().await?.now + Duration::from_secs(24 * 3_600);
    let planned = client.enqueue(remind("wash the cups")).run_at(tomorrow).await?;

    now.wait().await?;
    later.wait().await?;
    // One customer cannot wait until tomorrow.
    client.promote(planned.id()).await?;
    planned.wait().await?;

    worker.drain().await;
    Ok(())
}
