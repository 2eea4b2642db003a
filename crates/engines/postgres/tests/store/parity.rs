//! SQL parity: one table of options, by the engine, by the SQL function and by transactions of every driver, yields
//! equal jobs.

#![cfg(all(feature = "sqlx", feature = "diesel", feature = "diesel-async"))]
#![expect(clippy::unwrap_used, reason = "unwrapping is how the helpers say \"this must hold\" too")]

use crate::common::{OwnSchema, application, open};
use crate::drivers::{Driver, Script};
use std::collections::BTreeMap;
use windlass_core::engine::*;
use windlass_core::id::Ids;
use windlass_core::model::{Due, Job, NewJob, Order, Part, PartSet, QueuePatch};
use windlass_core::policy::{Backoff, OnConflict, Retention, Unique, UniqueScope, Until};
use windlass_core::random::{Seeded, SystemRandom};
use windlass_core::time::HOUR_MS;
use windlass_core::{JobId, Timestamp};
use windlass_postgres::{PostgresEngine, SqlEnqueue, Transactional};

/// A way to enqueue.
enum Way {
    Engine,
    Sql(tokio_postgres::Client),
    In(Box<Driver>),
}

impl Way {
    async fn all() -> Vec<Self> {
        let drivers = Driver::all().await.into_iter().map(|driver| Self::In(Box::new(driver)));
        [Self::Engine, Self::Sql(application().await)].into_iter().chain(drivers).collect()
    }

    fn name(&self) -> &'static str {
        match self {
            Self::Engine => "engine",
            Self::Sql(_) => "SQL function",
            Self::In(driver) => driver.name(),
        }
    }

    /// Enqueues a job; the code of an error, or the id of the job or of the holder of its key.
    async fn enqueue(&mut self, store: &Store, job: NewJob) -> Result<JobId, String> {
        let id = |item: Item<Enqueued>| match item {
            Ok(enqueued) => Ok(enqueued.id),
            Err(error) => Err(error.code().to_owned()),
        };
        match self {
            Self::Engine => {
                id(store.engine.enqueue(Enqueue::each([job])).await.unwrap().value.remove(0))
            }
            Self::In(driver) => {
                let script = Script::enqueue(Enqueue::each([job]));
                id(driver.run(&store.joined, script).await.unwrap().enqueued.remove(0))
            }
            Self::Sql(client) => {
                let sql = SqlEnqueue::new(&store.schema.name).unwrap();
                let parameter = SqlEnqueue::parameter(&[job]).unwrap();
                match client.query(sql.statement(), &[&parameter]).await {
                    Ok(rows) => Ok(rows[0].get::<_, &str>(0).parse().unwrap()),
                    Err(error) => Err(match error.code().unwrap().code() {
                        "23505" => "duplicate".to_owned(),
                        "54000" => "queue_full".to_owned(),
                        "P0001" => "invalid".to_owned(),
                        _ => panic!("{error:?}"),
                    }),
                }
            }
        }
    }
}

/// A store with queues of every order and limit.
struct Store {
    schema: OwnSchema,
    engine: PostgresEngine,
    joined: Transactional,
}

impl Store {
    async fn new() -> Self {
        let schema = OwnSchema::new();
        let (engine, joined) = (open(&schema).await, Transactional::new(&schema.name).unwrap());
        let settings = [
            ("fair", QueuePatch::order(Order::Fair)),
            ("lifo", QueuePatch::order(Order::Lifo)),
            ("ageing", QueuePatch::order(Order::Ageing { quantum_ms: 1_000 })),
            ("deep", QueuePatch::max_depth(Some(3))),
            ("aged", QueuePatch::max_wait_ms(Some(HOUR_MS))),
        ];
        let settings = settings.map(|(queue, patch)| Configure::queue(queue, patch));
        for set in engine.configure(settings.into()).await.unwrap().value {
            set.unwrap();
        }
        Self { schema, engine, joined }
    }

    /// Lets the services do what they do 250 ms after a commit at the latest.
    async fn settle_down(&self) {
        self.engine.maintain(MaintainRequest::new(Work::Promote, 1_000)).await.unwrap();
    }

    async fn get(&self, ids: &[JobId]) -> Vec<Option<Job>> {
        let get = Get::new(ids.iter().copied()).parts(PartSet::ALL);
        self.engine.get(get).await.unwrap().value
    }

    async fn assert_sound(&self) {
        assert_eq!(self.engine.check(false).await.unwrap().value.findings, []);
    }
}

/// The table of options.
fn table(now: Timestamp) -> Vec<NewJob> {
    let job = || NewJob::new("mail").queue("q");
    let with = |change: fn(&mut NewJob)| {
        let mut job = job();
        change(&mut job);
        job
    };
    let mut table = vec![
        NewJob::new("mail"),
        job().json(r#"{"b":1,"a":[1.0,"é"]}"#),
        with(|job| job.parts.payload = Some(Part::new(&b"\0\xff"[..]))),
        job().priority(-7),
        job().due(Due::After(60_000)),
        job().due(Due::At(now.plus(86_400_000))),
        job().due(Due::At(Timestamp::from_millis(1_000))),
        job().tenant("acme"),
        job().group("acme"),
        job().cost(3),
        job().key("line"),
        job().key("line").due(Due::After(60_000)),
        job().id(Ids::default().next(now, &SystemRandom)),
        with(|job| job.parent = Some(JobId::new(Timestamp::from_millis(5), &Seeded::new(5)))),
        with(|job| job.tags = vec!["a".into(), "b \"c\"".into()]),
        with(|job| job.trace = Some("00-abc-def-01".into())),
        with(|job| job.parts.checkpoint = Some(Part::new("1"))),
        with(|job| job.parts.blob = Some(Part::new(&b"\0\xff"[..]))),
        with(|job| job.parts.metadata = Some(Part::new(r#"{"a":1}"#))),
        job().max_attempts(9),
        job().max_crashes(0),
        job().backoff(Backoff::exactly(1_500)),
        job().backoff(Backoff::Exponential { base_ms: 1, cap_ms: 2, jitter_ms: 3 }),
        with(|job| job.policy.timeout_ms = Some(1_234)),
        job().max_wait_ms(HOUR_MS),
        with(|job| {
            let mut retention = Retention::uniform_ms(HOUR_MS);
            retention.dead_ms = 2 * HOUR_MS;
            job.policy.retention = Some(retention);
        }),
    ];
    for queue in ["fair", "lifo", "ageing", "deep", "aged"] {
        table.push(NewJob::new("mail").queue(queue).tenant("acme").key("k").max_wait_ms(HOUR_MS));
        table.push(NewJob::new("mail").queue(queue).priority(3));
    }
    let scopes = [UniqueScope::Lane, UniqueScope::Queue, UniqueScope::Kind, UniqueScope::Global];
    for unique in scopes.into_iter().flat_map(uniques) {
        table.push(job().unique(unique));
    }
    table
}

/// Every rule of uniqueness in a scope, each with a key of its own.
fn uniques(scope: UniqueScope) -> Vec<Unique> {
    let untils = [Until::Finished, Until::Removed, Until::window_ms(HOUR_MS)];
    let answers = [
        OnConflict::Existing,
        OnConflict::Reject,
        OnConflict::Replace,
        OnConflict::Debounce,
        OnConflict::Throttle,
    ];
    let all = untils.into_iter().flat_map(|until| answers.map(|answer| (until, answer)));
    let rule = |(until, answer)| {
        let key = format!("{scope:?} {until:?} {answer:?}");
        Unique::by(key).scope(scope).until(until).on_conflict(answer)
    };
    all.map(rule).filter(|unique| unique.check().is_ok()).collect()
}

/// A job without its id and with times relative to its enqueue.
fn comparable(mut job: Job, given: &NewJob) -> Job {
    let header = &mut job.header;
    if given.id.is_none() {
        header.id = JobId::from_bytes([0; 16]);
    }
    if !matches!(given.due, Due::At(at) if at > header.created_at) {
        let delay_ms = header.run_at.since(header.created_at);
        header.run_at = Timestamp::EPOCH.plus(delay_ms);
    }
    header.created_at = Timestamp::EPOCH;
    job.changed_at = Timestamp::EPOCH;
    job
}

#[tokio::test]
async fn one_table_of_options_yields_equal_jobs_in_every_way() {
    let mut expected: BTreeMap<usize, Job> = BTreeMap::new();
    for mut way in Way::all().await {
        let store = Store::new().await;
        let now = store.engine.health().await.unwrap().now;
        let mut table = table(now);
        for (at, given) in table.iter_mut().enumerate() {
            if let (Some(job), Due::At(_)) = (expected.get(&at), given.due)
                && job.header.run_at > now
            {
                given.due = Due::At(job.header.run_at);
            }
            if let (Some(job), Some(_)) = (expected.get(&at), given.id) {
                given.id = Some(job.header.id);
            }
            let id = way.enqueue(&store, given.clone()).await.unwrap();
            store.settle_down().await;
            let mut job = comparable(store.get(&[id]).await.remove(0).unwrap(), given);
            // The SQL function stores jobs that the executor must place as scheduled, which is a transition more.
            let special_queue = !["default", "q"].contains(&&*given.queue);
            if given.key.is_some() || given.policy.max_wait_ms.is_some() || special_queue {
                job.transitions = 0;
            }
            match expected.get(&at) {
                None => drop(expected.insert(at, job)),
                Some(first) => assert_eq!(job, *first, "{}: {given:?}", way.name()),
            }
        }
        store.assert_sound().await;
    }
}

/// The state of the holder when the next job with its key comes.
#[derive(Clone, Copy, Debug)]
enum Holder {
    Scheduled,
    Available,
    Running,
    Completed,
    Discarded,
}

const HOLDERS: [Holder; 5] =
    [Holder::Scheduled, Holder::Available, Holder::Running, Holder::Completed, Holder::Discarded];

/// Enqueues a holder by the engine and brings it into a state; the holder's id.
async fn hold(store: &Store, holder: Holder, unique: Unique) -> JobId {
    let mut job = NewJob::new("mail").queue("q").unique(unique);
    if matches!(holder, Holder::Scheduled) {
        job = job.due(Due::After(60_000));
    }
    let id = Way::Engine.enqueue(store, job).await.unwrap();
    if matches!(holder, Holder::Scheduled | Holder::Available) {
        return id;
    }
    let session = store.engine.open_session(OpenSession::new("w")).await.unwrap().value.id;
    let by = Claimant::Session { session, claim_no: 1 };
    let claimed = store.engine.claim(Claim::new(by, "q", 1)).await.unwrap().value.jobs.remove(0);
    assert_eq!(claimed.header.id, id);
    if matches!(holder, Holder::Completed | Holder::Discarded) {
        let item = SettleItem::new(id, claimed.lease, Outcome::DONE);
        store.engine.settle(Settle::new([item])).await.unwrap().value.items.remove(0).unwrap();
    }
    if matches!(holder, Holder::Discarded) {
        let discard = ChangeItem::new(id, Change::Discard);
        store.engine.change(vec![discard]).await.unwrap().value.remove(0).unwrap();
    }
    id
}

#[tokio::test]
async fn conflicts_of_unique_keys_end_alike_in_every_way() {
    let mut expected: BTreeMap<String, String> = BTreeMap::new();
    for mut way in Way::all().await {
        let store = Store::new().await;
        for holder in HOLDERS {
            for mut unique in uniques(UniqueScope::Kind) {
                unique.key = format!("{holder:?} {}", unique.key);
                let first = hold(&store, holder, unique.clone()).await;
                let newcomer = NewJob::new("mail").queue("q").unique(unique.clone());
                let newcomer = newcomer.due(Due::After(90_000));
                let answer = way.enqueue(&store, newcomer).await;
                store.settle_down().await;
                let second = answer.as_ref().map_or(first, |id| *id);
                let found = store.get(&[first, second]).await;
                let known = |job: &Option<Job>| {
                    let job = job.as_ref()?;
                    let finish = format!("{:?}", job.finish);
                    let finish = finish.replace(&format!("{second:?}"), "the second");
                    Some((
                        job.state,
                        finish,
                        job.header.run_at.since(job.header.created_at) / 1_000,
                    ))
                };
                let is_first = answer.as_ref().map(|id| *id == first);
                let seen = format!("{is_first:?} {:?} {:?}", known(&found[0]), known(&found[1]));
                // The third finds the key held or free.
                let third = NewJob::new("mail").queue("q").unique(unique.clone());
                let third = third.unique(unique.clone().on_conflict(match unique.on_conflict {
                    OnConflict::Throttle => OnConflict::Throttle,
                    _ => OnConflict::Existing,
                }));
                let third = way.enqueue(&store, third.due(Due::After(95_000))).await.unwrap();
                let seen = format!("{seen} {} {}", third == first, third == second);
                let label = format!("{holder:?} {unique:?}");
                match expected.get(&label) {
                    None => drop(expected.insert(label, seen)),
                    Some(first) => assert_eq!(seen, *first, "{}: {label}", way.name()),
                }
                for id in [first, second, third] {
                    let end = ChangeItem::new(id, Change::Cancel);
                    drop(store.engine.change(vec![end]).await.unwrap());
                }
            }
        }
        store.assert_sound().await;
    }
}

#[tokio::test]
async fn queues_with_an_order_of_their_own_start_jobs_alike_in_every_way() {
    let mut expected: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for mut way in Way::all().await {
        let store = Store::new().await;
        for queue in ["fair", "lifo", "aged", "default"] {
            for number in 0..6 {
                let tenant = ["a", "a", "a", "b", "b", "c"][number];
                let job = NewJob::new("mail").queue(queue).tenant(tenant);
                way.enqueue(&store, job.json(format!("{number}"))).await.unwrap();
                store.settle_down().await;
            }
            let session = store.engine.open_session(OpenSession::new("w")).await.unwrap().value.id;
            let mut order = Vec::new();
            for claim_no in 1..=6 {
                let by = Claimant::Session { session: session.clone(), claim_no };
                let jobs = store.engine.claim(Claim::new(by, queue, 1)).await.unwrap().value.jobs;
                let payload = |job: ClaimedJob| job.parts.payload.unwrap().bytes;
                order.extend(jobs.into_iter().map(|job| format!("{:?}", payload(job))));
            }
            assert_eq!(order.len(), 6, "{} {queue}", way.name());
            match expected.get(queue) {
                None => drop(expected.insert(queue, order)),
                Some(first) => assert_eq!(order, *first, "{} {queue}", way.name()),
            }
        }
        store.assert_sound().await;
    }
}

#[tokio::test]
async fn a_full_queue_refuses_jobs_and_takes_replacements_in_every_way() {
    for mut way in Way::all().await {
        let store = Store::new().await;
        let job = || NewJob::new("mail").queue("deep").due(Due::After(60_000));
        let replace = || job().unique(Unique::by("u").on_conflict(OnConflict::Replace));
        for job in [job(), job(), replace()] {
            way.enqueue(&store, job).await.unwrap();
        }
        assert_eq!(
            way.enqueue(&store, job()).await,
            Err("queue_full".to_owned()),
            "{}",
            way.name()
        );
        way.enqueue(&store, replace()).await.unwrap();
        store.settle_down().await;
        assert_eq!(
            way.enqueue(&store, job()).await,
            Err("queue_full".to_owned()),
            "{}",
            way.name()
        );
        store.assert_sound().await;
    }
}

#[tokio::test]
async fn invalid_options_are_refused_in_every_way() {
    let job = || NewJob::new("mail");
    let long = "x".repeat(300);
    let mut refused = vec![
        NewJob::new("a b"),
        job().queue("a b"),
        job().key(""),
        job().group(""),
        job().group("x".repeat(129)),
        job().cost(0),
        job().cost(u32::MAX),
        job().key(long.clone()),
        job().unique(Unique::by(long)),
        job().unique(Unique::by("u").on_conflict(OnConflict::Throttle)),
        job().unique(Unique::by("u").until(Until::window_ms(0))),
        job().max_attempts(0),
        job().max_crashes(1_000_001),
        job().max_wait_ms(0),
        job().backoff(Backoff::Exponential { base_ms: 2, cap_ms: 1, jitter_ms: 0 }),
        job().backoff(Backoff::exactly(u64::from(u32::MAX) * 1_000)),
        job().id(JobId::from_bytes([7; 16])),
        job().due(Due::After(u64::from(u32::MAX) * 1_000_000)),
    ];
    let mut kept = job();
    kept.policy.retention = Some(Retention::uniform_ms(u64::from(u32::MAX) * 1_000_000));
    refused.push(kept);
    for mut way in Way::all().await {
        let store = Store::new().await;
        for job in &refused {
            let code = way.enqueue(&store, job.clone()).await.unwrap_err();
            let refused = ["invalid", "too_large"].contains(&&*code);
            assert!(refused, "{} {job:?}: {code}", way.name());
        }
        let stats = store.engine.stats(StatsRequest::default()).await.unwrap().value;
        assert!(stats.iter().all(|lane| lane.available + lane.scheduled == 0), "{}", way.name());
    }
}

#[tokio::test]
async fn the_sql_function_completes_jobs_as_the_engine_does() {
    let mut expected: Option<Job> = None;
    for by_sql in [false, true] {
        let (store, mut client) = (Store::new().await, application().await);
        let id = Way::Engine.enqueue(&store, NewJob::new("mail")).await.unwrap();
        let claim = async |claim_no| {
            let session = store.engine.open_session(OpenSession::new("w")).await.unwrap().value.id;
            let by = Claimant::Session { session, claim_no };
            store.engine.claim(Claim::new(by, "default", 1)).await.unwrap().value.jobs.remove(0)
        };
        let claimed = claim(1).await;
        let item = SettleItem::new(
            id,
            claimed.lease.clone(),
            Outcome::Complete { result: Some(Part::new("42")) },
        );
        let complete = format!(
            "SELECT \"{}\".complete($1, $2, result_bytes => '42'::bytea)",
            store.schema.name
        );
        if by_sql {
            let forged = "0".repeat(32);
            let lost = client.query_one(&complete, &[&id.as_uuid(), &forged]).await.unwrap_err();
            assert_eq!(lost.code().unwrap().code(), "P0002", "{lost:?}");
            for commits in [false, true] {
                let transaction = client.transaction().await.unwrap();
                let done = transaction
                    .query_one(&complete, &[&id.as_uuid(), &claimed.lease.as_str()])
                    .await
                    .unwrap();
                assert!(done.get::<_, bool>(0), "it was not completed before");
                match commits {
                    true => transaction.commit().await.unwrap(),
                    false => transaction.rollback().await.unwrap(),
                }
            }
            let again =
                client.query_one(&complete, &[&id.as_uuid(), &claimed.lease.as_str()]).await;
            assert!(!again.unwrap().get::<_, bool>(0), "it was completed before");
        }
        let settled = store.engine.settle(Settle::new([item])).await.unwrap().value.items.remove(0);
        assert_eq!(settled.unwrap().already, by_sql, "the worker's report finds it");
        let mut job = comparable(store.get(&[id]).await.remove(0).unwrap(), &NewJob::new("mail"));
        job.started_at = job.started_at.map(|_| Timestamp::EPOCH);
        job.finished_at = job.finished_at.map(|_| Timestamp::EPOCH);
        job.header.run_at = Timestamp::EPOCH;
        for attempt in &mut job.history {
            (attempt.started_at, attempt.ended_at) = (Timestamp::EPOCH, Timestamp::EPOCH);
        }
        match &expected {
            None => expected = Some(job),
            Some(expected) => assert_eq!(job, *expected),
        }
        store.assert_sound().await;
    }
}
