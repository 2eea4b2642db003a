//! Claims take their locks in one order, so that they never wait for each other in a circle.

use crate::common::database::OwnDatabase;
use std::sync::Arc;
use std::time::Duration;
use tokio_postgres::Client;
use windlass_core::engine::*;
use windlass_core::model::{Limit, NewJob, QueuePatch};
use windlass_postgres::{Options, PostgresEngine};

/// Longer than the lock timeout of the engine's connections: a circle is not resolved by the server, but fails a claim.
const NO_DETECTION: (&str, &str) = ("deadlock_timeout", "60s");
const WAITING: &str = "SELECT count(*) FROM pg_stat_activity
    WHERE datname = current_database() AND wait_event_type = 'Lock'";

/// Returns when `count` transactions of this database wait for a lock.
async fn until_waiting(watch: &Client, count: i64) {
    for _ in 0..2_000 {
        if watch.query_one(WAITING, &[]).await.expect("answers").get::<_, i64>(0) >= count {
            return;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    panic!("{count} transactions never waited for a lock");
}

#[tokio::test]
async fn claims_of_one_session_on_both_paths_do_not_wait_for_each_other_under_a_limit() {
    let database = OwnDatabase::with(&[NO_DETECTION]).await;
    let (mut application, watch) = (database.connect().await, database.connect().await);
    let engine = PostgresEngine::connect(Options::new(database.url())).await.unwrap();
    let engine = Arc::new(engine);
    let settings = [
        Configure::limit("share", Limit::max_running(9)),
        Configure::queue("limited", QueuePatch::limits(["share"])),
    ];
    for done in engine.configure(settings.into()).await.unwrap().value {
        done.unwrap();
    }
    let jobs = (0..9).map(|_| NewJob::new("charge").queue("limited"));
    engine.enqueue(Enqueue::each(jobs)).await.unwrap();
    let session = engine.open_session(OpenSession::new("w")).await.unwrap().value.id;
    let claim = |claim_no, queues: &[&str]| {
        let by = Claimant::Session { session: session.clone(), claim_no };
        let mut claim = Claim::new(by, "limited", 1);
        claim.queues.extend(
            queues.iter().map(|queue| QueueWant { queue: (*queue).into(), limit: u32::MAX }),
        );
        let engine = Arc::clone(&engine);
        tokio::spawn(async move { engine.claim(claim).await.map(|it| it.value.jobs.len()) })
    };
    // Until the engine has learnt that the queue is under a limit, claims take the slow path.
    for claim_no in 1..=3 {
        assert_eq!(claim(claim_no, &[]).await.unwrap().unwrap(), 1);
    }

    let held = application.transaction().await.unwrap();
    held.query("SELECT FROM windlass.meter WHERE name = 'share' FOR UPDATE", &[]).await.unwrap();
    let fast = claim(4, &[]);
    until_waiting(&watch, 1).await;
    // Claims from two queues take the slow path.
    let slow = claim(5, &["other"]);
    until_waiting(&watch, 2).await;
    held.rollback().await.unwrap();
    assert_eq!(fast.await.unwrap().unwrap(), 1);
    assert_eq!(slow.await.unwrap().unwrap(), 1);
}
