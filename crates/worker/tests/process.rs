//! Whole processes: killed, and signalled to stop once or twice. The child is this test binary, run again.
#![cfg(unix)]
#![allow(clippy::unwrap_used, reason = "unwrapping is how a test says that this must hold")]

mod support;

use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;
use support::{enqueue_all, get, maintain, worker};
use windlass_core::engine::{Engine, Work};
use windlass_core::model::{AttemptEnd, NewJob, State as JobState};
use windlass_local::{LocalEngine, Options};
use windlass_worker::{Ctx, Raw, Stop};

const DIR: &str = "WINDLASS_TEST_CHILD_DIR";

fn open(dir: &Path) -> Arc<dyn Engine> {
    Arc::new(LocalEngine::open(Options::new(dir)).unwrap())
}

/// Hangs at its first attempt and completes at the next one.
async fn second_time(_: Raw, ctx: Ctx) -> Result<u32, Stop> {
    if ctx.attempt() == 1 {
        println!("started {}", ctx.id());
        std::future::pending::<()>().await;
    }
    Ok(ctx.attempt())
}

/// Not a test of its own: what the child process does.
#[tokio::test]
async fn child() {
    let Some(dir) = std::env::var_os(DIR).map(PathBuf::from) else { return };
    let engine = open(&dir);
    enqueue_all(&engine, (0..3).map(|_| NewJob::new("job"))).await;
    let worker =
        worker(&engine).handle_kind("job", second_time).stop_grace(Duration::from_millis(50));
    let grace = if dir.ends_with("patient") { 600_000 } else { 100 };
    let worker = worker.grace(Duration::from_millis(grace)).build().unwrap();
    let stopped = worker.run_until_signal().await.unwrap();
    println!("stopped abandoned={} undelivered={}", stopped.abandoned, stopped.undelivered);
}

struct Running {
    child: Child,
    lines: std::io::Lines<BufReader<std::process::ChildStdout>>,
}

impl Running {
    /// Starts a child on a directory and waits until its three jobs run.
    fn start(dir: &Path) -> Self {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["child", "--exact", "--nocapture"])
            .env(DIR, dir)
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let mut running = Self { child, lines };
        for _ in 0..3 {
            running.line("started");
        }
        running
    }

    /// The next line of the child that starts like this.
    fn line(&mut self, start: &str) -> String {
        let found = self.lines.by_ref().map(Result::unwrap).find(|line| line.contains(start));
        found.unwrap_or_else(|| panic!("the child ended without saying {start:?}"))
    }

    fn signal(&self, name: &str) {
        let id = self.child.id().to_string();
        let sent = Command::new("kill").args(["-s", name, &id]).status().unwrap();
        assert!(sent.success());
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // No process is left running, whether or not the test failed.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

async fn job_ids(engine: &Arc<dyn Engine>) -> Vec<windlass_core::JobId> {
    let list = windlass_core::engine::List::new(windlass_core::engine::Filter::default());
    let rows = engine.list(list).await.unwrap().value.rows;
    rows.iter().map(|job| job.header.id).collect()
}

#[tokio::test]
async fn jobs_of_a_killed_process_count_a_crash_and_are_completed_by_another_worker() {
    let dir = tempfile::tempdir().unwrap();
    let mut running = Running::start(dir.path());
    running.child.kill().unwrap();
    running.child.wait().unwrap();

    let engine = open(dir.path());
    let ids = job_ids(&engine).await;
    assert_eq!(ids.len(), 3);
    let second = worker(&engine).handle_kind("job", second_time).build().unwrap().start();
    for id in ids {
        let job = support::eventually("the second attempt", || async {
            // The work of the services.
            maintain(&engine, Work::Reclaim).await;
            maintain(&engine, Work::Promote).await;
            let job = get(&engine, id).await;
            (job.state == JobState::Completed).then_some(job)
        })
        .await;
        assert_eq!(job.result.unwrap().bytes, "2");
        let ends: Vec<_> = job.history.iter().map(|attempt| attempt.end).collect();
        assert_eq!(ends, [AttemptEnd::Lost, AttemptEnd::Complete]);
    }
    second.drain().await;
}

#[tokio::test]
async fn a_terminated_process_drains_and_gives_back_what_does_not_finish() {
    let dir = tempfile::tempdir().unwrap();
    let mut running = Running::start(dir.path());
    running.signal("TERM");
    assert!(running.line("stopped").ends_with("stopped abandoned=0 undelivered=0"));
    assert!(running.child.wait().unwrap().success());
    let engine = open(dir.path());
    for id in job_ids(&engine).await {
        let job = get(&engine, id).await;
        assert_eq!((job.state, job.header.counters.crashes), (JobState::Available, 0));
    }
}

#[tokio::test]
async fn a_second_signal_ends_the_process_at_once() {
    let dir = tempfile::tempdir().unwrap();
    let patient = dir.path().join("patient");
    let mut running = Running::start(&patient);
    running.signal("INT");
    // The handlers would be waited for ten minutes; they hang.
    tokio::time::sleep(Duration::from_millis(200)).await;
    assert!(running.child.try_wait().unwrap().is_none(), "one signal lets handlers finish");
    let start = tokio::time::Instant::now();
    running.signal("INT");
    assert!(running.line("stopped").ends_with("stopped abandoned=3 undelivered=0"));
    running.child.wait().unwrap();
    assert!(start.elapsed() < Duration::from_secs(10));
    let engine = open(&patient);
    for id in job_ids(&engine).await {
        assert_eq!(get(&engine, id).await.state, JobState::Running, "until it is reclaimed");
    }
}
