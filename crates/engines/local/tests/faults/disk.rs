//! A full disk: a clear error, nothing acknowledged lost, and it goes on by itself when there is space.

use crate::support::{
    QUEUE, assert_sound, claim, copy, enqueue, get, ids, job, open, runtime, session, still,
};
use std::path::Path;
use std::process::Command;
use windlass_core::engine::{Admin as _, StatsRequest};
use windlass_core::engine::{Get, Hot as _, Outcome, Settle, SettleItem};
use windlass_core::model::State;
use windlass_core::{Error, JobId};
use windlass_local::LocalEngine;

/// The size of the whole disk.
const DISK: &str = "size=8m";
/// What somebody else keeps on it, until they make room.
const BALLAST_BYTES: usize = 4 * 1024 * 1024;
const BALLAST: &str = "ballast";
const PAYLOAD_BYTES: usize = 30_000;
/// More jobs of that size than the disk can hold.
const JOBS_MAX: usize = 1_000;

/// A small disk in memory, for as long as it lives.
struct Disk(tempfile::TempDir);

impl Disk {
    /// `None`, with the reason printed, where mounting is not allowed.
    fn mount() -> Option<Self> {
        let dir = tempfile::tempdir().expect("a directory");
        let mut mount = Command::new("mount");
        mount.args(["-t", "tmpfs", "-o", DISK, "windlass-faults"]).arg(dir.path());
        match mount.output() {
            Ok(output) if output.status.success() => Some(Self(dir)),
            Ok(output) => skipped(String::from_utf8_lossy(&output.stderr).trim()),
            Err(error) => skipped(&error.to_string()),
        }
    }

    fn path(&self) -> &Path {
        self.0.path()
    }

    /// Leaves so much less space.
    fn load(&self) {
        std::fs::write(self.path().join(BALLAST), vec![1; BALLAST_BYTES]).expect("ballast");
    }

    /// Makes room.
    fn unload(&self) {
        std::fs::remove_file(self.path().join(BALLAST)).expect("ballast");
    }

    /// Takes the last free bytes.
    fn fill(&self) {
        use std::io::Write as _;
        let mut file = std::fs::File::create(self.path().join("filler")).expect("a file");
        for size in [64 * 1024, 4 * 1024, 1] {
            while file.write_all(&vec![1; size]).is_ok() {}
        }
    }
}

fn skipped(reason: &str) -> Option<Disk> {
    println!("skipped: no small disk can be mounted here: {reason}");
    None
}

impl Drop for Disk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(self.path()).status();
    }
}

/// The error a full disk gives: it names the directory and what is wrong.
fn assert_full(error: &Error, dir: &Path) {
    let Error::Unavailable { store, reason } = error else { panic!("{error}") };
    assert!(store.contains(&*dir.to_string_lossy()), "{error}");
    assert!(reason.contains("full") || reason.contains("No space left"), "{error}");
}

/// Enqueues until there is no space. What was acknowledged, and what was refused.
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

/// Many at once on a full disk: whoever is told that a job is stored can rely on it.
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

/// Completes everything there is and says how many that were.
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
    let Some(disk) = Disk::mount() else { return };
    let dir = disk.path().join("store");
    disk.load();
    let engine = open(&dir, still()).unwrap();
    let acknowledged = runtime().block_on(async {
        let (mut acknowledged, refused) = enqueue_until_full(&engine, &dir, 1).await;
        assert!(acknowledged.len() > 10, "only {} fitted", acknowledged.len());
        acknowledged.extend(enqueue_together(&engine, &dir).await);
        // It can still be read.
        assert_all(&engine, &acknowledged, State::Available).await;
        engine.stats(StatsRequest::queue(QUEUE)).await.expect("stats");
        disk.unload();
        // The very next call finds the space, on the same handle; to repeat what was refused is fine.
        enqueue(&engine, job(refused)).await.expect("there is space again");
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
        // Some of what was answered with an error may be there too: nobody knew.
        assert!(complete_all(&engine).await >= acknowledged.len());
        assert_all(&engine, &acknowledged, State::Completed).await;
    });
}

#[test]
fn workers_on_a_full_disk_get_clear_errors_and_finish_when_there_is_space() {
    let Some(disk) = Disk::mount() else { return };
    let dir = disk.path().join("store");
    disk.load();
    let engine = open(&dir, still()).unwrap();
    runtime().block_on(async {
        let worker = session(&engine).await;
        let early = ids(2, windlass_kit::START, 10);
        for id in &early {
            enqueue(&engine, job(*id)).await.expect("there is space");
        }
        let mut held = claim(&engine, &worker, 1, 10).await.expect("claim");
        assert_eq!(held.len(), early.len());
        let (acknowledged, _) = enqueue_until_full(&engine, &dir, 1).await;
        disk.fill();
        for claim_no in 2..=20 {
            match claim(&engine, &worker, claim_no, 2).await {
                Ok(jobs) => held.extend(jobs),
                Err(error) => assert_full(&error, &dir),
            }
        }
        let mut refused = 0;
        for job in &held {
            let item = SettleItem::new(job.header.id, job.lease.clone(), Outcome::DONE);
            match engine.settle(Settle::new([item])).await {
                Ok(reply) => assert!(reply.value.items[0].is_ok(), "{:?}", reply.value),
                Err(error) => {
                    assert_full(&error, &dir);
                    refused += 1;
                }
            }
        }
        assert!(refused > 0, "the disk was not full");
        disk.unload();
        for job in &held {
            let item = SettleItem::new(job.header.id, job.lease.clone(), Outcome::DONE);
            let reply = engine.settle(Settle::new([item])).await.expect("there is space again");
            let settled = reply.value.items[0].as_ref().expect("its lease stands");
            assert_eq!(settled.state, State::Completed);
        }
        complete_all(&engine).await;
        assert_all(&engine, &acknowledged, State::Completed).await;
        assert_all(&engine, &early, State::Completed).await;
    });
}

#[test]
fn a_directory_on_a_full_disk_opens_or_says_why_not() {
    let Some(disk) = Disk::mount() else { return };
    let dir = disk.path().join("store");
    disk.load();
    let engine = open(&dir, still()).unwrap();
    let (acknowledged, _) = runtime().block_on(enqueue_until_full(&engine, &dir, 1));
    drop(engine);
    disk.fill();
    match open(&dir, still()) {
        Ok(engine) => runtime().block_on(assert_all(&engine, &acknowledged, State::Available)),
        Err(error) => assert_full(&error, &dir),
    }
    let other = disk.path().join("other");
    if let Err(error) = open(&other, still()) {
        assert_full(&error, &other);
    }
    disk.unload();
    let engine = open(&dir, still()).unwrap();
    runtime().block_on(async {
        assert_all(&engine, &acknowledged, State::Available).await;
        assert!(get(&engine, acknowledged[0]).await.is_some());
    });
}
