//! Where many claim at a time, claims go through doors: on a server of its own, as the crowd is whoever else has
//! transactions under way there.

#![expect(clippy::unwrap_used, reason = "unwrapping is how the helpers say \"this must hold\" too")]

mod common;

use common::private::PrivateServer;
use std::collections::HashSet;
use std::time::Duration;
use tokio::time::timeout;
use tokio_postgres::{Client, NoTls};
use windlass_core::JobId;
use windlass_core::engine::*;
use windlass_core::model::NewJob;
use windlass_postgres::{Options, PostgresEngine};

/// Others who are under way: with a batch each in their hands, a crowd.
const OTHERS: usize = 12;
const BATCH: u32 = 100;
/// Long enough to see that somebody waits, and longer than anything here should take.
const SHORT: Duration = Duration::from_millis(500);
const LONG: Duration = Duration::from_secs(20);

const HOLD_DOORS: &str = "BEGIN;
    LOCK TABLE windlass.door_0, windlass.door_1, windlass.door_2, windlass.door_3 IN EXCLUSIVE MODE";

struct Place {
    url: String,
    _server: PrivateServer,
}

impl Place {
    fn new() -> Self {
        let mut server = PrivateServer::new();
        server.start(&[]);
        Self {
            url: format!("postgres://postgres@127.0.0.1:{}/postgres", server.port),
            _server: server,
        }
    }

    async fn client(&self) -> Client {
        let (client, connection) = tokio_postgres::connect(&self.url, NoTls).await.unwrap();
        tokio::spawn(connection);
        client
    }

    /// Transactions that have written something and go on.
    async fn others(&self) -> Vec<Client> {
        let mut others = Vec::new();
        for _ in 0..OTHERS {
            let client = self.client().await;
            client.batch_execute("BEGIN; SELECT pg_current_xact_id()").await.unwrap();
            others.push(client);
        }
        // A snapshot names those that began before the last one that ended.
        self.client().await.batch_execute("SELECT pg_current_xact_id()").await.unwrap();
        others
    }

    async fn worker(&self) -> Process {
        let engine = PostgresEngine::connect(Options::new(&self.url)).await.unwrap();
        let session = engine.open_session(OpenSession::new("w")).await.unwrap().value.id;
        Process { engine, session, claim_no: 0 }
    }

    /// How often a claim through a door has said how far it has come.
    async fn reached(&self) -> i64 {
        let count = "SELECT count(*) FROM windlass.reached";
        self.client().await.query_one(count, &[]).await.unwrap().get(0)
    }
}

/// A worker with connections of its own.
struct Process {
    engine: PostgresEngine,
    session: SessionId,
    claim_no: u64,
}

impl Process {
    async fn fill(&self, jobs: usize) {
        let jobs = (0..jobs).map(|_| NewJob::new("k"));
        for item in self.engine.enqueue(Enqueue::each(jobs)).await.unwrap().value {
            item.unwrap();
        }
    }

    async fn claim(&mut self, limit: u32) -> Vec<ClaimedJob> {
        self.claim_no += 1;
        let by = Claimant::Session { session: self.session.clone(), claim_no: self.claim_no };
        self.engine.claim(Claim::new(by, "default", limit)).await.unwrap().value.jobs
    }

    async fn complete(&self, jobs: &[ClaimedJob]) {
        let item =
            |job: &ClaimedJob| SettleItem::new(job.header.id, job.lease.clone(), Outcome::DONE);
        let settled = self.engine.settle(Settle::new(jobs.iter().map(item))).await.unwrap().value;
        assert!(settled.items.iter().all(|item| !item.as_ref().unwrap().already));
    }
}

#[tokio::test]
async fn claims_wait_at_doors_while_there_is_a_crowd_and_no_longer() {
    let place = Place::new();
    let (mut one, mut another) = (place.worker().await, place.worker().await);
    let keeper = place.client().await;
    one.fill(10 * BATCH as usize).await;
    assert_eq!(one.claim(BATCH).await.len(), BATCH as usize);
    keeper.batch_execute(HOLD_DOORS).await.unwrap();
    assert_eq!(one.claim(BATCH).await.len(), BATCH as usize, "there is nobody else");

    let crowd = place.others().await;
    assert_eq!(one.claim(BATCH).await.len(), BATCH as usize, "it sees them by now");
    {
        let mut waits = Box::pin(one.claim(BATCH));
        assert!(timeout(SHORT, &mut waits).await.is_err(), "the doors are held");
        assert_eq!(another.claim(1).await.len(), 1, "who has met no crowd does not wait");
        assert_eq!(another.claim(1).await.len(), 1, "nor who takes little");
        keeper.batch_execute("COMMIT").await.unwrap();
        let taken = timeout(LONG, waits).await.expect("the doors are free");
        assert_eq!(taken.len(), BATCH as usize);
    }
    assert_eq!(place.reached().await, 1);

    drop(crowd);
    // Some more come through a door without waiting, and so it is found that there is no crowd.
    let deadline = tokio::time::Instant::now() + LONG;
    loop {
        let before = place.reached().await;
        assert_eq!(one.claim(1).await.len(), 1);
        if place.reached().await == before {
            break;
        }
        assert!(tokio::time::Instant::now() < deadline, "claims go through doors for ever");
    }
    keeper.batch_execute(HOLD_DOORS).await.unwrap();
    assert_eq!(timeout(LONG, one.claim(1)).await.expect("does not wait").len(), 1);
}

#[tokio::test]
async fn what_commits_behind_a_crowd_is_found_by_all_of_it() {
    let place = Place::new();
    let (mut one, mut other) = (place.worker().await, place.worker().await);
    let _crowd = place.others().await;
    let mut application = place.client().await;
    let transaction = application.transaction().await.unwrap();
    let late = Enqueue::each((0..3 * BATCH).map(|_| NewJob::new("k")));
    let late = one.engine.enqueue_in(&transaction, late).await.unwrap().value;
    let late: HashSet<JobId> = late.into_iter().map(|item| item.unwrap().id).collect();
    one.fill(20 * BATCH as usize).await;
    for _ in 0..4 {
        for process in [&mut one, &mut other] {
            let taken = process.claim(BATCH).await;
            assert!(taken.iter().all(|job| !late.contains(&job.header.id)));
        }
    }
    assert!(place.reached().await >= 6, "they went through doors");
    transaction.commit().await.unwrap();
    // As soon as they have heard of it, they look there again, long before the rest is taken.
    let (mut found, mut others) = (HashSet::new(), 0);
    while found.len() < late.len() {
        for process in [&mut one, &mut other] {
            for job in process.claim(10).await {
                match late.contains(&job.header.id) {
                    true => drop(found.insert(job.header.id)),
                    false => others += 1,
                }
            }
        }
        assert!(others < 6 * BATCH, "{} of {} while {others} others", found.len(), late.len());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn through_doors_each_job_is_taken_once_and_none_is_left() {
    let place = Place::new();
    let _crowd = place.others().await;
    let mut workers = Vec::new();
    for _ in 0..8 {
        workers.push(place.worker().await);
    }
    let jobs = 80 * BATCH as usize;
    workers[0].fill(jobs).await;
    let draining = workers.into_iter().map(|mut worker| {
        tokio::spawn(async move {
            let mut taken = Vec::new();
            loop {
                let jobs = worker.claim(BATCH).await;
                if jobs.is_empty() {
                    return taken;
                }
                worker.complete(&jobs).await;
                taken.extend(jobs.into_iter().map(|job| job.header.id));
            }
        })
    });
    let mut taken = Vec::new();
    for drained in futures_util::future::join_all(draining).await {
        taken.extend(drained.unwrap());
    }
    let different: HashSet<JobId> = taken.iter().copied().collect();
    assert_eq!((taken.len(), different.len()), (jobs, jobs));
    assert!(place.reached().await > 0, "they went through doors");
    let engine = place.worker().await.engine;
    assert_eq!(engine.check(false).await.unwrap().value.findings, []);
    // Compaction leaves one row a lane of how far they have come.
    engine.maintain(MaintainRequest::new(Work::Compact, 100)).await.unwrap();
    assert_eq!(place.reached().await, 1);
}
