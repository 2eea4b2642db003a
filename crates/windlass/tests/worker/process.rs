//! Whole processes, killed: their jobs come back with nothing but another worker. The child is this
//! test binary, run again.

use crate::support::*;
use std::io::{BufRead as _, BufReader};
use std::process::{Child, Command, Stdio};
use windlass::model::AttemptEnd;
use windlass::{Ctx, Stop};

const URL: &str = "WINDLASS_TEST_CHILD_URL";
const JOBS: u32 = 5;

/// Hangs at its first attempt.
async fn hang(_: Work, ctx: Ctx) -> Result<u32, Stop> {
    if ctx.attempt() == 1 {
        println!("started {}", ctx.id());
        std::future::pending::<()>().await;
    }
    Ok(ctx.attempt())
}

/// Not a test of its own: what the child process does.
#[tokio::test]
async fn child() {
    let Ok(url) = std::env::var(URL) else { return };
    let client = windlass::connect(url).await.unwrap();
    client.enqueue_all((0..JOBS).map(|number| Work { number })).await;
    client.worker().handle(hang).build().unwrap().run_until_signal().await.unwrap();
}

/// Nothing is left running, whatever the test found out.
struct Killed(Child);

impl Drop for Killed {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[tokio::test]
async fn jobs_of_a_killed_process_are_brought_back_by_the_services_of_the_next_worker() {
    let dir = tempfile::tempdir().unwrap();
    let url = format!("file:{}", dir.path().display());
    let child = Command::new(std::env::current_exe().unwrap())
        .args(["process::child", "--exact", "--nocapture"])
        .env(URL, &url)
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn();
    let mut child = Killed(child.unwrap());
    let lines = BufReader::new(child.0.stdout.take().unwrap()).lines();
    let started = lines.map(Result::unwrap).filter(|line| line.contains("started"));
    assert_eq!(started.take(JOBS as usize).count(), JOBS as usize, "the child ended early");
    child.0.kill().unwrap();
    child.0.wait().unwrap();

    let client = windlass::connect(url).await.unwrap();
    let jobs = client.jobs().page().await.unwrap().rows;
    assert_eq!(jobs.len(), JOBS as usize);
    let worker = client.worker().handle(hang).build().unwrap().start();
    for job in jobs {
        let finished = completes(&client, job.header.id).await;
        assert_eq!(finished.result::<u32>().unwrap(), 2);
        let ends: Vec<_> = finished.job.history.iter().map(|attempt| attempt.end).collect();
        assert_eq!(ends, [AttemptEnd::Lost, AttemptEnd::Complete]);
    }
    worker.drain().await;
}
