//! Several engines on one database, as several processes would have them.

use crate::common::{OwnSchema, application, open, url};
use std::time::Duration;
use windlass_core::JobId;
use windlass_core::engine::*;
use windlass_core::model::{AttemptEnd, NewJob, State};
use windlass_core::policy::Unique;
use windlass_postgres::{Options, PostgresEngine};

/// As many processes start at once after a deployment.
const MANY: usize = 10;
/// Longer than anything here should take.
const LONG_MS: u64 = 20_000;

async fn many(schema: &OwnSchema) -> Vec<PostgresEngine> {
    let opening = (0..MANY).map(|_| open(schema));
    futures_util::future::join_all(opening).await
}

async fn add(engine: &PostgresEngine, job: NewJob) -> Enqueued {
    let added = engine.enqueue(Enqueue::each([job])).await.expect("enqueues").value;
    added.into_iter().next().expect("one answer").expect("is taken")
}

async fn claim(engine: &PostgresEngine, session: &SessionId, claim_no: u64) -> Vec<ClaimedJob> {
    let by = Claimant::Session { session: session.clone(), claim_no };
    engine.claim(Claim::new(by, "default", 10)).await.expect("claims").value.jobs
}

async fn complete(engine: &PostgresEngine, job: &ClaimedJob) -> Item<Settled> {
    let item = SettleItem::new(job.header.id, job.lease.clone(), Outcome::DONE);
    let reply = engine.settle(Settle::new([item])).await.expect("settles").value;
    reply.items.into_iter().next().expect("one answer")
}

async fn state(engine: &PostgresEngine, id: JobId) -> State {
    let jobs = engine.get(Get::new([id])).await.expect("gets").value;
    jobs[0].as_ref().expect("it exists").state
}

#[tokio::test]
async fn ten_that_start_at_once_make_the_tables_once() {
    let schema = OwnSchema::new();
    let engines = many(&schema).await;
    for engine in &engines {
        add(engine, NewJob::new("hello")).await;
    }
    let lanes = engines[0].stats(StatsRequest::default()).await.unwrap().value;
    assert_eq!((lanes.len(), lanes[0].available), (1, MANY as u64));
    let epochs = futures_util::future::join_all(engines.iter().map(Admin::health)).await;
    let first = epochs[0].as_ref().unwrap().epoch.clone();
    assert!(epochs.into_iter().all(|health| health.unwrap().epoch == first), "one store");
}

#[tokio::test]
async fn schemas_of_one_database_know_nothing_of_each_other() {
    let (one, other) = (OwnSchema::new(), OwnSchema::new());
    let (one, other) = (open(&one).await, open(&other).await);
    let id = add(&one, NewJob::new("hello")).await.id;
    assert_eq!(state(&one, id).await, State::Available);
    assert_eq!(other.get(Get::new([id])).await.unwrap().value, [None]);
}

#[tokio::test]
async fn a_unique_key_is_held_once_however_many_processes_want_it() {
    let schema = OwnSchema::new();
    let engines = many(&schema).await;
    for round in 0..5 {
        let job = || NewJob::new("once").unique(Unique::by(format!("key {round}")));
        let adding = engines.iter().map(|engine| add(engine, job()));
        let added = futures_util::future::join_all(adding).await;
        let created = |added: &&Enqueued| added.disposition == Disposition::Created;
        assert_eq!(added.iter().filter(created).count(), 1, "{added:?}");
        assert!(added.iter().all(|other| other.id == added[0].id), "{added:?}");
    }
    assert_eq!(engines[0].check(false).await.unwrap().value.findings, []);
}

#[tokio::test]
async fn a_lease_holds_on_every_process_and_a_stale_one_on_none() {
    let schema = OwnSchema::new();
    let (one, other) = (open(&schema).await, open(&schema).await);
    let id = add(&one, NewJob::new("hello")).await.id;
    let opened = one.open_session(OpenSession::new("w")).await.unwrap().value.id;
    let first = claim(&one, &opened, 1).await.remove(0);
    assert!(claim(&other, &opened, 2).await.is_empty(), "it is leased");
    assert_eq!(claim(&other, &opened, 1).await[0], first, "the same claim, elsewhere");
    other.close_session(opened).await.unwrap();
    let again = other.open_session(OpenSession::new("w")).await.unwrap().value.id;
    let second = claim(&other, &again, 1).await.remove(0);
    let stale = complete(&one, &first).await.unwrap();
    assert_eq!(
        (stale.already, stale.end),
        (true, AttemptEnd::Release),
        "it ended with its session"
    );
    assert_eq!(state(&other, id).await, State::Running);
    assert!(!complete(&one, &second).await.unwrap().already);
    assert!(complete(&other, &second).await.unwrap().already);
    assert_eq!(state(&one, id).await, State::Completed);
}

#[tokio::test]
async fn a_waiter_is_woken_by_another_process() {
    let schema = OwnSchema::new();
    let (one, other) = (open(&schema).await, open(&schema).await);
    let waiter = tokio::spawn(async move {
        other.wait(Wait::new(["default"], LONG_MS)).await.expect("waits").value
    });
    tokio::task::yield_now().await;
    add(&one, NewJob::new("hello")).await;
    assert!(waiter.await.unwrap());
}

/// A claim concludes that skipped rows are gone, which is right if no claim locks rows that it does not take.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn claims_of_many_lanes_lock_only_the_jobs_they_take() {
    let schema = OwnSchema::new();
    let engines = many(&schema).await;
    let (lanes, jobs) = (20, 1_500);
    let job = |n: usize| NewJob::new(format!("kind-{}", n % lanes)).priority((n % 3) as i32);
    for item in engines[0].enqueue(Enqueue::each((0..jobs).map(job))).await.unwrap().value {
        item.unwrap();
    }
    // Each takes what it can beside the others,
    let at_once = engines.iter().map(|engine| async move {
        let session = engine.open_session(OpenSession::new("w")).await.unwrap().value.id;
        let mut taken = Vec::new();
        for claim_no in 1..=10 {
            taken.extend(claim(engine, &session, claim_no).await);
        }
        (engine, session, taken)
    });
    let mut all = futures_util::future::join_all(at_once).await;
    // No claim ever locked the remaining rows,
    let client = application().await;
    let locked = format!("SELECT count(*) FROM {}.ready WHERE xmax <> '0'", schema.name);
    let locked: i64 = client.query_one(&locked, &[]).await.unwrap().get(0);
    assert_eq!(locked, 0, "rows were locked and not taken");
    // and any of them sees all of it.
    let (engine, session, taken) = &mut all[0];
    for claim_no in 11.. {
        let found = claim(engine, session, claim_no).await;
        if found.is_empty() {
            break;
        }
        taken.extend(found);
    }
    let ids: Vec<JobId> =
        all.iter().flat_map(|(_, _, taken)| taken).map(|job| job.header.id).collect();
    let different: std::collections::HashSet<&JobId> = ids.iter().collect();
    assert_eq!((ids.len(), different.len()), (jobs, jobs), "each is claimed, and once");
}

#[tokio::test]
async fn a_job_that_a_claim_skipped_while_a_refused_change_locked_it_is_found_at_once() {
    let schema = OwnSchema::new();
    let engine = open(&schema).await;
    let session = engine.open_session(OpenSession::new("w")).await.unwrap().value.id;
    let session = &session;
    let jobs = 300;
    let added = engine.enqueue(Enqueue::each((0..jobs).map(|_| NewJob::new("a")))).await.unwrap();
    let ids: Vec<JobId> = added.value.into_iter().map(|item| item.unwrap().id).collect();
    // Ready jobs cannot be replayed, but each attempt locks them.
    let replays = ids.chunks(8).map(|ids| async {
        let replay = |id: &JobId| ChangeItem::new(*id, Change::Replay(Box::default()));
        engine.change(ids.iter().map(replay).collect()).await.unwrap();
    });
    let claims = async {
        let mut taken = 0;
        for claim_no in 1..=20 {
            taken += claim(&engine, session, claim_no).await.len();
        }
        taken
    };
    let (_, taken) = tokio::join!(futures_util::future::join_all(replays), claims);
    let by = Claimant::Session { session: session.clone(), claim_no: 21 };
    let rest = engine.claim(Claim::new(by, "default", jobs)).await.unwrap().value.jobs;
    assert_eq!(taken + rest.len(), jobs as usize, "nothing locks them any more");
}

#[tokio::test]
async fn a_pause_holds_at_once_on_every_process() {
    let schema = OwnSchema::new();
    let (one, other) = (open(&schema).await, open(&schema).await);
    add(&one, NewJob::new("hello")).await;
    let session = other.open_session(OpenSession::new("w")).await.unwrap().value.id;
    let paused = |paused| {
        let patch = windlass_core::model::QueuePatch::paused(paused);
        vec![Configure::queue("default", patch)]
    };
    one.configure(paused(true)).await.unwrap();
    assert!(claim(&other, &session, 1).await.is_empty());
    one.configure(paused(false)).await.unwrap();
    assert_eq!(claim(&other, &session, 2).await.len(), 1);
}

#[tokio::test]
async fn connections_that_the_server_ends_are_replaced() {
    let schema = OwnSchema::new();
    let engine = open(&schema).await;
    add(&engine, NewJob::new("before")).await;
    let (client, connection) =
        tokio_postgres::connect(&url(), tokio_postgres::NoTls).await.expect("connects");
    tokio::spawn(connection);
    // Connections of this engine only: other tests run at the same time.
    let ours = format!(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity
            WHERE query LIKE '%{}%' AND pid <> pg_backend_pid()",
        schema.name
    );
    client.batch_execute(&ours).await.expect("ends them");
    let deadline = tokio::time::Instant::now() + Duration::from_millis(LONG_MS);
    loop {
        // A call may fail while the store is away; the next ones succeed.
        match engine.enqueue(Enqueue::each([NewJob::new("after")])).await {
            Ok(_) => break,
            Err(error) => assert_eq!(error.code(), "unavailable", "{error}"),
        }
        assert!(tokio::time::Instant::now() < deadline, "it never came back");
    }
    let lanes = engine.stats(StatsRequest::default()).await.expect("stats").value;
    assert!(lanes.iter().any(|lane| &*lane.kind == "after" && lane.available >= 1), "{lanes:?}");
}

#[tokio::test]
async fn an_unreachable_url_is_reported_without_its_password() {
    for url in ["postgres://ada:s3cr3t@127.0.0.1:1/jobs", "postgres://ada:s3cr3t@127.0.0.1:x/jobs"]
    {
        let error = PostgresEngine::connect(Options::new(url)).await.unwrap_err();
        assert!(!error.to_string().contains("s3cr3t"), "{error}");
    }
}

#[tokio::test]
async fn a_check_repairs_damaged_rows() {
    let schema = OwnSchema::new();
    let engine = open(&schema).await;
    let ids =
        [add(&engine, NewJob::new("a")).await.id, add(&engine, NewJob::new("b").key("k")).await.id];
    let (client, connection) =
        tokio_postgres::connect(&url(), tokio_postgres::NoTls).await.expect("connects");
    tokio::spawn(connection);
    let name = &schema.name;
    let damage = format!("DELETE FROM \"{name}\".ready; DELETE FROM \"{name}\".key_holder");
    client.batch_execute(&damage).await.expect("breaks it");
    let found = engine.check(false).await.unwrap().value;
    assert_eq!((found.jobs, found.findings.len()), (2, 3), "{found:?}");
    assert!(engine.check(true).await.unwrap().value.findings.iter().all(|f| f.repaired));
    assert_eq!(engine.check(false).await.unwrap().value.findings, []);
    let session = engine.open_session(OpenSession::new("w")).await.unwrap().value.id;
    let mut claimed: Vec<JobId> =
        claim(&engine, &session, 1).await.iter().map(|job| job.header.id).collect();
    claimed.sort_unstable();
    assert_eq!(claimed, ids);
}
