//! Roles with timeouts of their own, which are meant for people and applications: ours wait as long as they must.

use crate::bouncer::Bouncer;
use crate::common::database::OwnDatabase;
use std::time::Duration;
use tokio_postgres::Client;
use windlass_core::engine::*;
use windlass_core::model::NewJob;
use windlass_core::policy::Unique;
use windlass_postgres::{Options, PostgresEngine};

/// Shorter than anything that has to wait; the last is known from PostgreSQL 17 on.
const TIMEOUTS: [(&str, &str); 4] = [
    ("statement_timeout", "50ms"),
    ("lock_timeout", "40ms"),
    ("idle_in_transaction_session_timeout", "60ms"),
    ("transaction_timeout", "80ms"),
];
/// Known from PostgreSQL 14 on.
const IDLE: (&str, &str) = ("idle_session_timeout", "70ms");
/// Longer than all of them.
const A_WHILE: Duration = Duration::from_millis(300);
/// Between two reads that must agree before connections count as settled.
const SETTLES: Duration = Duration::from_millis(100);

async fn role() -> OwnDatabase {
    OwnDatabase::with_role(&TIMEOUTS).await
}

/// A connection of the test's own, without any of the timeouts.
async fn patient(database: &OwnDatabase) -> Client {
    let client = database.connect().await;
    let sql = "SELECT set_config(name, '0', false) FROM pg_settings WHERE name LIKE '%\\_timeout'
        AND context = 'user'";
    client.batch_execute(sql).await.expect("is set");
    client
}

/// An enqueue waits for a key that another transaction holds for longer than the role's timeouts, and gets it.
async fn a_key_is_waited_for(url: &str, database: &OwnDatabase) {
    let engine = PostgresEngine::connect(Options::new(url)).await.expect("connects");
    let job = || Enqueue::each([NewJob::new("k").unique(Unique::by("u"))]);
    let mut client = patient(database).await;
    let holder = client.transaction().await.expect("begins");
    engine.enqueue_in(&holder, job()).await.expect("takes the key");
    let waits = engine.clone();
    let waiter = tokio::spawn(async move { waits.enqueue(job()).await });
    tokio::time::sleep(A_WHILE).await;
    assert!(!waiter.is_finished(), "it still waits");
    holder.rollback().await.expect("gives the key back");
    let stored = waiter.await.expect("ends").expect("is stored").value.remove(0);
    assert_eq!(stored.expect("is accepted").disposition, Disposition::Created);
    for work in Work::ALL {
        engine.maintain(MaintainRequest::new(work, 100)).await.expect("maintains");
    }
    assert_eq!(engine.check(false).await.expect("checks").value.findings, []);
}

#[tokio::test]
async fn timeouts_of_a_role_do_not_cancel_waits() {
    let database = role().await;
    a_key_is_waited_for(&database.url(), &database).await;
}

#[tokio::test]
async fn timeouts_of_a_role_do_not_cancel_waits_behind_a_pooler() {
    let database = role().await;
    let bouncer = Bouncer::before(&database.url(), "");
    a_key_is_waited_for(&bouncer.url(), &database).await;
}

#[tokio::test]
async fn connections_outlive_the_idle_timeout_of_a_role() {
    let database = OwnDatabase::with_role(&[IDLE]).await;
    let engine = PostgresEngine::connect(Options::new(database.url())).await.expect("connects");
    engine.enqueue(Enqueue::each([NewJob::new("k")])).await.expect("enqueues");
    let client = patient(&database).await;
    let ours = async || {
        let sql = "SELECT coalesce(array_agg(pid ORDER BY pid), '{}') FROM pg_stat_activity
            WHERE application_name = 'windlass' AND datname = current_database()";
        client.query_one(sql, &[]).await.expect("answers").get::<_, Vec<i32>>(0)
    };
    // Connecting uses a connection of its own, and the listener connects in the background.
    let mut before = Vec::new();
    for _ in 0..100 {
        let seen = ours().await;
        if seen.len() >= 2 && seen == before {
            break;
        }
        before = seen;
        tokio::time::sleep(SETTLES).await;
    }
    assert!(before.len() >= 2, "one works and one listens: {before:?}");
    tokio::time::sleep(A_WHILE).await;
    assert_eq!(ours().await, before);
}
