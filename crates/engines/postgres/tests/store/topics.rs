//! Topics in transactions of the application, and by SQL.

use crate::common::{OwnSchema, application, open};
use windlass_core::engine::*;
use windlass_core::model::{NewJob, QueuePatch, State, Subscription};
use windlass_postgres::PostgresEngine;

async fn subscribe(engine: &PostgresEngine) {
    let subscriptions = ["a", "b"].map(|name| Subscription::new(name, format!("t.{name}")));
    let patch = QueuePatch::subscriptions(subscriptions);
    let changed = engine.configure(vec![Configure::queue("t", patch)]).await.expect("configure");
    changed.value.into_iter().for_each(|item| item.expect("the topic"));
}

#[tokio::test]
async fn copies_exist_when_the_transaction_commits_and_never_did_if_it_does_not() {
    let schema = OwnSchema::new();
    let (engine, mut client) = (open(&schema).await, application().await);
    subscribe(&engine).await;
    for commits in [false, true] {
        let transaction = client.transaction().await.unwrap();
        // Of a kind that no lane of these queues has.
        let job = NewJob::new(format!("kind_{commits}")).queue("t");
        let added = engine.enqueue_in(&transaction, Enqueue::each([job])).await.unwrap().value;
        let ids: Vec<_> = added[0].as_ref().unwrap().copies.iter().map(|copy| copy.id).collect();
        assert_eq!(ids.len(), 2);
        match commits {
            true => transaction.commit().await.unwrap(),
            false => transaction.rollback().await.unwrap(),
        }
        let found = engine.get(Get::new(ids)).await.unwrap().value;
        let found: Vec<_> = found.into_iter().flatten().collect();
        let queues: Vec<&str> = found.iter().map(|job| &*job.header.queue).collect();
        assert_eq!(queues, if commits { &["t.a", "t.b"][..] } else { &[] });
        assert!(found.iter().all(|job| job.state == State::Available));
    }
    assert_eq!(engine.check(false).await.unwrap().value.findings, []);
}

#[tokio::test]
async fn the_sql_function_refuses_a_topic_and_stores_nothing() {
    let schema = OwnSchema::new();
    let (engine, client) = (open(&schema).await, application().await);
    subscribe(&engine).await;
    let sql = format!("SELECT {}.enqueue('mail', queue => 't')", schema.name);
    let refused = client.query(&sql, &[]).await.unwrap_err();
    assert_eq!(refused.code().unwrap().code(), "0A000");
    assert!(refused.as_db_error().unwrap().message().contains("is a topic"), "{refused:?}");
    let jobs = engine.list(List::new(Filter::default())).await.unwrap().value.rows;
    assert_eq!(jobs.len(), 0);
}
