//! Damaged indexes are found and repaired.

mod common;

use common::{OwnStore, url};
use windlass_core::engine::*;
use windlass_core::model::NewJob;
use windlass_redis::{Options, RedisEngine};

async fn command(line: &[&[u8]]) -> redis::Value {
    let client = redis::Client::open(url()).expect("a URL");
    let mut conn = client.get_multiplexed_async_connection().await.expect("connects");
    let mut command = redis::cmd(std::str::from_utf8(line[0]).expect("a name"));
    for arg in &line[1..] {
        command.arg(*arg);
    }
    command.query_async(&mut conn).await.expect("runs")
}

#[tokio::test]
async fn a_check_finds_and_repairs_every_kind_of_damage() {
    let store = OwnStore::new();
    let engine = RedisEngine::connect(Options::new(url()).name(&store.name)).await.unwrap();
    let jobs = ["a", "b", "c"].map(|key| NewJob::new("k").queue("q").key(key));
    let stored = engine.enqueue(Enqueue::each(jobs)).await.unwrap().value;
    let ids: Vec<_> = stored.into_iter().map(|item| item.unwrap().id).collect();
    assert_eq!(engine.check(false).await.unwrap().value.findings, []);
    let key = |name: &str| format!("windlass:{{{}}}:{name}", store.name).into_bytes();
    // A ready job is lost, another is listed in a state that it is not in, a key has lost its holder, and an index refers
    // to a job that does not exist.
    command(&[b"DEL", &key("ready:q k")]).await;
    command(&[b"ZADD", &key("paused:q k"), b"0", ids[1].as_bytes()]).await;
    command(&[b"HDEL", &key("holder"), b"q c"]).await;
    command(&[b"ZADD", &key("all:q k"), b"0", &[7; 16]]).await;
    let found = engine.check(false).await.unwrap().value;
    assert_eq!((found.jobs, found.findings.len()), (3, 3 + 1 + 1 + 1), "{:?}", found.findings);
    assert!(found.findings.iter().all(|finding| !finding.repaired));
    let repaired = engine.check(true).await.unwrap().value;
    assert!(repaired.findings.len() == 6 && repaired.findings.iter().all(|it| it.repaired));
    assert_eq!(engine.check(false).await.unwrap().value.findings, []);
    let session = engine.open_session(OpenSession::new("w")).await.unwrap().value.id;
    let claim = Claim::new(Claimant::Session { session, claim_no: 1 }, "q", 10);
    assert_eq!(engine.claim(claim).await.unwrap().value.jobs.len(), 3);
}
