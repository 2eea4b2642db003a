//! Leases at the death of the owner: its own workers died with it, remote workers may return.

use crate::child::{Role, Running, say, stay};
use crate::support::{
    QUEUE, claim, enqueue, get, ids, job, maintain, open, runtime, session, still,
};
use serde::{Deserialize, Serialize};
use std::path::Path;
use windlass_core::engine::{Admin as _, Change, ChangeItem, Claim, ClaimId, Claimant, Configure};
use windlass_core::engine::{Heartbeat, Jobs as _, Lease, Maintain as _, OpenSession, Outcome};
use windlass_core::engine::{SessionId, Settle, SettleItem};
use windlass_core::limits::{
    CRASH_BACKOFF_BASE_MS, CRASH_BACKOFF_JITTER_MS, LEASE_DEFAULT_MS, SESSION_TTL_DEFAULT_MS,
};
use windlass_core::model::{Order, QueuePatch, State};
use windlass_core::time::HOUR_MS;
use windlass_core::{Error, JobId, Result};
use windlass_local::LocalEngine;

const SEED: u64 = 5;

/// A job whose worker ran in the killed process.
const LOCAL: usize = 0;
/// Like [`LOCAL`], but with no crash allowed.
const LOCAL_NEVER_AGAIN: usize = 1;
/// A job leased by a remote worker.
const REMOTE: usize = 2;
/// A job leased without a session.
const ALONE: usize = 3;
/// A job that was not claimed.
const NOBODYS: usize = 4;

fn id(which: usize) -> JobId {
    ids(SEED, windlass_kit::START, 5)[which]
}

/// The sessions and leases before the kill.
#[derive(Serialize, Deserialize)]
struct Held {
    local: SessionId,
    remote: SessionId,
    leases: Vec<Lease>,
}

/// The child: enqueues and claims, reports the leases, and waits to be killed.
pub(crate) fn claim_all(dir: &Path) {
    let engine = open(dir, still()).expect("open");
    runtime().block_on(async {
        let local = session(&engine).await;
        let remote = engine.open_session(OpenSession::new("far").remote()).await;
        let remote = remote.expect("open_session").value.id;
        let alone = Claimant::Alone {
            claim_id: ClaimId::new("alone"),
            worker: "curl".into(),
            lease_ms: LEASE_DEFAULT_MS,
        };
        let by = |session: &SessionId, claim_no| {
            let session = session.clone();
            Claimant::Session { session, claim_no }
        };
        let claimants = [by(&local, 1), by(&local, 2), by(&remote, 1), alone];
        // Enqueued first, with a priority that is claimed last: an enqueue after the last claim would sync that
        // claim.
        enqueue(&engine, job(id(NOBODYS)).priority(1)).await.expect("enqueue");
        let mut leases = Vec::new();
        for (which, by) in claimants.into_iter().enumerate() {
            let max_crashes = if which == LOCAL_NEVER_AGAIN { 0 } else { 5 };
            enqueue(&engine, job(id(which)).max_crashes(max_crashes)).await.expect("enqueue");
            let claimed = engine.claim(Claim::new(by, QUEUE, 1)).await.expect("claim").value;
            leases.push(claimed.jobs[0].lease.clone());
        }
        let held = Held { local, remote, leases };
        say(&serde_json::to_string(&held).expect("JSON"));
        stay();
    });
}

/// Kills the owner of a directory while it holds leases; returns these.
fn killed(dir: &Path) -> Held {
    let mut child = Running::start(&Role::Claim { dir: dir.to_owned() });
    let reported = child.hear().expect("the child says what it holds");
    child.kill();
    serde_json::from_str(&reported).expect("what it held")
}

/// State, attempts and crashes of a job.
async fn state(engine: &LocalEngine, which: usize) -> (State, u32, u32) {
    let job = get(engine, id(which)).await.expect("it is there");
    (job.state, job.header.counters.attempt, job.header.counters.crashes)
}

async fn complete(engine: &LocalEngine, which: usize, held: &Held) -> Result<State> {
    let item = SettleItem::new(id(which), held.leases[which].clone(), Outcome::DONE);
    let mut reply = engine.settle(Settle::new([item])).await?.value;
    reply.items.remove(0).map(|settled| settled.state)
}

#[test]
fn leases_of_a_dead_process_count_as_crashed_without_waiting() {
    let (dir, clock) = (tempfile::tempdir().unwrap(), still());
    let held = killed(dir.path());
    let engine = open(dir.path(), clock.clone()).unwrap();
    runtime().block_on(async {
        // No time has passed, but the sessions have expired: the first reclaim takes the jobs back.
        maintain(&engine).await;
        assert_eq!(state(&engine, LOCAL).await, (State::Scheduled, 1, 1));
        assert_eq!(state(&engine, LOCAL_NEVER_AGAIN).await, (State::Dead, 1, 1));
        assert_eq!(state(&engine, NOBODYS).await, (State::Available, 0, 0));
        let beat = engine.heartbeat(Heartbeat::new(held.local.clone(), 2, Vec::new())).await;
        assert!(matches!(beat, Err(Error::SessionLost { .. })), "{beat:?}");
        for which in [LOCAL, LOCAL_NEVER_AGAIN] {
            let late = complete(&engine, which, &held).await;
            assert!(matches!(late, Err(Error::LeaseLost { .. })), "{late:?}");
        }
        clock.advance(CRASH_BACKOFF_BASE_MS + CRASH_BACKOFF_JITTER_MS);
        maintain(&engine).await;
        let worker = session(&engine).await;
        let again = claim(&engine, &worker, 1, 10).await.unwrap();
        assert_eq!(again.len(), 2);
        assert_eq!(state(&engine, LOCAL).await, (State::Running, 2, 1));
    });
}

#[test]
fn workers_in_other_processes_get_their_time_to_come_back() {
    let (dir, clock) = (tempfile::tempdir().unwrap(), still());
    let held = killed(dir.path());
    // The time without an owner does not count against remote workers.
    clock.advance(HOUR_MS);
    let engine = open(dir.path(), clock.clone()).unwrap();
    runtime().block_on(async {
        clock.advance(SESSION_TTL_DEFAULT_MS - 1);
        maintain(&engine).await;
        assert_eq!(state(&engine, REMOTE).await, (State::Running, 1, 0));
        assert_eq!(state(&engine, ALONE).await, (State::Running, 1, 0));
        let lease = held.leases[REMOTE].clone();
        let holds = vec![windlass_core::engine::Held { id: id(REMOTE), lease }];
        let beat = engine.heartbeat(Heartbeat::new(held.remote.clone(), 1, holds)).await;
        assert_eq!(beat.unwrap().value.lost, []);
        clock.advance(SESSION_TTL_DEFAULT_MS - 1);
        maintain(&engine).await;
        assert_eq!(complete(&engine, REMOTE, &held).await, Ok(State::Completed));
        assert_eq!(complete(&engine, ALONE, &held).await, Ok(State::Completed));
    });
}

#[test]
fn workers_in_other_processes_that_do_not_come_back_are_lost_when_their_time_is_over() {
    let (dir, clock) = (tempfile::tempdir().unwrap(), still());
    let held = killed(dir.path());
    let engine = open(dir.path(), clock.clone()).unwrap();
    runtime().block_on(async {
        for (which, length) in [(REMOTE, SESSION_TTL_DEFAULT_MS), (ALONE, LEASE_DEFAULT_MS)] {
            clock.set(windlass_kit::START.plus(length));
            maintain(&engine).await;
            assert_eq!(state(&engine, which).await, (State::Scheduled, 1, 1));
            let late = complete(&engine, which, &held).await;
            assert!(matches!(late, Err(Error::LeaseLost { .. })), "{late:?}");
        }
    });
}

#[test]
fn a_second_owner_is_refused_with_the_name_of_the_first() {
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
fn a_dropped_handle_frees_the_directory_at_once() {
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

#[test]
fn tenants_of_a_fair_queue_stay_in_order_over_a_restart() {
    let (dir, clock) = (tempfile::tempdir().unwrap(), still());
    let jobs = ids(SEED, windlass_kit::START, 4);
    let fair = || Configure::queue(QUEUE, QueuePatch::order(Order::Fair));
    let runtime = runtime();
    for (round, pair) in jobs.chunks(2).enumerate() {
        let engine = open(dir.path(), clock.clone()).unwrap();
        runtime.block_on(async {
            if round == 0 {
                engine.configure(vec![fair()]).await.unwrap();
            }
            for id in pair {
                enqueue(&engine, job(*id).tenant("a")).await.unwrap();
            }
        });
    }
    let engine = open(dir.path(), clock).unwrap();
    let started = runtime.block_on(async {
        let by = Claimant::Session { session: session(&engine).await, claim_no: 1 };
        let claimed = engine.claim(Claim::new(by, QUEUE, 10)).await.unwrap().value.jobs;
        claimed.iter().map(|job| job.header.id).collect::<Vec<_>>()
    });
    assert_eq!(started, jobs);
}

#[test]
fn a_job_enqueued_again_after_its_removal_is_ready_after_a_restart() {
    let (dir, clock, runtime) = (tempfile::tempdir().unwrap(), still(), runtime());
    let engine = open(dir.path(), clock.clone()).unwrap();
    runtime.block_on(async {
        for which in [LOCAL, REMOTE] {
            enqueue(&engine, job(id(which))).await.unwrap();
        }
        let remote = engine.open_session(OpenSession::new("far").remote()).await.unwrap().value.id;
        // One claim, so that both leases share a row; only the first of them ends.
        let claimed = claim(&engine, &remote, 1, 2).await.unwrap();
        let item = SettleItem::new(id(LOCAL), claimed[0].lease.clone(), Outcome::DONE);
        engine.settle(Settle::new([item])).await.unwrap().value.items.remove(0).unwrap();
        engine.change(vec![ChangeItem::new(id(LOCAL), Change::Discard)]).await.unwrap();
        enqueue(&engine, job(id(LOCAL))).await.unwrap();
    });
    drop(engine);
    let engine = open(dir.path(), clock).unwrap();
    runtime.block_on(async {
        assert_eq!(state(&engine, LOCAL).await, (State::Available, 0, 0));
        assert_eq!(state(&engine, REMOTE).await, (State::Running, 1, 0));
        assert_eq!(engine.check(false).await.unwrap().value.findings, []);
        let worker = session(&engine).await;
        assert_eq!(claim(&engine, &worker, 1, 10).await.unwrap().len(), 1);
    });
}
