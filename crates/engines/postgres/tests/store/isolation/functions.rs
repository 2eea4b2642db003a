//! The SQL functions in a transaction whose snapshot may be out of date.

use crate::common::{OwnSchema, application, open};
use tokio_postgres::Client;
use tokio_postgres::error::SqlState;
use uuid::Uuid;
use windlass_core::engine::*;
use windlass_core::model::NewJob;
use windlass_postgres::PostgresEngine;

/// Every function that truncates, moves or drops, with arguments that it takes.
const FUNCTIONS: [&str; 5] = [
    "rewrite('ready', 100)",
    "begin_survey(1)",
    "empty_partition(2, 0, '{}', 100)",
    "drop_partition(1, 100)",
    "add_partitions('{}', '{}')",
];

#[tokio::test]
async fn maintenance_functions_refuse_any_level_but_read_committed() {
    let schema = OwnSchema::new();
    let engine = open(&schema).await;
    engine.enqueue(Enqueue::each([NewJob::new("k")])).await.expect("enqueues");
    let compact = MaintainRequest::new(Work::Compact, 100);
    engine.maintain(compact).await.expect("makes partitions");
    let client = application().await;
    for function in FUNCTIONS {
        let call = format!("SELECT \"{}\".{function}", schema.name);
        for level in ["REPEATABLE READ", "SERIALIZABLE"] {
            client.batch_execute(&format!("BEGIN ISOLATION LEVEL {level}")).await.expect("begins");
            let refused = client.batch_execute(&call).await.expect_err(function);
            let refused = refused.as_db_error().expect("the server refuses");
            assert_eq!(
                *refused.code(),
                SqlState::INVALID_TRANSACTION_STATE,
                "{function}: {refused}"
            );
            let message = refused.message();
            assert!(message.contains(&level.to_lowercase()), "{function}: {message}");
            assert!(message.contains("READ COMMITTED"), "{function}: {message}");
            client.batch_execute("ROLLBACK").await.expect("ends");
        }
        client.batch_execute(&call).await.unwrap_or_else(|error| panic!("{function}: {error}"));
    }
}

const LEVELS: [&str; 2] = ["REPEATABLE READ", "SERIALIZABLE"];

/// Begins a transaction that has its snapshot.
async fn begin(client: &Client, level: &str) {
    let begin = format!("BEGIN ISOLATION LEVEL {level}; SELECT count(*) FROM pg_class");
    client.batch_execute(&begin).await.expect("begins");
}

/// Claims a job and completes it; which one that was.
async fn complete_one(engine: &PostgresEngine) -> Uuid {
    let session = engine.open_session(OpenSession::new("w")).await.expect("opens").value.id;
    let by = Claimant::Session { session, claim_no: 1 };
    let claimed = engine.claim(Claim::new(by, "default", 1)).await.expect("claims").value.jobs;
    let [job] = claimed.as_slice() else { panic!("one job is ready: {claimed:?}") };
    let done = SettleItem::new(job.header.id, job.lease.clone(), Outcome::DONE);
    let settled = engine.settle(Settle::new([done])).await.expect("settles").value;
    assert!(settled.items.iter().all(Result::is_ok), "{settled:?}");
    job.header.id.as_uuid()
}

#[tokio::test]
async fn an_application_may_enqueue_at_any_level_beside_a_rewrite() {
    let schema = OwnSchema::new();
    let (engine, client) = (open(&schema).await, application().await);
    let enqueue = format!("SELECT \"{}\".enqueue('k')", schema.name);
    client.query_one(&enqueue, &[]).await.expect("enqueues");
    for level in LEVELS {
        begin(&client, level).await;
        let other = application().await;
        let rewrite = format!("SELECT \"{}\".rewrite('ready', 100)", schema.name);
        other.batch_execute(&rewrite).await.expect("rewrites");
        client.query_one(&enqueue, &[]).await.expect("enqueues");
        client.batch_execute("COMMIT").await.expect("commits");
    }
    for _ in 0..=LEVELS.len() {
        complete_one(&engine).await;
    }
    assert_eq!(engine.check(false).await.expect("checks").value.findings, []);
}

#[tokio::test]
async fn a_snapshot_does_not_take_a_job_that_has_ended_for_the_holder_of_its_key() {
    let schema = OwnSchema::new();
    let (engine, client) = (open(&schema).await, application().await);
    let enqueue = format!("SELECT \"{}\".enqueue('k', unique_key => 'u')", schema.name);
    for level in LEVELS {
        let held: Uuid = client.query_one(&enqueue, &[]).await.expect("enqueues").get(0);
        begin(&client, level).await;
        let found: Uuid = client.query_one(&enqueue, &[]).await.expect("a row").get(0);
        assert_eq!(found, held, "it holds the key");
        assert_eq!(complete_one(&engine).await, held, "and can end meanwhile");
        let error = client.query_one(&enqueue, &[]).await.expect_err("its key is free by now");
        assert_eq!(error.code(), Some(&SqlState::T_R_SERIALIZATION_FAILURE), "{error}");
        client.batch_execute("ROLLBACK").await.expect("ends");
        // The repeated transaction gets its own job.
        begin(&client, level).await;
        let own: Uuid = client.query_one(&enqueue, &[]).await.expect("enqueues").get(0);
        client.batch_execute("COMMIT").await.expect("commits");
        assert_eq!(complete_one(&engine).await, own);
    }
}
