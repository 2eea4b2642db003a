//! SIGKILL of the server under load, again and again. Producers and workers talk to it over HTTP, are
//! never started again, and record their calls; the history checker of the kit checks them.
//!
//! Claims are written but not forced to the disk, and the system keeps what was written when only the
//! process dies. So the checker expects no forgotten claims.
//!
//! `WINDLASS_LONG=1` kills more often; `WINDLASS_SEED` starts another story.

use crate::load::{Load, QUEUE};
use crate::serving::{Serving, serve};
use crate::waiting::{PATIENCE, until};
use std::net::TcpListener;
use std::path::PathBuf;
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;
use windlass_core::engine::{Admin as _, Maintain as _, StatsRequest};
use windlass_core::random::{Random as _, Seeded};
use windlass_kit::history::{Options, Snapshot, check};
use windlass_remote::RemoteEngine;

/// Kills of an ordinary run.
const KILLS: u32 = 6;
/// Kills if `WINDLASS_LONG` is set.
const KILLS_LONG: u32 = 30;
/// Upper bound of the delay before a kill, from the time that all clients work again.
const KILL_MAX_MS: u64 = 600;
/// Interval, in kills, at which the next server is killed too, while it starts.
const STARTING_EVERY: u32 = 3;
/// The latest instant of such a kill, from the start of the process.
const KILL_STARTING_MAX_MS: u64 = 60;
/// Jobs that must be acknowledged and completed between two kills; fewer mean that clients have not recovered.
const STEP: u64 = 20;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_acknowledged_is_lost_when_the_server_is_killed_and_clients_recover_by_themselves()
{
    let is_long = std::env::var_os("WINDLASS_LONG").is_some_and(|value| value == "1");
    let seed = std::env::var("WINDLASS_SEED").map_or(1, |seed| seed.parse().unwrap());
    let kills = if is_long { KILLS_LONG } else { KILLS };
    let mut killed = Killed::start(seed).await;
    let engine = Arc::new(RemoteEngine::connect(killed.server().url()).await.unwrap());
    let load = Load::start(engine.clone(), seed);
    for number in 0..kills {
        let (acknowledged, completed) = (load.acknowledged(), load.completed());
        until("all clients work", || {
            load.acknowledged() >= acknowledged + STEP && load.completed() >= completed + STEP
        })
        .await;
        killed.kill(number).await;
    }
    load.stop_producing().await;
    until_empty(&engine).await;
    let history = load.end().await;
    let mut end = Snapshot::read(&*engine, history.wanted()).await.unwrap();
    end.add_queue(&*engine, QUEUE).await.unwrap();
    let findings = engine.check(false).await.unwrap().value.findings;
    assert!(findings.is_empty(), "{findings:?}");
    let verdict = check(&history, &end, &Options::default());
    println!("seed {seed}: {kills} kills\n{verdict}");
    assert!(verdict.is_clean(), "seed {seed}");
    assert!(verdict.counts.unanswered > 0, "no call was under way at any kill");
}

/// A server that is killed, and comes back where its clients look for it.
struct Killed {
    home: tempfile::TempDir,
    address: String,
    random: Seeded,
    server: Option<Serving>,
}

impl Killed {
    async fn start(seed: u64) -> Self {
        let home = tempfile::tempdir().unwrap();
        let address = format!("127.0.0.1:{}", free_port());
        let mut killed = Self { home, address, random: Seeded::new(seed), server: None };
        killed.serve().await;
        killed
    }

    fn dir(&self) -> PathBuf {
        self.home.path().join("store")
    }

    fn server(&self) -> &Serving {
        self.server.as_ref().unwrap()
    }

    async fn serve(&mut self) {
        let (dir, address) = (self.dir(), self.address.clone());
        let start = move || Serving::start_at(&dir, &address);
        self.server = Some(tokio::task::spawn_blocking(start).await.unwrap());
    }

    /// Kills the server at some instant and starts the next.
    async fn kill(&mut self, number: u32) {
        tokio::time::sleep(Duration::from_millis(self.random.below(KILL_MAX_MS))).await;
        drop(self.server.take());
        if number % STARTING_EVERY == 1 {
            let mut command = serve(&self.dir(), &self.address);
            let mut starting = command.stdout(Stdio::null()).spawn().unwrap();
            let instant = self.random.below(KILL_STARTING_MAX_MS);
            tokio::time::sleep(Duration::from_millis(instant)).await;
            starting.kill().unwrap();
            starting.wait().unwrap();
        }
        self.serve().await;
    }
}

/// A port that no client is given for its own end while the server is away: below those that systems
/// hand out.
fn free_port() -> u16 {
    let first = 15_000 + u16::try_from(std::process::id() % 10_000).unwrap();
    (first..32_000).find(|port| TcpListener::bind(("127.0.0.1", *port)).is_ok()).unwrap()
}

/// Waits until nothing is left to do.
async fn until_empty(engine: &RemoteEngine) {
    let empty = async {
        loop {
            let lanes = engine.stats(StatsRequest::default()).await.unwrap().value;
            let left = |it: &windlass_core::engine::LaneStats| {
                it.scheduled + it.blocked + it.available + it.running + it.paused
            };
            if lanes.iter().map(left).sum::<u64>() == 0 {
                return;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    assert!(tokio::time::timeout(PATIENCE, empty).await.is_ok(), "jobs are left");
}
