//! Jobs enqueued within a transaction of the application.

use crate::common::listener::Listener;
use crate::common::{OwnSchema, application, open};
use windlass_core::engine::*;
use windlass_core::model::{Due, NewJob, State};
use windlass_core::policy::{OnConflict, Unique};
use windlass_postgres::PostgresEngine;

/// Longer than anything here should take.
const LONG_MS: u64 = 20_000;

async fn available(engine: &PostgresEngine) -> u64 {
    let lanes = engine.stats(StatsRequest::default()).await.expect("stats").value;
    lanes.iter().map(|lane| lane.available).sum()
}

async fn claim_one(engine: &PostgresEngine) -> Option<ClaimedJob> {
    let session = engine.open_session(OpenSession::new("w")).await.expect("opens").value.id;
    let by = Claimant::Session { session, claim_no: 1 };
    engine.claim(Claim::new(by, "default", 1)).await.expect("claims").value.jobs.pop()
}

#[tokio::test]
async fn a_job_is_there_when_the_transaction_commits_and_never_was_if_it_does_not() {
    let schema = OwnSchema::new();
    let (engine, mut client) = (open(&schema).await, application().await);
    for commits in [false, true] {
        let transaction = client.transaction().await.unwrap();
        let jobs = [NewJob::new("mail").json("{}"), NewJob::new("later").due(Due::After(60_000))];
        let added = engine.enqueue_in(&transaction, Enqueue::each(jobs)).await.unwrap().value;
        let ids: Vec<_> = added.into_iter().map(|item| item.unwrap().id).collect();
        assert_eq!(engine.get(Get::new(ids.clone())).await.unwrap().value, [None, None]);
        match commits {
            true => transaction.commit().await.unwrap(),
            false => transaction.rollback().await.unwrap(),
        }
        let found = engine.get(Get::new(ids)).await.unwrap().value;
        let states: Vec<_> = found.into_iter().flatten().map(|job| job.state).collect();
        let expected = [State::Available, State::Scheduled];
        assert_eq!(states, if commits { &expected[..] } else { &[] });
    }
    assert_eq!(engine.check(false).await.unwrap().value.findings, []);
}

#[tokio::test]
async fn an_open_transaction_blocks_no_other_jobs() {
    let schema = OwnSchema::new();
    let (engine, mut client) = (open(&schema).await, application().await);
    let transaction = client.transaction().await.unwrap();
    let waits = NewJob::new("mail").key("k").unique(Unique::by("u"));
    engine.enqueue_in(&transaction, Enqueue::each([waits])).await.unwrap();
    // Others of every shape get through meanwhile, and are run.
    let others = [NewJob::new("mail"), NewJob::new("mail").unique(Unique::by("v")).key("l")];
    for other in others {
        engine.enqueue(Enqueue::each([other])).await.unwrap().value[0].as_ref().unwrap();
        let job = claim_one(&engine).await.expect("it is ready");
        let item = SettleItem::new(job.header.id, job.lease, Outcome::DONE);
        engine.settle(Settle::new([item])).await.unwrap().value.items[0].as_ref().unwrap();
    }
    for work in Work::ALL {
        engine.maintain(MaintainRequest::new(work, 100)).await.unwrap();
    }
    assert_eq!(available(&engine).await, 0);
    transaction.commit().await.unwrap();
    assert_eq!(available(&engine).await, 1);
}

#[tokio::test]
async fn a_waiter_is_woken_by_the_commit() {
    let schema = OwnSchema::new();
    let (engine, mut client) = (open(&schema).await, application().await);
    let transaction = client.transaction().await.unwrap();
    engine.enqueue_in(&transaction, Enqueue::each([NewJob::new("mail")])).await.unwrap();
    let waits = engine.clone();
    let waiter = tokio::spawn(async move { waits.wait(Wait::new(["default"], LONG_MS)).await });
    transaction.commit().await.unwrap();
    assert!(waiter.await.unwrap().unwrap().value);
}

#[tokio::test]
async fn unique_keys_hold_across_the_edge_of_a_transaction() {
    let schema = OwnSchema::new();
    let (engine, mut client) = (open(&schema).await, application().await);
    let job = || NewJob::new("mail").unique(Unique::by("once"));
    let first = engine.enqueue(Enqueue::each([job()])).await.unwrap().value.remove(0).unwrap();
    let transaction = client.transaction().await.unwrap();
    let strict = job().unique(Unique::by("once").on_conflict(OnConflict::Reject));
    let answers = engine.enqueue_in(&transaction, Enqueue::each([job(), strict])).await.unwrap();
    let [existing, refused] = <[_; 2]>::try_from(answers.value).unwrap();
    assert_eq!(existing.unwrap().id, first.id);
    assert_eq!(refused.unwrap_err().code(), "duplicate");
    // A refusal leaves the transaction as it was: it goes on.
    let other = NewJob::new("mail").unique(Unique::by("other"));
    engine.enqueue_in(&transaction, Enqueue::each([other.clone()])).await.unwrap();
    let waits = engine.clone();
    let rival = tokio::spawn(async move { waits.enqueue(Enqueue::each([other])).await });
    transaction.commit().await.unwrap();
    let rival = rival.await.unwrap().unwrap().value.remove(0).unwrap();
    assert_eq!(rival.disposition, Disposition::Existing, "it waited for the commit, or came after");
    assert_eq!(available(&engine).await, 2);
}

#[tokio::test]
async fn a_job_can_be_enqueued_in_plain_sql() {
    let schema = OwnSchema::new();
    let (engine, client) = (open(&schema).await, application().await);
    let name = &schema.name;
    let enqueue = |arguments: &str| format!("SELECT \"{name}\".enqueue({arguments})");
    let sql = enqueue(r#"kind => 'send_email', payload => '{"to":"ada"}', tenant => 'acme'"#);
    let id: uuid::Uuid = client.query_one(&sql, &[]).await.unwrap().get(0);
    let job = claim_one(&engine).await.expect("it is ready");
    let payload = job.parts.payload.expect("a payload").bytes;
    assert_eq!((job.header.id.as_uuid(), &*job.header.kind), (id, "send_email"));
    assert_eq!(serde_json::from_slice::<serde_json::Value>(&payload).unwrap()["to"], "ada");
    assert_eq!(job.header.tenant.as_deref(), Some("acme"));
    let item = SettleItem::new(job.header.id, job.lease, Outcome::DONE);
    engine.settle(Settle::new([item])).await.unwrap().value.items[0].as_ref().unwrap();

    // Unique, with the library on the other side; and put off.
    let unique = enqueue("'once', unique_key => 'u', max_attempts => 3");
    let first: uuid::Uuid = client.query_one(&unique, &[]).await.unwrap().get(0);
    let again: uuid::Uuid = client.query_one(&unique, &[]).await.unwrap().get(0);
    assert_eq!(first, again);
    let ours = NewJob::new("once").unique(Unique::by("u"));
    let ours = engine.enqueue(Enqueue::each([ours])).await.unwrap().value.remove(0).unwrap();
    assert_eq!((ours.id.as_uuid(), ours.disposition), (first, Disposition::Existing));
    let job = claim_one(&engine).await.expect("it is ready");
    assert_eq!(job.header.policy.max_attempts, 3);
    let item = SettleItem::new(job.header.id, job.lease, Outcome::fail("bad", "for good"));
    engine.settle(Settle::new([item])).await.unwrap().value.items[0].as_ref().unwrap();
    let third: uuid::Uuid = client.query_one(&unique, &[]).await.unwrap().get(0);
    assert_ne!(third, first, "the end of a job frees its key");
    client.query_one(&enqueue("'later', delay_ms => 60000"), &[]).await.unwrap();
    let many = format!(
        r#"SELECT count(*) FROM "{name}".enqueue_many('[{{"kind":"a"}},{{"kind":"b","queue":"q"}}]')"#
    );
    assert_eq!(client.query_one(&many, &[]).await.unwrap().get::<_, i64>(0), 2);
    assert_eq!(engine.check(false).await.unwrap().value.findings, []);

    let count =
        format!("SELECT state, count(*) FROM \"{name}\".jobs GROUP BY state ORDER BY state");
    let counts = client.query(&count, &[]).await.unwrap();
    let counts: Vec<(String, i64)> = counts.iter().map(|row| (row.get(0), row.get(1))).collect();
    let expected = [("available", 3), ("completed", 1), ("dead", 1), ("scheduled", 1)];
    assert_eq!(counts, expected.map(|(state, count)| (state.to_owned(), count)));
    let dead = format!("SELECT error ->> 'code' FROM \"{name}\".dead_jobs");
    assert_eq!(client.query_one(&dead, &[]).await.unwrap().get::<_, String>(0), "bad");
}

#[tokio::test]
async fn values_that_do_not_fit_are_refused_by_name() {
    let schema = OwnSchema::new();
    let (engine, client) = (open(&schema).await, application().await);
    let patch = windlass_core::model::QueuePatch::max_depth(Some(1));
    engine.configure(vec![Configure::queue("full", patch)]).await.unwrap();
    let only = NewJob::new("k").queue("full").due(Due::After(60_000));
    engine.enqueue(Enqueue::each([only])).await.unwrap().value.remove(0).unwrap();
    for (arguments, word) in [
        ("'send email'", "kind"),
        ("NULL", "kind"),
        ("'k', queue => ''", "queue"),
        ("'k', queue => 'full'", "full"),
        ("'k', unique_scope => 'kind'", "unique_key"),
        ("'k', unique_key => 'u', unique_until => 'ended'", "unique_until"),
        ("'k', unique_key => 'u', on_conflict => 'throttle'", "unique_window_ms"),
        ("'k', backoff => '{\"fixed\":{\"delay_ms\":-1}}'", "backoff.delay_ms"),
        ("'k', backoff => '{\"linear\":{}}'", "backoff"),
        ("'k', retention => '{\"dead\":1}'", "retention"),
        ("'k', id => gen_random_uuid()", "id"),
        ("'k', delay_ms => -1", "delay_ms"),
        ("'k', max_attempts => 0", "max_attempts"),
        ("'k', unique_key => ''", "unique_key"),
        ("'k', payload => to_jsonb(repeat('x', 70000))", "payload"),
    ] {
        let sql = format!("SELECT \"{}\".enqueue({arguments})", schema.name);
        let error = client.query_one(&sql, &[]).await.unwrap_err();
        let message = error.as_db_error().expect("the server refuses").message();
        assert!(message.contains(word), "{arguments}: {message}");
    }
    let sql = format!("SELECT \"{}\".enqueue_many('[{{\"kin\":\"a\"}}]')", schema.name);
    let error = client.query_one(&sql, &[]).await.unwrap_err();
    assert!(error.as_db_error().unwrap().message().contains("'kin'"), "{error}");
    assert_eq!(available(&engine).await, 0);
}

#[tokio::test]
async fn a_snapshot_that_may_be_out_of_date_decides_no_keys() {
    let schema = OwnSchema::new();
    let (engine, mut client) = (open(&schema).await, application().await);
    let begin = client.build_transaction();
    let level = tokio_postgres::IsolationLevel::RepeatableRead;
    let transaction = begin.isolation_level(level).start().await.unwrap();
    let keyed = NewJob::new("mail").unique(Unique::by("u"));
    let refused = engine.enqueue_in(&transaction, Enqueue::each([keyed])).await.unwrap_err();
    assert!(refused.to_string().contains("READ COMMITTED"), "{refused}");
    engine.enqueue_in(&transaction, Enqueue::each([NewJob::new("mail")])).await.unwrap();
    transaction.commit().await.unwrap();
    assert_eq!(available(&engine).await, 1, "the one without keys");
}

#[tokio::test]
async fn a_job_committed_long_after_it_was_numbered_is_claimed_at_once() {
    let schema = OwnSchema::new();
    let (engine, mut client) = (open(&schema).await, application().await);
    let session = engine.open_session(OpenSession::new("w")).await.unwrap().value.id;
    let claim = async |claim_no| {
        let by = Claimant::Session { session: session.clone(), claim_no };
        engine.claim(Claim::new(by, "default", 10)).await.unwrap().value.jobs.len()
    };
    engine.enqueue(Enqueue::each([NewJob::new("mail")])).await.unwrap();
    // The first claim from a queue looks everywhere, so what it learns is what the next goes by.
    assert_eq!(claim(1).await, 1);
    let transaction = client.transaction().await.unwrap();
    engine.enqueue_in(&transaction, Enqueue::each([NewJob::new("mail")])).await.unwrap();
    engine.enqueue(Enqueue::each([NewJob::new("mail")])).await.unwrap();
    assert_eq!(claim(2).await, 1, "the one that is committed");
    transaction.commit().await.unwrap();
    let wait = Wait::new(["default"], LONG_MS);
    assert!(engine.wait(wait).await.unwrap().value);
    assert_eq!(claim(3).await, 1, "the one numbered before");
}

/// Shorter than the interval of complete scans.
const SOON_MS: u64 = 1_500;

#[tokio::test]
async fn a_setting_of_the_caller_cannot_hide_a_job_that_is_committed_late() {
    let schema = OwnSchema::new();
    let (engine, client) = (open(&schema).await, application().await);
    let session = engine.open_session(OpenSession::new("w")).await.unwrap().value.id;
    let mut claims = 0;
    let mut claim = async || {
        claims += 1;
        let by = Claimant::Session { session: session.clone(), claim_no: claims };
        engine.claim(Claim::new(by, "default", 10)).await.unwrap().value.jobs.len()
    };
    let one = || Enqueue::each([NewJob::new("mail")]);
    let late = format!("BEGIN; SELECT \"{}\".enqueue('mail')", schema.name);
    client.batch_execute(&late).await.unwrap();
    let sealed = client.query_one("SELECT current_setting('windlass.first')", &[]).await.unwrap();
    client.batch_execute("COMMIT").await.unwrap();
    engine.enqueue(one()).await.unwrap();
    assert_eq!(claim().await, 2, "the first claim looks everywhere");
    let sealed: &str = sealed.get(0);
    for value in ["9223372036854775807", "9223372036854775807 0", "x", sealed] {
        client.batch_execute(&format!("SET windlass.first = '{value}'; {late}")).await.unwrap();
        engine.enqueue(one()).await.unwrap();
        assert_eq!(claim().await, 1, "the one that is committed");
        client.batch_execute("COMMIT").await.unwrap();
        let found = engine.wait(Wait::new(["default"], SOON_MS)).await.unwrap().value;
        assert!(found, "windlass.first = {value}");
        assert_eq!(claim().await, 1, "the one numbered before");
    }
}

#[tokio::test]
async fn all_jobs_of_a_transaction_in_sql_wake_workers_once() {
    let schema = OwnSchema::new();
    let (_engine, client) = (open(&schema).await, application().await);
    let channel = format!(
        "SELECT 'windlass_' || replace(value::text, '-', '') FROM \"{}\".secret",
        schema.name
    );
    let channel: String = client.query_one(&channel, &[]).await.unwrap().get(0);
    let mut listener = Listener::at(&crate::common::url(), &channel).await;
    let enqueue = format!("SELECT \"{}\".enqueue('mail')", schema.name);
    let all = format!(
        "BEGIN; {enqueue}; {enqueue}; SAVEPOINT a; {enqueue}; RELEASE a; {enqueue}; COMMIT"
    );
    client.batch_execute(&format!("{all}; NOTIFY {channel}, 'end'")).await.unwrap();
    // Notifications that engines send to themselves are ignored.
    let mut heard = listener.until("end").await;
    heard.retain(|payload| !payload.starts_with("probe "));
    assert_eq!(heard.len(), 1, "{heard:?}");
    assert!(heard[0].parse::<i64>().is_ok_and(|first| first > 0), "{heard:?}");
}
