//! Jobs enqueued by the SQL functions, in transactions of other drivers than ours.

#![cfg(all(feature = "sqlx", feature = "diesel-async"))]
#![expect(clippy::unwrap_used, reason = "unwrapping is how the helpers say \"this must hold\" too")]

use crate::common::{OwnSchema, application, open, url};
use diesel_async::{AsyncConnection as _, AsyncPgConnection, SimpleAsyncConnection as _};
use sqlx::{Connection as _, PgConnection};
use windlass_core::engine::*;
use windlass_core::model::{Codec, Due, Envelope, NewJob, Part, State};
use windlass_core::policy::Unique;
use windlass_core::{JobId, Timestamp};
use windlass_postgres::{PostgresEngine, SqlEnqueue};

/// A connection of the application's, by one driver or the other.
enum Driver {
    Sqlx(PgConnection),
    Diesel(Box<AsyncPgConnection>),
}

impl Driver {
    async fn both() -> [Self; 2] {
        let sqlx = PgConnection::connect(&url()).await.unwrap();
        let diesel = AsyncPgConnection::establish(&url()).await.unwrap();
        [Self::Sqlx(sqlx), Self::Diesel(Box::new(diesel))]
    }

    /// `BEGIN`, `COMMIT` or `ROLLBACK`.
    async fn say(&mut self, words: &'static str) {
        match self {
            Self::Sqlx(on) => {
                sqlx::raw_sql(words).execute(on).await.unwrap();
            }
            Self::Diesel(on) => on.batch_execute(words).await.unwrap(),
        }
    }

    async fn hand_over(
        &mut self,
        schema: &OwnSchema,
        jobs: &[NewJob],
    ) -> windlass_core::Result<Vec<JobId>> {
        let enqueue = SqlEnqueue::new(&schema.name).unwrap();
        match self {
            Self::Sqlx(on) => enqueue.sqlx(on, jobs).await,
            Self::Diesel(on) => enqueue.diesel(on, jobs).await,
        }
    }
}

async fn states(engine: &PostgresEngine, ids: &[JobId]) -> Vec<Option<State>> {
    let found = engine.get(Get::new(ids.iter().copied())).await.unwrap().value;
    found.into_iter().map(|job| job.map(|job| job.state)).collect()
}

#[tokio::test]
async fn jobs_are_there_when_the_transaction_commits_and_never_were_if_it_does_not() {
    for mut driver in Driver::both().await {
        let schema = OwnSchema::new();
        let engine = open(&schema).await;
        let jobs = [NewJob::new("mail").json("{}"), NewJob::new("later").due(Due::After(60_000))];
        for end in ["ROLLBACK", "COMMIT"] {
            driver.say("BEGIN").await;
            let ids = driver.hand_over(&schema, &jobs).await.unwrap();
            assert_eq!(states(&engine, &ids).await, [None, None]);
            driver.say(end).await;
            let expected = match end {
                "COMMIT" => [Some(State::Available), Some(State::Scheduled)],
                _ => [None, None],
            };
            assert_eq!(states(&engine, &ids).await, expected);
        }
        assert_eq!(engine.check(false).await.unwrap().value.findings, []);
    }
}

#[tokio::test]
async fn unique_keys_hold_on_both_sides_of_the_edge() {
    for mut driver in Driver::both().await {
        let schema = OwnSchema::new();
        let engine = open(&schema).await;
        let job = || NewJob::new("mail").unique(Unique::by("once"));
        driver.say("BEGIN").await;
        let lost = driver.hand_over(&schema, &[job()]).await.unwrap();
        driver.say("ROLLBACK").await;
        let ours = engine.enqueue(Enqueue::each([job()])).await.unwrap().value.remove(0).unwrap();
        assert!(ours.disposition == Disposition::Created && ours.id != lost[0]);
        driver.say("BEGIN").await;
        let other = job().unique(Unique::by("other"));
        let reported = driver.hand_over(&schema, &[job(), other.clone(), other]).await.unwrap();
        driver.say("COMMIT").await;
        assert!(reported[0] == ours.id && reported[1] == reported[2] && reported[1] != ours.id);
        assert_eq!(states(&engine, &reported[1..2]).await, [Some(State::Available)]);
    }
}

#[tokio::test]
async fn an_enqueue_of_a_key_that_an_open_transaction_holds_is_busy() {
    for mut driver in Driver::both().await {
        let schema = OwnSchema::new();
        let (engine, mut client) = (open(&schema).await, application().await);
        let transaction = client.transaction().await.unwrap();
        let job = NewJob::new("mail").unique(Unique::by("u"));
        engine.enqueue_in(&transaction, Enqueue::each([job.clone()])).await.unwrap();
        let refused = driver.hand_over(&schema, &[NewJob::new("mail"), job]).await.unwrap_err();
        assert_eq!(refused.code(), "busy", "{refused}");
        assert!(refused.to_string().contains("jobs[1]"), "{refused}");
        transaction.rollback().await.unwrap();
        assert_eq!(engine.stats(StatsRequest::default()).await.unwrap().value, []);
    }
}

#[tokio::test]
async fn a_job_arrives_with_everything_it_says() {
    for mut driver in Driver::both().await {
        let schema = OwnSchema::new();
        let engine = open(&schema).await;
        let bytes = b" {\"b\": 1,\"a\":1.0}\0\xff";
        let mut job = NewJob::new("mail").queue("q").priority(-3).tenant("acme");
        job.parts.payload = Some(Part::new(&bytes[..]));
        job.tags = vec!["a".into(), "b \"c\"".into()];
        job.trace = Some("00-abc-def-01".into());
        job.policy.max_attempts = 9;
        job.policy.timeout_ms = Some(1_234);
        let at = engine.health().await.unwrap().now.plus(86_400_123);
        let job = job.due(Due::At(at)).unique(Unique::by("u"));
        let past = NewJob::new("mail").due(Due::At(Timestamp::from_millis(1_000)));
        let ids = driver.hand_over(&schema, &[job.clone(), past]).await.unwrap();
        let get = Get::new(ids).parts(windlass_core::model::PartSet::ALL);
        let mut found = engine.get(get).await.unwrap().value;
        let late = found.remove(1).unwrap();
        assert_eq!(late.state, State::Available, "a time that has passed is now");
        let found = found.remove(0).unwrap();
        let header = &found.header;
        assert_eq!((&*header.queue, &*header.kind), ("q", "mail"));
        assert_eq!((header.priority, header.run_at), (-3, at));
        assert_eq!((&header.tenant, &header.tags), (&job.tenant, &job.tags));
        assert_eq!((&header.trace, &header.unique), (&job.trace, &job.unique));
        assert_eq!(header.policy, job.policy);
        assert_eq!(found.parts.payload, job.parts.payload, "to the byte");
    }
}

#[tokio::test]
async fn unsupported_fields_are_refused_by_name_and_invalid_values_by_the_server() {
    let job = || NewJob::new("mail");
    let mut sealed = job();
    let envelope = Envelope::PLAIN.with_codec(Codec::Zstd);
    sealed.parts.metadata = Some(Part::sealed(envelope, "1"));
    let mut derived = job();
    derived.derived = true;
    let refused = [("jobs[1].parts.metadata.envelope", sealed), ("jobs[1].job", derived)];
    for (field, refused) in refused {
        let error = SqlEnqueue::parameter(&[job(), refused]).unwrap_err();
        assert_eq!(error.field(), Some(field));
        assert!(error.to_string().contains("Transactional"), "{error}");
    }
    let schema = OwnSchema::new();
    let engine = open(&schema).await;
    for mut driver in Driver::both().await {
        let error = driver.hand_over(&schema, &[job(), NewJob::new("a b")]).await.unwrap_err();
        assert_eq!(error.code(), "invalid", "{error}");
        assert!(error.to_string().contains("jobs[1]: kind is 'a b'"), "{error}");
    }
    assert_eq!(engine.stats(StatsRequest::default()).await.unwrap().value, []);
}
