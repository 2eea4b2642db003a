//! A transaction that an application leaves open blocks only an enqueue of the same key, which fails with `busy` in
//! time.

use crate::common::{OwnSchema, application, open, url};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::{Instant, timeout};
use windlass_core::engine::*;
use windlass_core::model::NewJob;
use windlass_core::policy::Unique;
use windlass_layers::Coalesce;
use windlass_postgres::{Options, PostgresEngine};

/// How long an enqueue waits for a key in these tests.
const LOCK_TIMEOUT_MS: u64 = 300;
/// As the function `enqueue` does, of the schema as we make it.
const SQL_LOCK_TIMEOUT: Duration = Duration::from_secs(2);
/// Longer than anything here should take.
const LONG: Duration = Duration::from_secs(20);

async fn hurried(schema: &OwnSchema) -> PostgresEngine {
    let options = Options::new(url())
        .schema(&schema.name)
        .lock_timeout(Duration::from_millis(LOCK_TIMEOUT_MS));
    PostgresEngine::connect(options).await.expect("connects")
}

fn unique(key: &str) -> NewJob {
    NewJob::new("mail").unique(Unique::by(key))
}

/// The code of the error that an enqueue of one job is answered with, and how long that took.
async fn refusal(engine: &dyn Engine, job: NewJob) -> (&'static str, Duration) {
    let start = Instant::now();
    let answer = timeout(LONG, engine.enqueue(Enqueue::each([job]))).await.expect("in time");
    let error = answer.expect("answers").value.remove(0).expect_err("it is held");
    assert!(error.to_string().contains("a unique key"), "{error}");
    (error.code(), start.elapsed())
}

#[tokio::test]
async fn an_enqueue_of_the_same_unique_key_is_busy_and_takes_it_when_it_is_free() {
    let schema = OwnSchema::new();
    let (engine, mut client) = (hurried(&schema).await, application().await);
    let transaction = client.transaction().await.unwrap();
    engine.enqueue_in(&transaction, Enqueue::each([unique("u")])).await.unwrap();

    let (code, waited) = refusal(&engine, unique("u")).await;
    assert_eq!(code, "busy");
    assert!(waited >= Duration::from_millis(LOCK_TIMEOUT_MS), "{waited:?}");
    // As a whole, where it is all or nothing.
    let all = Enqueue::all_or_nothing([NewJob::new("mail"), unique("u")]);
    assert_eq!(engine.enqueue(all).await.unwrap_err().code(), "busy");

    transaction.rollback().await.unwrap();
    let added = engine.enqueue(Enqueue::each([unique("u")])).await.unwrap().value.remove(0);
    assert_eq!(added.unwrap().disposition, Disposition::Created);
    let lanes = engine.stats(StatsRequest::default()).await.unwrap().value;
    assert_eq!(lanes[0].available, 1, "nothing of what was busy is there");
}

#[tokio::test]
async fn in_an_application_s_transaction_it_is_busy_too_and_the_transaction_continues() {
    let schema = OwnSchema::new();
    let (engine, mut one, mut other) =
        (hurried(&schema).await, application().await, application().await);
    let holds = one.transaction().await.unwrap();
    engine.enqueue_in(&holds, Enqueue::each([unique("u")])).await.unwrap();

    let theirs = other.transaction().await.unwrap();
    theirs.batch_execute("SET LOCAL lock_timeout = '7s'").await.unwrap();
    let refused = engine.enqueue_in(&theirs, Enqueue::each([NewJob::new("mail"), unique("u")]));
    let refused = timeout(LONG, refused).await.expect("in time").unwrap_err();
    assert_eq!(refused.code(), "busy", "{refused}");
    engine.enqueue_in(&theirs, Enqueue::each([unique("v")])).await.unwrap();
    let waits = theirs.query_one("SHOW lock_timeout", &[]).await.unwrap();
    assert_eq!(waits.get::<_, &str>(0), "7s", "the application's own setting is as it was");
    theirs.commit().await.unwrap();
    holds.rollback().await.unwrap();
    let lanes = engine.stats(StatsRequest::default()).await.unwrap().value;
    assert_eq!(lanes[0].available, 1, "of the refused call nothing is there");
}

#[tokio::test]
async fn in_plain_sql_it_is_lock_not_available() {
    let schema = OwnSchema::new();
    let (_engine, mut one, mut other) =
        (open(&schema).await, application().await, application().await);
    let sql = |key| format!("SELECT \"{}\".enqueue('mail', unique_key => '{key}')", schema.name);
    // The lane is there already: its first job is another matter.
    one.query_one(&sql("first"), &[]).await.unwrap();
    let holds = one.transaction().await.unwrap();
    holds.query_one(&sql("u"), &[]).await.unwrap();

    let start = Instant::now();
    let refused = timeout(LONG, other.query_one(&sql("u"), &[])).await.expect("in time");
    let refused = refused.unwrap_err();
    assert_eq!(refused.code().expect("a code").code(), "55P03", "{refused}");
    assert!(start.elapsed() >= SQL_LOCK_TIMEOUT, "{:?}", start.elapsed());
    // A shorter timeout of the application is kept.
    let hasty = other.transaction().await.unwrap();
    hasty.batch_execute("SET LOCAL lock_timeout = '100ms'").await.unwrap();
    hasty.query_one(&sql("v"), &[]).await.unwrap();
    let waits = hasty.query_one("SHOW lock_timeout", &[]).await.unwrap();
    assert_eq!(waits.get::<_, &str>(0), "100ms");
    let start = Instant::now();
    assert!(hasty.query_one(&sql("u"), &[]).await.is_err());
    assert!(start.elapsed() < SQL_LOCK_TIMEOUT, "{:?}", start.elapsed());
    hasty.rollback().await.unwrap();
    holds.rollback().await.unwrap();
}

#[tokio::test]
async fn of_a_batch_only_the_job_whose_key_is_held_is_busy() {
    let schema = OwnSchema::new();
    let (engine, mut client) = (hurried(&schema).await, application().await);
    let transaction = client.transaction().await.unwrap();
    engine.enqueue_in(&transaction, Enqueue::each([unique("7")])).await.unwrap();
    let jobs = (0..20).map(|n| unique(&n.to_string()));
    let answers = engine.enqueue(Enqueue::each(jobs)).await.unwrap().value;
    for (n, answer) in answers.iter().enumerate() {
        match n {
            7 => assert_eq!(answer.as_ref().unwrap_err().code(), "busy"),
            _ => assert_eq!(answer.as_ref().unwrap().disposition, Disposition::Created),
        }
    }
    transaction.rollback().await.unwrap();
    assert_eq!(engine.check(false).await.unwrap().value.findings, []);
}

#[tokio::test]
async fn many_enqueues_of_a_held_key_block_no_other_jobs() {
    let schema = OwnSchema::new();
    let (engine, mut client) = (open(&schema).await, application().await);
    let transaction = client.transaction().await.unwrap();
    engine.enqueue_in(&transaction, Enqueue::each([unique("u")])).await.unwrap();
    let together = Arc::new(Coalesce::new(Arc::new(engine.clone())));
    let mut waiting = tokio::task::JoinSet::new();
    for n in 0..16 {
        let (engine, together) = (engine.clone(), Arc::clone(&together));
        waiting.spawn(async move {
            match n % 2 {
                0 => refusal(&engine, unique("u")).await,
                _ => refusal(&*together, unique("u")).await,
            }
        });
    }
    // More often than there are connections, one after the other, and none of those is done meanwhile.
    let session = engine.open_session(OpenSession::new("w")).await.unwrap().value.id;
    for claim_no in 1..=8 {
        let added = together.enqueue(Enqueue::each([NewJob::new("mail")])).await.unwrap().value;
        added[0].as_ref().unwrap();
        let by = Claimant::Session { session: session.clone(), claim_no };
        let job = engine.claim(Claim::new(by, "default", 1)).await.unwrap().value.jobs.remove(0);
        let item = SettleItem::new(job.header.id, job.lease, Outcome::DONE);
        engine.settle(Settle::new([item])).await.unwrap().value.items[0].as_ref().unwrap();
    }
    assert!(waiting.try_join_next().is_none(), "all of this took longer than a lock timeout");
    waiting.abort_all();
    transaction.rollback().await.unwrap();
}

#[tokio::test]
async fn an_enqueue_answered_with_the_existing_job_does_not_block_it() {
    let schema = OwnSchema::new();
    let (engine, mut one, mut other) =
        (hurried(&schema).await, application().await, application().await);
    engine.enqueue(Enqueue::each([unique("u")])).await.unwrap();
    let (ours, theirs) = (one.transaction().await.unwrap(), other.transaction().await.unwrap());
    // Among jobs that are stored, and by all ways.
    let jobs = [NewJob::new("mail"), unique("u"), unique("v"), unique("v")];
    let answers = engine.enqueue_in(&ours, Enqueue::each(jobs)).await.unwrap().value;
    let answers: Vec<Enqueued> = answers.into_iter().map(Result::unwrap).collect();
    let [created, existing] = [Disposition::Created, Disposition::Existing];
    let reported: Vec<_> = answers.iter().map(|answer| answer.disposition).collect();
    assert_eq!(reported, [created, existing, created, existing]);
    assert_eq!(answers[2].id, answers[3].id, "the one that is stored is the one that was named");
    let sql = format!("SELECT \"{}\".enqueue('mail', unique_key => 'u')", schema.name);
    let held: uuid::Uuid = theirs.query_one(&sql, &[]).await.unwrap().get(0);
    assert_eq!(held, answers[1].id.as_uuid());

    let session = engine.open_session(OpenSession::new("w")).await.unwrap().value.id;
    let by = Claimant::Session { session, claim_no: 1 };
    let job = engine.claim(Claim::new(by, "default", 1)).await.unwrap().value.jobs.remove(0);
    let item = SettleItem::new(job.header.id, job.lease, Outcome::DONE);
    let settled = timeout(LONG, engine.settle(Settle::new([item]))).await.expect("in time");
    settled.unwrap().value.items[0].as_ref().unwrap();
    ours.commit().await.unwrap();
    theirs.commit().await.unwrap();
    let found = engine.get(Get::new(answers.iter().map(|it| it.id))).await.unwrap().value;
    assert!(found.iter().all(Option::is_some));
    assert_eq!(engine.check(false).await.unwrap().value.findings, []);
}
