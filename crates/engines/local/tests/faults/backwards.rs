//! A clock that goes backwards: no job is lost, and no lease ends early.

use crate::support::{claim, enqueue, get, ids, job, maintain, open, runtime, session, still};
use windlass_core::engine::{Heartbeat, Held, Jobs as _, Outcome, Settle, SettleItem};
use windlass_core::limits::SESSION_TTL_DEFAULT_MS;
use windlass_core::model::{Due, State};
use windlass_core::time::{Clock as _, HOUR_MS, SECOND_MS};

const BACK_MS: u64 = HOUR_MS;

#[test]
fn a_clock_set_back_loses_no_jobs_and_no_leases() {
    let (dir, clock) = (tempfile::tempdir().unwrap(), still());
    let engine = open(dir.path(), clock.clone()).unwrap();
    runtime().block_on(async {
        let jobs = ids(1, clock.now(), 5);
        let [running, waiting, delayed, later, latest] = jobs[..] else { panic!() };
        enqueue(&engine, job(running)).await.unwrap();
        let worker = session(&engine).await;
        let held = claim(&engine, &worker, 1, 1).await.unwrap();
        assert_eq!(held[0].header.id, running);
        enqueue(&engine, job(waiting)).await.unwrap();
        enqueue(&engine, job(delayed).due(Due::After(10 * SECOND_MS))).await.unwrap();
        clock.set(clock.now().minus(BACK_MS));
        maintain(&engine).await;
        assert_eq!(get(&engine, running).await.unwrap().state, State::Running);
        // Ready jobs stay ready, and new jobs are ready too.
        enqueue(&engine, job(later)).await.unwrap();
        let other = session(&engine).await;
        let taken = claim(&engine, &other, 1, 10).await.unwrap();
        let mut taken: Vec<_> = taken.iter().map(|job| job.header.id).collect();
        taken.sort_unstable();
        let mut expected = vec![waiting, later];
        expected.sort_unstable();
        assert_eq!(taken, expected);
        // A new delay counts from the new time.
        enqueue(&engine, job(latest).due(Due::After(SECOND_MS))).await.unwrap();
        clock.advance(SECOND_MS);
        maintain(&engine).await;
        assert_eq!(get(&engine, latest).await.unwrap().state, State::Available);
        assert_eq!(get(&engine, delayed).await.unwrap().state, State::Scheduled);
        // The worker's heartbeat and settle succeed as usual.
        let lease = held[0].lease.clone();
        let beat = Heartbeat::new(worker, 1, vec![Held { id: running, lease: lease.clone() }]);
        let reply = engine.heartbeat(beat).await.unwrap().value;
        assert!(reply.lost.is_empty());
        let done = Settle::new([SettleItem::new(running, lease, Outcome::DONE)]);
        let reply = engine.settle(done).await.unwrap().value;
        assert_eq!(reply.items[0].as_ref().unwrap().state, State::Completed);
        // A silent session expires after its own length, not an hour later.
        clock.advance(SESSION_TTL_DEFAULT_MS - SECOND_MS - 1);
        maintain(&engine).await;
        assert_eq!(get(&engine, waiting).await.unwrap().state, State::Running);
        clock.advance(2);
        maintain(&engine).await;
        let lost = get(&engine, waiting).await.unwrap();
        assert_eq!((lost.state, lost.header.counters.crashes), (State::Scheduled, 1));
        // The delayed job is due when the clock reaches its time again.
        clock.advance(BACK_MS + 10 * SECOND_MS);
        maintain(&engine).await;
        assert_eq!(get(&engine, delayed).await.unwrap().state, State::Available);
    });
}

#[test]
fn a_directory_opened_in_its_past_loses_nothing() {
    let (dir, clock) = (tempfile::tempdir().unwrap(), still());
    let engine = open(dir.path(), clock.clone()).unwrap();
    let jobs = ids(1, clock.now(), 3);
    runtime().block_on(async {
        for id in &jobs {
            enqueue(&engine, job(*id)).await.unwrap();
        }
        let worker = session(&engine).await;
        claim(&engine, &worker, 1, 1).await.unwrap();
    });
    drop(engine);
    clock.set(clock.now().minus(BACK_MS));
    let engine = open(dir.path(), clock.clone()).unwrap();
    runtime().block_on(async {
        let worker = session(&engine).await;
        let held = claim(&engine, &worker, 1, 10).await.unwrap();
        assert!(held.len() >= 2, "{held:?}");
        clock.advance(BACK_MS + 2 * SESSION_TTL_DEFAULT_MS);
        maintain(&engine).await;
        clock.advance(SESSION_TTL_DEFAULT_MS);
        maintain(&engine).await;
        for id in jobs {
            assert_eq!(get(&engine, id).await.unwrap().state, State::Available);
        }
    });
}
