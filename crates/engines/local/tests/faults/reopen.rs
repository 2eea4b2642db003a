//! What a process held when it died: once the directory is open again it is taken back, as crashes,
//! without waiting for sessions to run out.

use crate::child::{Role, Running, say, stay};
use crate::support::{
    QUEUE, claim, enqueue, get, ids, job, maintain, open, runtime, session, still,
};
use std::path::Path;
use windlass_core::Error;
use windlass_core::engine::{Admin as _, Claim, ClaimId, Claimant, Heartbeat, Hot as _};
use windlass_core::engine::{Lease, Outcome, SessionId, Settle, SettleItem};
use windlass_core::limits::{CRASH_BACKOFF_BASE_MS, CRASH_BACKOFF_JITTER_MS, LEASE_DEFAULT_MS};
use windlass_core::model::State;
use windlass_core::time::ManualClock;
use windlass_local::LocalEngine;

const SEED: u64 = 5;
/// The first is held by a session, the second by a claim of its own, the third by nobody; the
/// fourth is held by the session and must not be started again because a worker died.
const JOBS: usize = 4;

/// The child: enqueues, claims, says under which leases, and does nothing more.
pub(crate) fn claim_all(dir: &Path) {
    let engine = open(dir, still()).expect("open");
    runtime().block_on(async {
        let jobs = ids(SEED, windlass_kit::START, JOBS);
        enqueue(&engine, job(jobs[0])).await.expect("enqueue");
        enqueue(&engine, job(jobs[3]).max_crashes(0)).await.expect("enqueue");
        let worker = session(&engine).await;
        let held = claim(&engine, &worker, 1, 2).await.expect("claim");
        assert_eq!(held.len(), 2);
        enqueue(&engine, job(jobs[1])).await.expect("enqueue");
        let by = Claimant::Alone {
            claim_id: ClaimId::new("alone"),
            worker: "curl".into(),
            lease_ms: LEASE_DEFAULT_MS,
        };
        let alone = engine.claim(Claim::new(by, QUEUE, 1)).await.expect("claim").value.jobs;
        enqueue(&engine, job(jobs[2])).await.expect("enqueue");
        let leases = (&worker, &held[0].lease, &alone[0].lease);
        say(&serde_json::to_string(&leases).expect("JSON"));
        stay();
    });
}

/// A directory whose owner was killed while it held jobs: its session, and two leases.
fn killed(dir: &Path) -> (SessionId, Lease, Lease) {
    let mut child = Running::start(&Role::Claim { dir: dir.to_owned() });
    let told = child.hear().expect("the child says what it holds");
    child.kill();
    serde_json::from_str(&told).expect("a session and two leases")
}

async fn state(engine: &LocalEngine, job: usize) -> (State, u32, u32) {
    let id = ids(SEED, windlass_kit::START, JOBS)[job];
    let job = get(engine, id).await.expect("it is there");
    (job.state, job.header.counters.attempt, job.header.counters.crashes)
}

/// Past the delay after a first crash.
async fn pass_backoff(engine: &LocalEngine, clock: &ManualClock) {
    clock.advance(CRASH_BACKOFF_BASE_MS + CRASH_BACKOFF_JITTER_MS);
    maintain(engine).await;
}

#[test]
fn what_a_dead_process_held_counts_as_crashed_when_the_directory_is_opened_again() {
    let (dir, clock) = (tempfile::tempdir().unwrap(), still());
    let (session, held, alone) = killed(dir.path());
    let engine = open(dir.path(), clock.clone()).unwrap();
    runtime().block_on(async {
        // No time has passed: the first reclaim finds that they have run out.
        maintain(&engine).await;
        assert_eq!(state(&engine, 0).await, (State::Scheduled, 1, 1), "held by a session");
        assert_eq!(state(&engine, 1).await, (State::Scheduled, 1, 1), "held by a lone claim");
        assert_eq!(state(&engine, 2).await, (State::Available, 0, 0), "held by nobody");
        assert_eq!(state(&engine, 3).await, (State::Dead, 1, 1), "not to be started again");
        assert!(engine.sessions().await.unwrap().value.is_empty());
        let beat = engine.heartbeat(Heartbeat::new(session, 1, Vec::new())).await;
        assert!(matches!(beat, Err(Error::SessionLost { .. })), "{beat:?}");
        let jobs = ids(SEED, windlass_kit::START, JOBS);
        for (id, lease) in [(jobs[0], held), (jobs[1], alone)] {
            let late = Settle::new([SettleItem::new(id, lease, Outcome::DONE)]);
            let reply = engine.settle(late).await.unwrap().value;
            assert!(matches!(reply.items[0], Err(Error::LeaseLost { .. })), "{reply:?}");
        }
        pass_backoff(&engine, &clock).await;
        let worker = crate::support::session(&engine).await;
        let again = claim(&engine, &worker, 1, 10).await.unwrap();
        assert_eq!(again.len(), 3);
        assert_eq!(state(&engine, 0).await, (State::Running, 2, 1));
    });
}

#[test]
fn a_second_owner_is_told_who_the_first_is() {
    let dir = tempfile::tempdir().unwrap();
    let mut child = Running::start(&Role::Claim { dir: dir.path().to_owned() });
    child.hear().expect("it is open");
    let error = open(dir.path(), still()).unwrap_err();
    let Error::InUse { store, pid, .. } = &error else { panic!("{error}") };
    assert_eq!((store, *pid), (&dir.path().display().to_string(), child.pid()));
    child.kill();
    open(dir.path(), still()).unwrap();
}

#[test]
fn a_handle_dropped_in_good_order_frees_the_directory_at_once() {
    let dir = tempfile::tempdir().unwrap();
    for round in 0..20 {
        let engine = open(dir.path(), still()).unwrap_or_else(|error| panic!("{round}: {error}"));
        let clone = engine.clone();
        let id = ids(round, windlass_kit::START, 1)[0];
        runtime().block_on(enqueue(&engine, job(id))).unwrap();
        drop(engine);
        runtime().block_on(async { assert!(get(&clone, id).await.is_some()) });
        assert!(matches!(open(dir.path(), still()), Err(Error::InUse { .. })));
        drop(clone);
    }
}
