//! Private servers on loopback, for tests that stop, kill, restrict or promote one.

#![allow(dead_code, reason = "each test uses its part")]

use std::net::TcpListener;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;
use windlass_core::engine::*;
use windlass_core::model::NewJob;
use windlass_redis::{Options, RedisEngine};

/// A private server; dropping it kills it.
pub(crate) struct Server {
    child: Child,
    pub(crate) port: u16,
}

impl Server {
    pub(crate) fn start(dir: &Path, port: u16, settings: &[&str]) -> Self {
        let mut server = Command::new("redis-server");
        server.args(["--bind", "127.0.0.1", "--port", &port.to_string(), "--save", "", "--dir"]);
        Self::spawn(server.arg(dir).args(settings), port)
    }

    /// A sentinel, whose file it writes itself.
    pub(crate) fn sentinel(file: &Path, port: u16) -> Self {
        Self::spawn(Command::new("redis-server").arg(file).arg("--sentinel"), port)
    }

    fn spawn(command: &mut Command, port: u16) -> Self {
        let child = command.stdout(Stdio::null()).spawn().expect("redis-server starts");
        Self { child, port }
    }

    pub(crate) fn url(&self) -> String {
        format!("redis://127.0.0.1:{}", self.port)
    }

    pub(crate) fn kill(&mut self) {
        self.child.kill().expect("runs");
        self.child.wait().expect("ends");
    }

    /// Sends a signal by name.
    pub(crate) fn signal(&self, name: &str) {
        let pid = self.child.id().to_string();
        let sent = Command::new("kill").args([&format!("-{name}"), &pid]).status();
        assert!(sent.expect("kill runs").success());
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

pub(crate) fn free_port() -> u16 {
    let free = TcpListener::bind(("127.0.0.1", 0)).and_then(|it| it.local_addr());
    free.expect("a free port").port()
}

/// Connects as soon as the server accepts connections.
pub(crate) async fn connect(options: Options) -> windlass_core::Result<RedisEngine> {
    for _ in 0..200 {
        match RedisEngine::connect(options.clone()).await {
            Err(windlass_core::Error::Unavailable { .. }) => {
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
            other => return other,
        }
    }
    RedisEngine::connect(options).await
}

/// Runs a command; retries until the server is up.
pub(crate) async fn command(url: &str, words: &[&str]) -> redis::RedisResult<redis::Value> {
    let client = redis::Client::open(url).expect("a URL");
    let mut conn = client.get_multiplexed_async_connection().await;
    for _ in 0..100 {
        if conn.is_ok() {
            break;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
        conn = client.get_multiplexed_async_connection().await;
    }
    let mut command = redis::cmd(words[0]);
    for word in &words[1..] {
        command.arg(*word);
    }
    command.query_async(&mut conn?).await
}

pub(crate) async fn enqueue(engine: &RedisEngine, jobs: usize) -> windlass_core::Result<usize> {
    let jobs = vec![NewJob::new("k").queue("q"); jobs];
    let stored = engine.enqueue(Enqueue::each(jobs)).await?.value;
    Ok(stored.into_iter().filter(Result::is_ok).count())
}

pub(crate) async fn waiting(engine: &RedisEngine) -> u64 {
    let stats = engine.stats(StatsRequest::default()).await.expect("counts").value;
    stats.iter().map(|lane| lane.available).sum()
}

/// Claims and completes up to `limit` jobs; returns how many.
pub(crate) async fn run_some(engine: &RedisEngine, limit: u32) -> windlass_core::Result<usize> {
    let session = engine.open_session(OpenSession::new("w")).await?.value.id;
    let claim = Claim::new(Claimant::Session { session, claim_no: 1 }, "q", limit);
    let jobs = engine.claim(claim).await?.value.jobs;
    let done =
        jobs.iter().map(|job| SettleItem::new(job.header.id, job.lease.clone(), Outcome::DONE));
    let settled = engine.settle(Settle::new(done)).await?.value.items;
    Ok(settled.into_iter().filter(Result::is_ok).count())
}
