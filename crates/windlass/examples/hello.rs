//! A job, a worker, a result.

use serde::{Deserialize, Serialize};
use windlass::{Job, Stop};

#[derive(Job, Serialize, Deserialize)]
#[job(output = String)]
struct Greet {
    name: String,
}

async fn greet(job: Greet) -> Result<String, Stop> {
    Ok(format!("hello, {}", job.name))
}

#[tokio::main]
async fn main() -> windlass::Result<()> {
    let client = windlass::connect("memory:").await?; // durable: "file:./jobs"
    let worker = client.worker().handle(greet).build()?.start();

    let job = client.enqueue(Greet { name: "Ada".into() }).await?;
    println!("{}", job.wait().await?); // what the handler returned

    worker.drain().await;
    Ok(())
}
