//! The engine on servers of its own: settings that it refuses, functions that disappear, and a server that is killed.

#[path = "common/server.rs"]
mod server;

use server::{Server, command, connect, enqueue, free_port, waiting};
use std::time::Duration;
use windlass_core::engine::*;
use windlass_redis::Options;

#[tokio::test]
async fn a_server_that_evicts_is_refused_and_durability_is_that_of_the_server() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path(), free_port(), &["--maxmemory-policy", "allkeys-lru"]);
    let refused = connect(Options::new(server.url())).await.unwrap_err();
    assert_eq!(refused.field(), Some("maxmemory_policy"), "{refused}");
    command(&server.url(), &["CONFIG", "SET", "maxmemory-policy", "noeviction"]).await.unwrap();
    for (settings, expected) in [
        (["appendonly", "no"], Durability::Volatile),
        (["appendonly", "yes"], Durability::Relaxed),
        (["appendfsync", "always"], Durability::Host),
    ] {
        command(&server.url(), &["CONFIG", "SET", settings[0], settings[1]]).await.unwrap();
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
    command(&server.url(), &["FUNCTION", "FLUSH"]).await.unwrap();
    assert_eq!(enqueue(&engine, 2).await, Ok(2));
    let scripts = connect(Options::new(server.url()).scripts()).await.unwrap();
    assert_eq!(enqueue(&scripts, 3).await, Ok(3));
    command(&server.url(), &["SCRIPT", "FLUSH"]).await.unwrap();
    assert_eq!(waiting(&scripts).await, 7);
    assert_eq!(scripts.check(false).await.unwrap().value.findings, []);
}

#[tokio::test]
async fn libraries_of_several_versions_share_a_server() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path(), free_port(), &[]);
    let other = "#!lua name=windlass_00000000\nlocal prefix = 'windlass_00000000_'\n\
        redis.register_function(prefix .. 'load', function() return 'other' end)";
    command(&server.url(), &["FUNCTION", "LOAD", other]).await.unwrap();
    let engine = connect(Options::new(server.url())).await.unwrap();
    assert_eq!((enqueue(&engine, 3).await, waiting(&engine).await), (Ok(3), 3));
    let answer = command(&server.url(), &["FCALL", "windlass_00000000_load", "0"]).await.unwrap();
    assert_eq!(redis::from_redis_value::<String>(answer).unwrap(), "other");
}

#[tokio::test]
async fn a_full_server_refuses_new_jobs_and_drains() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path(), free_port(), &[]);
    let engine = connect(Options::new(server.url())).await.unwrap();
    assert_eq!(enqueue(&engine, 100).await, Ok(100));
    let session = engine.open_session(OpenSession::new("w")).await.unwrap().value.id;
    command(&server.url(), &["CONFIG", "SET", "maxmemory", "1mb"]).await.unwrap();
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
