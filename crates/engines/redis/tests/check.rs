//! Damaged indexes are found and repaired.

mod common;

use common::{OwnStore, url};
use windlass_core::JobId;
use windlass_core::engine::*;
use windlass_core::model::{Limit, NewJob, QueuePatch};
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
    // Claims do not look at the lane any more, and it is not known.
    command(&[b"SREM", &key("open:q"), b"k"]).await;
    command(&[b"SREM", &key("lanes"), b"q k"]).await;
    let found = engine.check(false).await.unwrap().value;
    assert_eq!((found.jobs, found.findings.len()), (3, 3 + 1 + 1 + 1 + 2), "{:?}", found.findings);
    assert!(found.findings.iter().all(|finding| !finding.repaired));
    let repaired = engine.check(true).await.unwrap().value;
    assert!(repaired.findings.len() == 8 && repaired.findings.iter().all(|it| it.repaired));
    assert_eq!(engine.check(false).await.unwrap().value.findings, []);
    let session = engine.open_session(OpenSession::new("w")).await.unwrap().value.id;
    let claim = Claim::new(Claimant::Session { session, claim_no: 1 }, "q", 10);
    assert_eq!(engine.claim(claim).await.unwrap().value.jobs.len(), 3);
}

#[tokio::test]
async fn a_check_repairs_sessions_lines_and_dependencies() {
    let store = OwnStore::new();
    let engine = RedisEngine::connect(Options::new(url()).name(&store.name)).await.unwrap();
    let limit = Configure::limit("l", Limit::max_running(1).by_group());
    let mut listed = QueuePatch::default();
    listed.limits = Some(vec!["l".into()]);
    for item in engine.configure(vec![limit, Configure::queue("q", listed)]).await.unwrap().value {
        item.unwrap();
    }
    let session = engine.open_session(OpenSession::new("w")).await.unwrap().value.id;
    let jobs = [1, 2].map(|_| NewJob::new("k").queue("q").group("g"));
    let first = engine.enqueue(Enqueue::each(jobs)).await.unwrap().value.remove(0).unwrap().id;
    let after = NewJob::new("k").queue("other").after(first);
    let after = engine.enqueue(Enqueue::each([after])).await.unwrap().value.remove(0).unwrap().id;
    assert_eq!(engine.check(false).await.unwrap().value.findings, []);
    let key = |name: &str| format!("windlass:{{{}}}:{name}", store.name).into_bytes();
    let edge = [after.as_bytes().as_slice(), &[0; 4]].concat();
    command(&[b"ZREM", &key("opening:q"), b"k g"]).await;
    command(&[b"ZADD", &key("expiry"), b"1", session.as_str().as_bytes()]).await;
    command(&[b"ZADD", &key("expiry"), b"1", b"gone"]).await;
    command(&[b"ZREM", &key(&format!("edge:{first}")), &edge]).await;
    command(&[b"HSET", &key(&format!("input:{}", JobId::from_bytes([9; 16]))), b"x", b"y"]).await;
    let found = engine.check(false).await.unwrap().value.findings;
    assert_eq!(found.len(), 5, "{found:?}");
    let repaired = engine.check(true).await.unwrap().value.findings;
    assert!(repaired.len() == 5 && repaired.iter().all(|finding| finding.repaired), "{repaired:?}");
    assert_eq!(engine.check(false).await.unwrap().value.findings, []);
    // The repaired edges work: the first job runs and ends, then both dependents run.
    let claim = |queue: &str, claim_no| {
        Claim::new(Claimant::Session { session: session.clone(), claim_no }, queue, 10)
    };
    let one = engine.claim(claim("q", 1)).await.unwrap().value.jobs.remove(0);
    assert_eq!(one.header.id, first);
    let done = SettleItem::new(first, one.lease.clone(), Outcome::Complete { result: None });
    engine.settle(Settle::new([done])).await.unwrap().value.items.remove(0).unwrap();
    assert_eq!(engine.claim(claim("q", 2)).await.unwrap().value.jobs.len(), 1);
    assert_eq!(engine.claim(claim("other", 3)).await.unwrap().value.jobs[0].header.id, after);
}

#[tokio::test]
async fn more_lines_than_one_call_reopens_are_reopened_by_maintenance() {
    const GROUPS: usize = 1_600;
    let store = OwnStore::new();
    let engine = RedisEngine::connect(Options::new(url()).name(&store.name)).await.unwrap();
    let limit = |most| Configure::limit("l", Limit::max_running(most).by_group());
    let mut listed = QueuePatch::default();
    listed.limits = Some(vec!["l".into()]);
    let settings = vec![limit(1), Configure::queue("q", listed)];
    for item in engine.configure(settings).await.unwrap().value {
        item.unwrap();
    }
    // Two jobs of each group: one is ready, the other waits for the first.
    let group = |n: usize| NewJob::new("k").queue("q").group(format!("g{n}"));
    for round in 0..2 {
        for first in (0..GROUPS).step_by(200) {
            let jobs = Enqueue::each((first..first + 200).map(group));
            let stored = engine.enqueue(jobs).await.unwrap().value;
            assert!(stored.iter().all(Result::is_ok), "{round}");
        }
    }
    for item in engine.configure(vec![limit(2)]).await.unwrap().value {
        item.unwrap();
    }
    let blocked = async || {
        let stats = engine.stats(StatsRequest::default()).await.unwrap().value;
        stats.iter().map(|lane| lane.blocked).sum::<u64>()
    };
    let mut steps = 0;
    while blocked().await > 0 {
        engine.maintain(MaintainRequest::new(Work::Promote, 200)).await.unwrap();
        steps += 1;
        assert!(steps < 50, "{} are left", blocked().await);
    }
    assert!(steps > 2, "bounded steps");
    assert_eq!(engine.check(false).await.unwrap().value.findings, []);
}
