//! The engine on servers of its own: settings that it refuses, functions that disappear, and a server that is killed.

use std::net::TcpListener;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;
use windlass_core::engine::*;
use windlass_core::model::NewJob;
use windlass_redis::{Options, RedisEngine};

/// A private server; dropping it kills it.
struct Server {
    child: Child,
    port: u16,
}

impl Server {
    fn start(dir: &Path, port: u16, settings: &[&str]) -> Self {
        let mut server = Command::new("redis-server");
        server.args(["--bind", "127.0.0.1", "--port", &port.to_string(), "--save", "", "--dir"]);
        let child = server
            .arg(dir)
            .args(settings)
            .stdout(Stdio::null())
            .spawn()
            .expect("redis-server starts");
        Self { child, port }
    }

    fn url(&self) -> String {
        format!("redis://127.0.0.1:{}", self.port)
    }

    fn kill(&mut self) {
        self.child.kill().expect("runs");
        self.child.wait().expect("ends");
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn free_port() -> u16 {
    let free = TcpListener::bind(("127.0.0.1", 0)).and_then(|it| it.local_addr());
    free.expect("a free port").port()
}

/// Connects as soon as the server accepts connections.
async fn connect(options: Options) -> windlass_core::Result<RedisEngine> {
    for _ in 0..100 {
        match RedisEngine::connect(options.clone()).await {
            Err(windlass_core::Error::Unavailable { .. }) => {
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
            other => return other,
        }
    }
    RedisEngine::connect(options).await
}

async fn command(url: &str, words: &[&str]) {
    let client = redis::Client::open(url).expect("a URL");
    let mut conn = client.get_multiplexed_async_connection().await.expect("connects");
    let mut command = redis::cmd(words[0]);
    for word in &words[1..] {
        command.arg(*word);
    }
    let _: redis::Value = command.query_async(&mut conn).await.expect("runs");
}

async fn enqueue(engine: &RedisEngine, jobs: usize) -> windlass_core::Result<usize> {
    let jobs = vec![NewJob::new("k").queue("q"); jobs];
    let stored = engine.enqueue(Enqueue::each(jobs)).await?.value;
    Ok(stored.into_iter().filter(Result::is_ok).count())
}

async fn waiting(engine: &RedisEngine) -> u64 {
    let stats = engine.stats(StatsRequest::default()).await.expect("counts").value;
    stats.iter().map(|lane| lane.available).sum()
}

#[tokio::test]
async fn a_server_that_evicts_is_refused_and_durability_is_that_of_the_server() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path(), free_port(), &["--maxmemory-policy", "allkeys-lru"]);
    let refused = connect(Options::new(server.url())).await.unwrap_err();
    assert_eq!(refused.field(), Some("maxmemory_policy"), "{refused}");
    command(&server.url(), &["CONFIG", "SET", "maxmemory-policy", "noeviction"]).await;
    for (settings, expected) in [
        (["appendonly", "no"], Durability::Volatile),
        (["appendonly", "yes"], Durability::Relaxed),
        (["appendfsync", "always"], Durability::Host),
    ] {
        command(&server.url(), &["CONFIG", "SET", settings[0], settings[1]]).await;
        let engine = connect(Options::new(server.url())).await.unwrap();
        assert_eq!(engine.capabilities().durability, expected, "{settings:?}");
    }
}

#[tokio::test]
async fn functions_that_disappear_are_loaded_again_and_scripts_do_the_same() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path(), free_port(), &[]);
    let engine = connect(Options::new(server.url())).await.unwrap();
    assert_eq!(enqueue(&engine, 2).await, Ok(2));
    command(&server.url(), &["FUNCTION", "FLUSH"]).await;
    assert_eq!(enqueue(&engine, 2).await, Ok(2));
    let scripts = connect(Options::new(server.url()).scripts()).await.unwrap();
    assert_eq!(enqueue(&scripts, 3).await, Ok(3));
    command(&server.url(), &["SCRIPT", "FLUSH"]).await;
    assert_eq!(waiting(&scripts).await, 7);
    assert_eq!(scripts.check(false).await.unwrap().value.findings, []);
}

#[tokio::test]
async fn a_full_server_refuses_new_jobs_and_drains() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path(), free_port(), &[]);
    let engine = connect(Options::new(server.url())).await.unwrap();
    assert_eq!(enqueue(&engine, 100).await, Ok(100));
    let session = engine.open_session(OpenSession::new("w")).await.unwrap().value.id;
    command(&server.url(), &["CONFIG", "SET", "maxmemory", "1mb"]).await;
    assert_eq!(enqueue(&engine, 1).await.unwrap_err().code(), "store_full");
    let claim = Claim::new(Claimant::Session { session, claim_no: 1 }, "q", 200);
    let jobs = engine.claim(claim).await.unwrap().value.jobs;
    assert_eq!(jobs.len(), 100);
    let done = jobs.iter().map(|job| {
        SettleItem::new(job.header.id, job.lease.clone(), Outcome::Complete { result: None })
    });
    let settled = engine.settle(Settle::new(done)).await.unwrap().value.items;
    assert!(settled.iter().all(Result::is_ok));
    assert_eq!(waiting(&engine).await, 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_acknowledged_is_lost_when_a_server_that_always_syncs_is_killed() {
    let dir = tempfile::tempdir().unwrap();
    let settings = ["--appendonly", "yes", "--appendfsync", "always"];
    let mut server = Server::start(dir.path(), free_port(), &settings);
    let engine = connect(Options::new(server.url())).await.unwrap();
    let before = engine.health().await.unwrap().epoch;
    let producers: Vec<_> = (0..4)
        .map(|_| {
            let engine = engine.clone();
            tokio::spawn(async move {
                let mut stored = 0;
                while let Ok(more) = enqueue(&engine, 5).await {
                    stored += more as u64;
                }
                stored
            })
        })
        .collect();
    tokio::time::sleep(Duration::from_millis(700)).await;
    server.kill();
    let mut stored = 0;
    for producer in producers {
        stored += producer.await.unwrap();
    }
    let _server = Server::start(dir.path(), server.port, &settings);
    let found = loop {
        match engine.stats(StatsRequest::default()).await {
            Ok(stats) => break stats,
            Err(_) => tokio::time::sleep(Duration::from_millis(50)).await,
        }
    };
    let kept: u64 = found.value.iter().map(|lane| lane.available).sum();
    // A batch whose reply was lost may be stored.
    assert!(
        stored > 0 && (stored..=stored + 4 * 5).contains(&kept),
        "{stored} stored, {kept} kept"
    );
    assert_ne!(found.epoch, before, "another process serves the store now");
    assert_eq!(engine.check(false).await.unwrap().value.findings, []);
}
