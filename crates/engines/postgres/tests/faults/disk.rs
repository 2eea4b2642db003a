//! A server whose disk is full: clear errors, nothing acknowledged lost, and on it goes when there is
//! room.

use crate::server::Server;
use crate::waiting::until;
use std::path::Path;
use std::process::Command;
use windlass_core::engine::*;
use windlass_core::model::{NewJob, State};
use windlass_core::{Error, JobId};
use windlass_postgres::{Options, PostgresEngine};

/// The size of the whole disk.
const DISK: &str = "size=160m";
/// Foreign data on the disk, until it is removed.
const BALLAST_BYTES: usize = 48 * 1024 * 1024;
const BALLAST: &str = "ballast";
const PAYLOAD_BYTES: usize = 60_000;
const BATCH: usize = 10;
/// More batches of that size than the disk can hold.
const BATCHES_MAX: usize = 1_000;

/// A small disk in memory, for as long as it lives.
struct Disk(tempfile::TempDir);

impl Disk {
    /// `None`, with the reason printed, where mounting is not allowed.
    fn mount() -> Option<Self> {
        let dir = tempfile::tempdir().expect("a directory");
        let mut mount = Command::new("mount");
        mount.args(["-t", "tmpfs", "-o", DISK, "windlass-faults"]).arg(dir.path());
        let reason = match mount.output() {
            Ok(output) if output.status.success() => return Some(Self(dir)),
            Ok(output) => String::from_utf8_lossy(&output.stderr).trim().to_owned(),
            Err(error) => error.to_string(),
        };
        println!("skipped: no small disk can be mounted here: {reason}");
        None
    }

    fn path(&self) -> &Path {
        self.0.path()
    }

    /// Partitions so much less space.
    fn load(&self) {
        std::fs::write(self.path().join(BALLAST), vec![1; BALLAST_BYTES]).expect("ballast");
    }

    /// Makes room.
    fn unload(&self) {
        std::fs::remove_file(self.path().join(BALLAST)).expect("ballast");
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(self.path()).status();
    }
}

/// Payloads that do not shrink when they are stored.
fn noise(seed: u64) -> Vec<u8> {
    let steps = std::iter::successors(Some(seed | 1), |state| {
        Some(state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407))
    });
    steps.map(|state| (state >> 56) as u8).take(PAYLOAD_BYTES).collect()
}

/// Enqueues until there is no space; what was acknowledged.
async fn enqueue_until_full(engine: &PostgresEngine) -> Vec<JobId> {
    let mut acknowledged = Vec::new();
    for number in 0..BATCHES_MAX {
        let job = |place: usize| NewJob::new("x").payload(noise((number * BATCH + place) as u64));
        match engine.enqueue(Enqueue::each((0..BATCH).map(job))).await {
            Ok(added) => acknowledged.extend(added.value.iter().flatten().map(|added| added.id)),
            Err(error) => {
                assert!(matches!(error, Error::Unavailable { .. }), "{error}");
                println!("{} were acknowledged, then: {error}", acknowledged.len());
                return acknowledged;
            }
        }
    }
    panic!("the disk never got full");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_full_disk_of_the_server_loses_nothing_and_work_continues_with_space() {
    let Some(disk) = Disk::mount() else { return };
    let mut server = Server::make_in(disk.path());
    disk.load();
    server.start().await;
    let engine = PostgresEngine::connect(Options::new(server.url())).await.expect("connects");
    let acknowledged = enqueue_until_full(&engine).await;
    assert!(acknowledged.len() > BATCH, "only {} fitted", acknowledged.len());
    disk.unload();
    // Without room for its log, the server itself goes down.
    server.revive().await;
    until("the engine is back", async || engine.health().await.is_ok()).await;
    for page in acknowledged.chunks(100) {
        let found = engine.get(Get::new(page.iter().copied())).await.expect("gets").value;
        let there = |job: &Option<_>| {
            job.as_ref()
                .is_some_and(|job: &windlass_core::model::Job| job.state == State::Available)
        };
        assert!(found.iter().all(there), "{found:?}");
    }
    let added = engine.enqueue(Enqueue::each([NewJob::new("after")])).await;
    added.expect("there is space").value[0].as_ref().expect("it is taken");
    let session = engine.open_session(OpenSession::new("w")).await.expect("opens").value.id;
    let by = Claimant::Session { session, claim_no: 1 };
    let claimed = engine.claim(Claim::new(by, "default", 10)).await.expect("claims").value.jobs;
    let done = claimed.iter();
    let done = done.map(|job| SettleItem::new(job.header.id, job.lease.clone(), Outcome::DONE));
    let settled = engine.settle(Settle::new(done)).await.expect("settles").value.items;
    assert!(settled.len() == 10 && settled.iter().all(Item::is_ok), "{settled:?}");
    assert_eq!(engine.check(false).await.expect("checks").value.findings, []);
    drop(engine);
    drop(server);
}
