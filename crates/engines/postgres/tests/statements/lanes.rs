//! Lanes that are idle: claims pass them by, and nothing that is in them is lost. Limits of lanes and of JSON in SQL.

use crate::common::{OwnSchema, application, open};
use std::time::Duration;
use tokio::time::Instant;
use tokio_postgres::Client;
use windlass_core::engine::*;
use windlass_core::limits::LANES_PER_QUEUE_MAX;
use windlass_core::model::NewJob;
use windlass_postgres::PostgresEngine;

/// Longer than it takes until a claim looks everywhere.
const LONG: Duration = Duration::from_secs(20);

async fn claim_all(engine: &PostgresEngine, session: &SessionId, claim_no: u64) -> Vec<ClaimedJob> {
    let by = Claimant::Session { session: session.clone(), claim_no };
    engine.claim(Claim::new(by, "default", 10)).await.expect("claims").value.jobs
}

async fn is_idle(client: &Client, schema: &OwnSchema, kind: &str) -> bool {
    let sql = format!("SELECT idle FROM \"{}\".lane WHERE kind = $1", schema.name);
    client.query_one(&sql, &[&kind]).await.expect("a lane").get(0)
}

#[tokio::test]
async fn a_job_that_came_into_an_idle_lane_unnoticed_is_found() {
    let schema = OwnSchema::new();
    let (engine, client) = (open(&schema).await, application().await);
    let session = engine.open_session(OpenSession::new("w")).await.unwrap().value.id;
    engine.enqueue(Enqueue::each([NewJob::new("first")])).await.unwrap();
    assert_eq!(claim_all(&engine, &session, 1).await.len(), 1);
    engine.enqueue(Enqueue::each([NewJob::new("seldom")])).await.unwrap();
    // As if its transaction had been open for long.
    let mark = format!("UPDATE \"{}\".lane SET idle = true, used_at = 0", schema.name);
    client.batch_execute(&mark).await.unwrap();

    let (start, mut claim_no) = (Instant::now(), 1);
    let found = loop {
        assert!(start.elapsed() < LONG, "no claim finds it");
        engine.wait(Wait::new(["default"], 5_000)).await.unwrap();
        claim_no += 1;
        let found = claim_all(&engine, &session, claim_no).await;
        if !found.is_empty() {
            break found;
        }
    };
    assert_eq!((found.len(), &*found[0].header.kind), (1, "seldom"));

    engine.enqueue(Enqueue::each([NewJob::new("other")])).await.unwrap();
    client.batch_execute(&mark).await.unwrap();
    engine.maintain(MaintainRequest::new(Work::Compact, 100)).await.unwrap();
    assert!(!is_idle(&client, &schema, "other").await, "it has a job");
    assert!(is_idle(&client, &schema, "first").await, "its only job is running");
}

#[tokio::test]
async fn an_enqueue_into_an_idle_lane_wakes_it() {
    let schema = OwnSchema::new();
    let client = application().await;
    let sql = format!("SELECT \"{}\".enqueue('by_sql')", schema.name);
    let mark = format!("UPDATE \"{}\".lane SET idle = true, used_at = 0", schema.name);
    let first = open(&schema).await;
    first.enqueue(Enqueue::each([NewJob::new("by_engine")])).await.unwrap();
    client.query_one(&sql, &[]).await.unwrap();
    client.batch_execute(&mark).await.unwrap();
    // Another process, which knows nothing of the lanes yet.
    let second = open(&schema).await;
    second.enqueue(Enqueue::each([NewJob::new("by_engine")])).await.unwrap();
    client.query_one(&sql, &[]).await.unwrap();
    for kind in ["by_engine", "by_sql"] {
        assert!(!is_idle(&client, &schema, kind).await, "{kind}");
    }
}

#[tokio::test]
async fn sql_refuses_json_nested_too_deep_and_one_kind_too_many() {
    let schema = OwnSchema::new();
    let (_engine, client) = (open(&schema).await, application().await);
    let name = &schema.name;
    let refused = async |sql: String| {
        let error = client.query(&sql, &[]).await.expect_err("refused");
        error.as_db_error().expect("by the server").message().to_owned()
    };
    let nested = |depth| {
        format!(
            "SELECT \"{name}\".enqueue('k', (repeat('[', {depth}) || repeat(']', {depth}))::jsonb)"
        )
    };
    for depth in [101, 5_000] {
        let reported = refused(nested(depth)).await;
        assert!(reported.contains("payload is nested more than 100 levels"), "{reported}");
    }
    client.query(&nested(100), &[]).await.expect("a hundred levels are fine");
    let many = refused(format!(
        "SELECT \"{name}\".enqueue_many(jsonb_build_array(jsonb_build_object('kind', 'k', 'payload', (repeat('[', 200) || repeat(']', 200))::jsonb)))"
    ));
    assert!(many.await.contains("jobs[0]: payload is nested"));

    let fill = format!(
        "INSERT INTO \"{name}\".lane (queue, kind) SELECT 'default', 'kind' || n FROM generate_series(2, {LANES_PER_QUEUE_MAX}) n"
    );
    client.batch_execute(&fill).await.unwrap();
    let reported = refused(format!("SELECT \"{name}\".enqueue('one_more')")).await;
    assert!(reported.contains("queue default") && reported.contains("10000 kinds"), "{reported}");
    client.query(&format!("SELECT \"{name}\".enqueue('kind2')"), &[]).await.expect("known");
    let other = format!("SELECT \"{name}\".enqueue('one_more', queue => 'other')");
    client.query(&other, &[]).await.expect("another queue has room");
}
