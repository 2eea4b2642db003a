//! Replicas that take over: one that has everything, and one that lags behind.

use crate::server::Server;
use crate::trial::Trial;
use crate::waiting::until;
use rustix::process::Signal;
use std::time::Duration;
use windlass_core::JobId;
use windlass_core::engine::*;
use windlass_core::limits::SESSION_TTL_MIN_MS;
use windlass_core::model::{NewJob, State};
use windlass_kit::history;
use windlass_postgres::{Options, PostgresEngine};

/// A server that takes writes, and one that follows it.
struct Pair {
    primary: Server,
    replica: Server,
}

impl Pair {
    async fn start(synchronous: bool) -> Self {
        let mut primary = Server::make_in(&std::env::temp_dir());
        let mut replica = primary.copy();
        let (host, port) = primary.address().split_once(':').map(own).expect("host and port");
        replica.set(format!("primary_conninfo=host={host} port={port} user=postgres"));
        replica.write("standby.signal", "");
        if synchronous {
            primary.set("synchronous_standby_names=*");
        }
        primary.start().await;
        replica.start().await;
        let pair = Self { primary, replica };
        let client = pair.primary.client().await;
        let follows = "SELECT EXISTS (SELECT FROM pg_stat_replication WHERE state = 'streaming')";
        until("the replica follows", async || {
            client.query_one(follows, &[]).await.expect("a row").get(0)
        })
        .await;
        pair
    }

    /// Where clients look for whichever of them takes writes.
    fn url(&self) -> String {
        let (one, other) = (self.primary.address(), self.replica.address());
        format!("postgres://postgres@{one},{other}/postgres")
    }

    /// Waits until the replica has all that was committed by now.
    async fn catch_up(&self) {
        let (primary, replica) = (self.primary.client().await, self.replica.client().await);
        let here = "SELECT pg_current_wal_insert_lsn()::text";
        let here: String = primary.query_one(here, &[]).await.expect("a row").get(0);
        let there = "SELECT pg_last_wal_replay_lsn() >= $1::text::pg_lsn";
        until("the replica has it all", async || {
            replica.query_one(there, &[&here]).await.expect("a row").get(0)
        })
        .await;
    }
}

fn own((one, other): (&str, &str)) -> (String, String) {
    (one.to_owned(), other.to_owned())
}

/// Does not wait within the call: its snapshot may be what the replica waits for, to clear away what it could see.
async fn promote(replica: &Server) {
    let client = replica.client().await;
    let requested = client.query_one("SELECT pg_promote(false)", &[]).await;
    assert!(requested.expect("is asked to").get::<_, bool>(0));
    until("it is promoted", async || {
        client.query_one("SELECT NOT pg_is_in_recovery()", &[]).await.expect("a row").get(0)
    })
    .await;
}

async fn enqueue(engine: &PostgresEngine, kind: &str) -> JobId {
    let added = engine.enqueue(Enqueue::each([NewJob::new(kind)])).await.expect("enqueues");
    added.value[0].as_ref().expect("is taken").id
}

async fn claim(engine: &PostgresEngine, session: &SessionId, claim_no: u64) -> Vec<ClaimedJob> {
    let by = Claimant::Session { session: session.clone(), claim_no };
    engine.claim(Claim::new(by, "default", 10)).await.expect("claims").value.jobs
}

async fn complete(engine: &PostgresEngine, job: &ClaimedJob) -> Item<Settled> {
    let item = SettleItem::new(job.header.id, job.lease.clone(), Outcome::DONE);
    engine.settle(Settle::new([item])).await.expect("settles").value.items.remove(0)
}

async fn epoch(engine: &PostgresEngine) -> Epoch {
    engine.health().await.expect("answers").epoch
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_is_lost_when_a_synchronous_replica_takes_over_and_clients_follow_it() {
    let pair = Pair::start(true).await;
    let url = pair.url();
    let Pair { primary, replica } = pair;
    let mut trial = Trial::start_on(primary, &url, 3).await;
    let before = epoch(&trial.engine).await;
    trial.all_clients_work().await;
    trial.server.kill();
    promote(&replica).await;
    trial.all_clients_work().await;
    assert_ne!(epoch(&trial.engine).await, before, "another timeline is another epoch");
    assert_eq!(trial.sessions_lost(), 0, "sessions are given their time to come back");
    // Claims wait for no replica.
    let verdict = trial.judge(history::Options::default().claims_forgotten()).await;
    verdict.assert_clean();
    assert!(verdict.counts.unanswered > 0, "no call was under way when it was killed");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sessions_are_given_their_time_to_come_back_after_a_promotion() {
    let mut pair = Pair::start(false).await;
    let engine = PostgresEngine::connect(Options::new(pair.url())).await.expect("connects");
    let open = OpenSession::new("w").ttl_ms(SESSION_TTL_MIN_MS);
    let session = engine.open_session(open).await.expect("opens").value.id;
    let id = enqueue(&engine, "held").await;
    let held = claim(&engine, &session, 1).await.remove(0);
    pair.catch_up().await;
    pair.primary.kill();
    // The replica received no heartbeat of the worker.
    tokio::time::sleep(Duration::from_millis(SESSION_TTL_MIN_MS + 200)).await;
    promote(&pair.replica).await;
    let reclaim = MaintainRequest::new(Work::Reclaim, 100);
    until("the engine follows", async || engine.maintain(reclaim).await.is_ok()).await;
    let beat = Heartbeat::new(session, 1, vec![Held { id, lease: held.lease.clone() }]);
    let lost = engine.heartbeat(beat).await.expect("the session stands").value.lost;
    assert!(lost.is_empty(), "{lost:?}");
    complete(&engine, &held).await.expect("its lease stands");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_replica_that_lagged_takes_over_with_another_epoch_and_lost_leases_are_refused() {
    let mut pair = Pair::start(false).await;
    let engine = PostgresEngine::connect(Options::new(pair.url())).await.expect("connects");
    let session = engine.open_session(OpenSession::new("w")).await.expect("opens").value.id;
    enqueue(&engine, "kept").await;
    let kept = claim(&engine, &session, 1).await.remove(0);
    let claimed_late = enqueue(&engine, "kept").await;
    pair.catch_up().await;
    let before = epoch(&engine).await;
    // Commits from here on are acknowledged, but never reach the replica.
    pair.replica.stop(Signal::INT);
    let late = claim(&engine, &session, 2).await.remove(0);
    assert_eq!(late.header.id, claimed_late);
    enqueue(&engine, "lost").await;
    let lost = claim(&engine, &session, 3).await.remove(0);
    complete(&engine, &kept).await.expect("its lease stands");
    pair.primary.kill();
    pair.replica.start().await;
    promote(&pair.replica).await;
    until("the engine follows", async || engine.health().await.is_ok()).await;
    assert_ne!(epoch(&engine).await, before);

    assert_eq!(complete(&engine, &lost).await.expect_err("no such job").code(), "not_found");
    assert_eq!(complete(&engine, &late).await.expect_err("no such lease").code(), "lease_lost");
    assert!(!complete(&engine, &kept).await.expect("its lease stands").already, "it was undone");
    // The lane is gone with its number: what is enqueued to it makes it anew.
    let (other, again) = (enqueue(&engine, "other").await, enqueue(&engine, "lost").await);
    let mut ids: Vec<JobId> =
        claim(&engine, &session, 4).await.iter().map(|job| job.header.id).collect();
    ids.sort_unstable();
    assert_eq!(ids, [claimed_late, other, again]);
    let kinds = engine.get(Get::new([other, again])).await.expect("gets").value;
    let kinds: Vec<_> = kinds.iter().flatten().map(|job| (&*job.header.kind, job.state)).collect();
    assert_eq!(kinds, [("other", State::Running), ("lost", State::Running)]);
    assert_eq!(engine.check(false).await.expect("checks").value.findings, []);
}
