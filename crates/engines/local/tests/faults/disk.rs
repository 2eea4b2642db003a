//! A full disk: new jobs are refused with a clear error, all other calls continue with the help of the reserve, no
//! acknowledged job is lost, and new jobs are accepted again once there is space.

use crate::small_disk::SmallDisk;
use crate::support::{
    QUEUE, assert_sound, claim, copy, enqueue, get, ids, job, maintain, open, runtime, session,
    still, wal,
};
use std::path::{Path, PathBuf};
use std::process::Command;
use windlass_core::engine::{
    Admin as _, Change, ChangeItem, ClaimedJob, Get, Heartbeat, Jobs as _, Outcome, Settle,
    SettleItem, StatsRequest,
};
use windlass_core::model::{NewJob, Part, State};
use windlass_core::time::Clock as _;
use windlass_core::{Error, JobId};
use windlass_local::LocalEngine;

/// Size of the disk.
const DISK_MB: u32 = 96;
/// Bytes that another user of the disk leaves free.
const LEFT_BYTES: u64 = 3 * 1024 * 1024;
const PAYLOAD_BYTES: usize = 30_000;
/// More jobs of [`PAYLOAD_BYTES`] than there is space for.
const JOBS_MAX: usize = 2_000;
/// Number of large jobs, more than the log and the reserve can hold.
const LARGE_JOBS: u32 = 90;
/// Size of the blob of a large job.
const LARGE_BYTES: usize = 500_000;

/// Mounts a small disk; returns it with the directory of the store on it.
fn small_disk() -> Option<(SmallDisk, PathBuf)> {
    let disk = SmallDisk::mount(DISK_MB)?;
    let dir = disk.path().join("store");
    Some((disk, dir))
}

/// Asserts that an error reports a full disk and names the directory.
fn assert_full(error: &Error, dir: &Path) {
    let Error::StoreFull { store, reason } = error else { panic!("{error}") };
    assert!(store.contains(&*dir.to_string_lossy()), "{error}");
    assert!(reason.contains("disk is full"), "{error}");
}

/// Enqueues until the disk is full. Returns the acknowledged jobs and the first refused one.
async fn enqueue_until_full(engine: &LocalEngine, dir: &Path, seed: u64) -> (Vec<JobId>, JobId) {
    let mut acknowledged = Vec::new();
    for id in ids(seed, windlass_kit::START, JOBS_MAX) {
        match enqueue(engine, job(id).payload(vec![7; PAYLOAD_BYTES])).await {
            Ok(()) => acknowledged.push(id),
            Err(error) => {
                assert_full(&error, dir);
                return (acknowledged, id);
            }
        }
    }
    panic!("the disk never got full");
}

async fn assert_all(engine: &LocalEngine, jobs: &[JobId], state: State) {
    for page in jobs.chunks(100) {
        let found = engine.get(Get::new(page.iter().copied())).await.expect("get").value;
        let states: Vec<_> = found.iter().map(|job| job.as_ref().map(|job| job.state)).collect();
        assert!(states.iter().all(|found| *found == Some(state)), "{states:?}");
    }
}

/// Enqueues many jobs concurrently on a full disk. Returns the acknowledged ones.
async fn enqueue_together(engine: &LocalEngine, dir: &Path) -> Vec<JobId> {
    let mut tasks = tokio::task::JoinSet::new();
    for id in ids(77, windlass_kit::START, 32) {
        let engine = engine.clone();
        let job = job(id).payload(vec![7; PAYLOAD_BYTES]);
        tasks.spawn(async move { (id, enqueue(&engine, job).await) });
    }
    let mut acknowledged = Vec::new();
    while let Some(ended) = tasks.join_next().await {
        match ended.expect("no panic") {
            (id, Ok(())) => acknowledged.push(id),
            (_, Err(error)) => assert_full(&error, dir),
        }
    }
    acknowledged
}

async fn settle(engine: &LocalEngine, job: &ClaimedJob, outcome: Outcome) -> Result<(), Error> {
    let item = SettleItem::new(job.header.id, job.lease.clone(), outcome);
    let reply = engine.settle(Settle::new([item])).await?;
    reply.value.items[0].clone().map(|_| ())
}

/// Completes a job with a large follow-up, which needs space.
async fn settle_with_follow_up(engine: &LocalEngine, job: &ClaimedJob) -> Result<(), Error> {
    let mut follow_up = NewJob::new("next").queue("later");
    follow_up.parts.blob = Some(Part::new(vec![7; LARGE_BYTES]));
    let item = SettleItem::new(job.header.id, job.lease.clone(), Outcome::DONE);
    let reply = engine.settle(Settle::new([item.follow_up(follow_up)])).await?;
    reply.value.items[0].clone().map(|_| ())
}

/// Completes all jobs and returns their number.
async fn complete_all(engine: &LocalEngine) -> usize {
    let (session, mut done) = (session(engine).await, 0);
    for claim_no in 1..1_000 {
        let jobs = claim(engine, &session, claim_no, 50).await.expect("claim");
        if jobs.is_empty() {
            break;
        }
        done += jobs.len();
        let items =
            jobs.iter().map(|job| SettleItem::new(job.header.id, job.lease.clone(), Outcome::DONE));
        let reply = engine.settle(Settle::new(items)).await.expect("settle").value;
        assert!(reply.items.iter().all(Result::is_ok), "{:?}", reply.items);
    }
    done
}

#[test]
fn a_full_disk_loses_nothing_and_the_engine_goes_on_when_there_is_space() {
    let Some((disk, dir)) = small_disk() else { return };
    let engine = open(&dir, still()).unwrap();
    assert_eq!(engine.space().shortage(), None);
    disk.fill_to(LEFT_BYTES);
    let acknowledged = runtime().block_on(async {
        let (mut acknowledged, refused) = enqueue_until_full(&engine, &dir, 1).await;
        assert!(acknowledged.len() > 10, "only {} fitted", acknowledged.len());
        assert!(engine.space().shortage().is_some());
        acknowledged.extend(enqueue_together(&engine, &dir).await);
        // The jobs can still be read.
        assert_all(&engine, &acknowledged, State::Available).await;
        engine.stats(StatsRequest::queue(QUEUE)).await.expect("stats");
        disk.free();
        // The next call on the same handle finds the space, and the refused enqueue can be repeated.
        enqueue(&engine, job(refused)).await.expect("there is space again");
        assert_eq!(engine.space().shortage(), None);
        acknowledged.push(refused);
        for id in ids(2, windlass_kit::START, 20) {
            enqueue(&engine, job(id)).await.expect("there is space again");
            acknowledged.push(id);
        }
        assert_all(&engine, &acknowledged, State::Available).await;
        acknowledged
    });
    drop(engine);
    assert_sound(copy(&dir).path());
    let engine = open(&dir, still()).unwrap();
    runtime().block_on(async {
        assert_eq!(complete_all(&engine).await, acknowledged.len());
        assert_all(&engine, &acknowledged, State::Completed).await;
    });
}

#[test]
fn workers_on_a_full_disk_claim_settle_and_heartbeat_as_usual() {
    let Some((disk, dir)) = small_disk() else { return };
    let engine = open(&dir, still()).unwrap();
    runtime().block_on(async {
        let worker = session(&engine).await;
        let early = ids(2, windlass_kit::START, 10);
        for id in &early {
            enqueue(&engine, job(*id)).await.expect("there is space");
        }
        let held = claim(&engine, &worker, 1, 10).await.expect("claim");
        assert_eq!(held.len(), early.len());
        disk.fill_to(LEFT_BYTES);
        let (acknowledged, refused) = enqueue_until_full(&engine, &dir, 1).await;
        for job in &held {
            // Another user takes every byte that was released and not used at once.
            disk.fill();
            settle(&engine, job, Outcome::DONE).await.expect("settle");
        }
        for claim_no in 2..30 {
            disk.fill();
            let beat = Heartbeat::new(worker.clone(), claim_no - 1, Vec::new());
            engine.heartbeat(beat).await.expect("heartbeat");
            for job in claim(&engine, &worker, claim_no, 1).await.expect("claim") {
                settle(&engine, &job, Outcome::DONE).await.expect("settle");
            }
            let error = enqueue(&engine, job(refused)).await.unwrap_err();
            assert_full(&error, &dir);
        }
        let last = *acknowledged.last().expect("some fitted");
        let cancelled = engine.change(vec![ChangeItem::new(last, Change::Cancel)]).await;
        cancelled.expect("cancel").value.remove(0).expect("it can be cancelled");
        complete_all(&engine).await;
        assert_all(&engine, &acknowledged[..acknowledged.len() - 1], State::Completed).await;
        assert_all(&engine, &early, State::Completed).await;
    });
    drop(engine);
    assert_sound(copy(&dir).path());
}

#[test]
fn when_the_reserve_is_used_up_results_are_refused_clearly_and_taken_when_there_is_space() {
    let Some((disk, dir)) = small_disk() else { return };
    let engine = open(&dir, still()).unwrap();
    runtime().block_on(async {
        let worker = session(&engine).await;
        let early = ids(2, windlass_kit::START, LARGE_JOBS as usize);
        for id in &early {
            enqueue(&engine, job(*id)).await.expect("there is space");
        }
        let held = claim(&engine, &worker, 1, LARGE_JOBS).await.expect("claim");
        let (mut done, mut refused) = (0, 0);
        for job in &held {
            disk.fill();
            match settle_with_follow_up(&engine, job).await {
                Ok(()) => done += 1,
                Err(error) => {
                    assert_full(&error, &dir);
                    refused += 1;
                }
            }
        }
        assert!(done > 5 && refused > 5, "{done} taken, {refused} refused");
        disk.free();
        for job in &held {
            settle_with_follow_up(&engine, job)
                .await
                .expect("there is space, and its lease stands");
        }
        assert_all(&engine, &early, State::Completed).await;
        enqueue(&engine, job(ids(3, windlass_kit::START, 1)[0])).await.expect("there is space");
    });
}

#[test]
fn a_store_on_a_full_disk_opens_to_read_and_settle() {
    let Some((disk, dir)) = small_disk() else { return };
    let engine = open(&dir, still()).unwrap();
    disk.fill_to(LEFT_BYTES);
    let (acknowledged, refused) = runtime().block_on(enqueue_until_full(&engine, &dir, 1));
    drop(engine);
    for round in 0..3 {
        disk.fill();
        let engine = open(&dir, still()).unwrap();
        runtime().block_on(async {
            assert_all(&engine, &acknowledged[round..], State::Available).await;
            assert_full(&enqueue(&engine, job(refused)).await.unwrap_err(), &dir);
            let by = session(&engine).await;
            let jobs = claim(&engine, &by, 1, 1).await.expect("claim");
            settle(&engine, &jobs[0], Outcome::DONE).await.expect("settle");
        });
    }
    let other = disk.path().join("other");
    disk.fill();
    assert_full(&open(&other, still()).unwrap_err(), &other);
    disk.free();
    let engine = open(&dir, still()).unwrap();
    runtime().block_on(async {
        assert_all(&engine, &acknowledged[3..], State::Available).await;
        assert!(get(&engine, acknowledged[0]).await.is_some());
        enqueue(&engine, job(refused)).await.expect("there is space again");
    });
}

#[test]
fn retention_makes_room_for_new_jobs_on_a_full_disk() {
    let Some((disk, dir)) = small_disk() else { return };
    let clock = still();
    let engine = open(&dir, clock.clone()).unwrap();
    disk.fill_to(4 * LEFT_BYTES);
    runtime().block_on(async {
        let (acknowledged, _) = enqueue_until_full(&engine, &dir, 1).await;
        assert_eq!(complete_all(&engine).await, acknowledged.len());
        // After the retention of completed jobs.
        clock.advance(8 * 24 * 3_600_000);
        for _ in 0..20 {
            maintain(&engine).await;
            clock.advance(1_000);
        }
        assert!(get(&engine, acknowledged[0]).await.is_none());
        let id = ids(9, clock.now(), 1)[0];
        enqueue(&engine, job(id)).await.expect("what was removed made room");
        assert_eq!(engine.space().shortage(), None);
    });
}

/// Commits often enough for the log to be filled with zeros, if there is room.
async fn commit_often(engine: &LocalEngine) -> Vec<JobId> {
    let ids = ids(3, windlass_kit::START, 40);
    for id in &ids {
        enqueue(engine, job(*id)).await.expect("enqueue");
    }
    // The log is filled after the replies, so one more call waits for that.
    engine.health().await.expect("health");
    ids
}

#[test]
fn a_disk_with_little_room_keeps_it_for_jobs() {
    for (megabytes, is_filled) in [(40, false), (DISK_MB, true)] {
        let Some(disk) = SmallDisk::mount(megabytes) else { return };
        let dir = disk.path().join("store");
        let engine = open(&dir, still()).unwrap();
        runtime().block_on(commit_often(&engine));
        let log = std::fs::metadata(wal(&dir)).unwrap().len();
        assert_eq!(log >= 16_500_000, is_filled, "{log} bytes of log on {megabytes} MB");
        assert_eq!(engine.space().shortage(), None);
    }
}

fn set_read_only(disk: &SmallDisk, on: bool) {
    let options = if on { "remount,ro" } else { "remount,rw" };
    let status = Command::new("mount").args(["-o", options]).arg(disk.path()).status();
    assert!(status.expect("mount").success(), "{options}");
}

#[test]
fn a_store_on_read_only_media_is_refused_and_left_as_it_is() {
    let Some((disk, dir)) = small_disk() else { return };
    let runtime = runtime();
    let engine = open(&dir, still()).unwrap();
    let jobs = runtime.block_on(commit_often(&engine));
    // The directory with its log, as if its owner had been killed.
    let left = copy(&dir);
    drop(engine);
    std::fs::copy(wal(left.path()), wal(&dir)).unwrap();
    set_read_only(&disk, true);
    let error = open(&dir, still()).unwrap_err().to_string();
    assert!(error.contains(&*dir.to_string_lossy()) && error.contains("Read-only"), "{error}");
    set_read_only(&disk, false);
    let engine = open(&dir, still()).unwrap();
    runtime.block_on(assert_all(&engine, &jobs, State::Available));
    drop(engine);
    assert_sound(&dir);
}
