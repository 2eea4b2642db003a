//! A trial: a server of its own, an engine on it, producers and perhaps workers in this process, and the
//! judge at the end.

use crate::journal::{self, Lines};
use crate::load::{Clients, QUEUE};
use crate::server::Server;
use crate::waiting::until;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;
use windlass_core::engine::{Admin as _, LaneStats, Maintain as _, StatsRequest};
use windlass_kit::history::{
    Event, History, LoadCounts, Options, Producers, Snapshot, Verdict, check,
};
use windlass_postgres::PostgresEngine;
use windlass_worker::WorkerHandle;

const PRODUCERS: u32 = 4;
/// Minimum jobs acknowledged and completed before the next fault: proves recovery.
const STEP: u64 = 20;
/// Time to live of sessions, longer than every fault: a server that returns at once costs no session.
pub(crate) const TTL: Duration = Duration::from_secs(20);

/// How often a fault strikes: ordinarily, and if `WINDLASS_LONG` is set.
pub(crate) fn times(ordinarily: u32, long: u32) -> u32 {
    let is_long = std::env::var_os("WINDLASS_LONG").is_some_and(|value| value == "1");
    if is_long { long } else { ordinarily }
}

pub(crate) fn seed() -> u64 {
    std::env::var("WINDLASS_SEED").map_or(1, |seed| seed.parse().expect("WINDLASS_SEED: a number"))
}

pub(crate) struct Trial {
    pub(crate) server: Server,
    pub(crate) engine: Arc<PostgresEngine>,
    pub(crate) home: tempfile::TempDir,
    pub(crate) counts: Arc<LoadCounts>,
    producers: Producers,
    workers: Vec<WorkerHandle>,
}

impl Trial {
    /// On a new server, with this many workers in this process.
    pub(crate) async fn start(workers: u32) -> Self {
        let server = Server::start_new().await;
        let url = server.url();
        Self::start_on(server, &url, workers).await
    }

    /// On this server, and on whatever else the URL names.
    pub(crate) async fn start_on(server: Server, url: &str, workers: u32) -> Self {
        let home = tempfile::tempdir().expect("a directory");
        let options = windlass_postgres::Options::new(url);
        let engine = Arc::new(PostgresEngine::connect(options).await.expect("connects"));
        let journal = Arc::new(Lines::create(&home.path().join("here.ndjson")));
        let (counts, seed) = (Arc::<LoadCounts>::default(), seed());
        let clients =
            Clients { engine: engine.clone(), journal, counts: counts.clone(), first: 0, seed };
        let producers = clients.produce(PRODUCERS);
        let workers = (0..workers).map(|number| clients.work(PRODUCERS + number, TTL)).collect();
        Self { server, engine, home, counts, producers, workers }
    }

    /// Waits until jobs are taken and done again.
    pub(crate) async fn all_clients_work(&self) {
        let read = || {
            let LoadCounts { acknowledged, completed, .. } = &*self.counts;
            (acknowledged.load(Ordering::Relaxed), completed.load(Ordering::Relaxed))
        };
        let before = read();
        until("all clients work", async || {
            let now = read();
            now.0 >= before.0 + STEP && now.1 >= before.1 + STEP
        })
        .await;
    }

    /// Stops the producers, and waits until their jobs have ended.
    pub(crate) async fn finish_load(&mut self) {
        self.producers.stop().await;
        self.until_empty().await;
    }

    /// Stops the faults, drains the queue, and checks the histories of all clients.
    pub(crate) async fn judge(mut self, options: Options) -> Verdict {
        self.finish_load().await;
        for worker in &self.workers {
            assert!(worker.health().healthy, "a worker did not recover: {:?}", worker.health());
            assert_eq!(worker.drain().await.undelivered, 0);
        }
        let history = self.history();
        let engine = &*self.engine;
        let mut end = Snapshot::read(engine, history.wanted()).await.expect("get");
        end.add_queue(engine, QUEUE).await.expect("list");
        let findings = engine.check(false).await.expect("check").value.findings;
        assert!(findings.is_empty(), "{findings:?}");
        let verdict = check(&history, &end, &options);
        println!("seed {}\n{verdict}", seed());
        verdict
    }

    /// Sessions that the workers of this process lost; call it before the end.
    pub(crate) fn sessions_lost(&self) -> u64 {
        self.workers.iter().map(|worker| worker.stats().sessions_lost).sum()
    }

    async fn until_empty(&self) {
        let left =
            |it: &LaneStats| it.scheduled + it.blocked + it.available + it.running + it.paused;
        until("nothing is left to do", async || {
            // A client may not have noticed yet that its connection is gone.
            match self.engine.stats(StatsRequest::default()).await {
                Ok(lanes) => lanes.value.iter().map(left).sum::<u64>() == 0,
                Err(_) => false,
            }
        })
        .await;
    }

    /// The histories of all clients, in this and in other processes.
    fn history(&self) -> History {
        let files = std::fs::read_dir(self.home.path()).expect("the directory").flatten();
        let mut paths: Vec<PathBuf> = files.map(|entry| entry.path()).collect();
        paths.sort();
        let mut events: Vec<Event> = paths.iter().flat_map(|path| journal::read(path)).collect();
        events.sort_by_key(|event| event.at);
        events.into_iter().collect()
    }
}
