//! Commands as handlers: a program in any language runs each job, in a process of its own, under limits.

use serde_json::json;
use std::time::Duration;
use windlass::job_of;
use windlass::process::{self, Process};

#[tokio::main]
async fn main() -> windlass::Result<()> {
    // First of all: commands are started by this program, run again, which goes no further than here.
    process::enter();

    // The payload is on stdin, what is written to stdout is the result.
    let count = Process::new("wc").arg("-w").memory_max(64 << 20).cpu_max(Duration::from_secs(10));
    // Exit code 65 says that no attempt can succeed, and the end of stderr why.
    let check = Process::shell("grep -q @ || { echo no address >&2; exit 65; }");
    // Out of time, it is ended with everything it has started.
    let hang = Process::shell("sleep 600 & sleep 600");

    let client = windlass::connect("memory:").await?;
    let worker = client
        .worker()
        .handle_process("count", count)
        .handle_process("check", check)
        .handle_process("hang", hang)
        .kind_timeout("hang", Duration::from_millis(200))
        .build()?
        .start();

    let job = client.enqueue(job_of("count")).payload(&json!("four words of text")).await?;
    println!("{} words", job.wait().await?);
    let job = client.enqueue(job_of("check")).payload(&json!("missing")).await?;
    println!("{}", job.ended().await?.error().map_or("fine", |error| &error.message));
    let job = client.enqueue(job_of("hang")).max_attempts(1).await?;
    println!("{}", job.ended().await?.error().map_or("fine", |error| &error.code));
    worker.drain().await;
    Ok(())
}
