//! Tests that clients handle `busy`: they repeat the same request, and do not report the error as a contract
//! violation.

use super::client::{Order, Spec};
use super::journal::Lines;
use super::participants::Role;
use super::producer::Producer;
use super::rogue::Rogue;
use super::stage::{Stage, payload};
use std::fmt::Debug;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;
use tempfile::TempDir;
use tokio::sync::watch;
use windlass_core::engine::*;
use windlass_core::model::NewJob;
use windlass_core::random::Seeded;
use windlass_core::time::{Clock as _, SystemClock};
use windlass_core::{Error, JobId};
use windlass_memory::MemoryEngine;

/// Number of calls of a verb that are answered with `busy`.
const BUSY: usize = 3;
const QUEUE: &str = "torture";
/// Timeout of each wait, for slow machines.
const PATIENCE: Duration = Duration::from_secs(60);
const LOOK_EVERY: Duration = Duration::from_millis(5);

/// The content of a request: ids of jobs, or the claimant.
type Seen = Vec<String>;

/// A store that answers `busy` at first, as if a stopped process held its locks.
struct BusyAtFirst {
    inner: MemoryEngine,
    enqueues: Mutex<Vec<Seen>>,
    /// Index of the enqueue of which only the first job was stored.
    split: OnceLock<usize>,
    claims: Mutex<Vec<Seen>>,
    settles: Mutex<Vec<Seen>>,
}

impl BusyAtFirst {
    fn new() -> Arc<Self> {
        let (enqueues, claims, settles) = Default::default();
        let (inner, split) = (MemoryEngine::new(), OnceLock::new());
        Arc::new(Self { inner, enqueues, split, claims, settles })
    }

    /// Records a request; returns the number of earlier ones.
    fn note<T: Debug>(seen: &Mutex<Vec<Seen>>, what: impl Iterator<Item = T>) -> usize {
        let mut seen = seen.lock().unwrap();
        seen.push(what.map(|it| format!("{it:?}")).collect());
        seen.len() - 1
    }
}

fn busy() -> Error {
    Error::Busy { store: "memory".into(), reason: "another process holds it".into() }
}

impl Jobs for BusyAtFirst {
    windlass_core::pass_on!(inner: capabilities, open_session, heartbeat, close_session, take, wait, update);

    /// The first calls are busy as a whole; one later call is busy for all jobs except the first.
    fn enqueue(&self, mut request: Enqueue) -> Answer<'_, Vec<Item<Enqueued>>> {
        let before = Self::note(&self.enqueues, request.jobs.iter().map(|job| job.id));
        Box::pin(async move {
            let several = request.mode == Mode::Each && request.jobs.len() > 1;
            let held = match before {
                0..BUSY => return Err(busy()),
                _ if several && self.split.set(before).is_ok() => request.jobs.split_off(1).len(),
                _ => 0,
            };
            let mut answer = self.inner.enqueue(request).await?;
            answer.value.extend((0..held).map(|_| Err(busy())));
            Ok(answer)
        })
    }

    fn claim(&self, request: Claim) -> Answer<'_, Claimed> {
        match Self::note(&self.claims, std::iter::once(&request.by)) {
            0..BUSY => Box::pin(async { Err(busy()) }),
            _ => self.inner.claim(request),
        }
    }

    fn settle(&self, request: Settle) -> Answer<'_, SettleReply> {
        match Self::note(&self.settles, request.items.iter().map(|item| item.id)) {
            0..BUSY => Box::pin(async { Err(busy()) }),
            _ => self.inner.settle(request),
        }
    }
}

impl Admin for BusyAtFirst {
    windlass_core::pass_on!(inner: get, list, stats, limits, why, sessions, change, configure, settings, removed, events, records, import, health);
}

impl Maintain for BusyAtFirst {
    windlass_core::pass_on!(inner: maintain, check);
}

/// The context of a client of this store, and the sender of its orders.
fn stage(engine: &Arc<BusyAtFirst>) -> (Arc<Stage>, watch::Sender<Order>, TempDir) {
    let evidence = tempfile::tempdir().unwrap();
    let spec = Spec {
        url: "memory:".parse().unwrap(),
        queue: QUEUE.to_owned(),
        roles: Vec::<Role>::new(),
        name: "one".to_owned(),
        evidence: evidence.path().to_owned(),
        client: 0,
        seed: 1,
        retention_ms: None,
        limits: false,
        flows: false,
    };
    let journal = Lines::create(evidence.path(), "one").unwrap();
    let (order, orders) = watch::channel(Order::Work);
    (Arc::new(Stage::new(spec, engine.clone(), journal, orders)), order, evidence)
}

async fn until(mut is_so: impl FnMut() -> bool) {
    let looking = async {
        while !is_so() {
            tokio::time::sleep(LOOK_EVERY).await;
        }
    };
    tokio::time::timeout(PATIENCE, looking).await.expect("in time");
}

/// Asserts that the first request was repeated until it was no longer busy.
#[track_caller]
fn assert_repeated(seen: &Mutex<Vec<Seen>>) {
    let seen = seen.lock().unwrap();
    assert!(seen.len() > BUSY && seen[..=BUSY].iter().all(|it| *it == seen[0]), "{seen:#?}");
}

#[tokio::test]
async fn a_producer_asks_again_for_what_was_busy_and_for_no_more() {
    let engine = BusyAtFirst::new();
    let (stage, order, _evidence) = stage(&engine);
    let running = tokio::spawn(Producer::new(stage.clone(), 0).run());
    let answered = || engine.enqueues.lock().unwrap().len();
    until(|| engine.split.get().is_some_and(|split| answered() > split + 1)).await;
    order.send_replace(Order::Stop);
    running.await.unwrap();
    assert_repeated(&engine.enqueues);
    let (seen, split) = (engine.enqueues.lock().unwrap(), *engine.split.get().unwrap());
    assert_eq!(seen[split + 1], seen[split][1..], "what was stored is not seen for again");
    assert!(stage.acknowledged.load(Ordering::SeqCst) >= seen[split].len() as u64);
    assert_eq!(stage.bad.load(Ordering::SeqCst), 0);
}

#[tokio::test]
async fn a_rogue_asks_again_for_claims_and_reports_that_were_busy() {
    let engine = BusyAtFirst::new();
    let (stage, order, _evidence) = stage(&engine);
    let random = Seeded::new(1);
    let job = |_| {
        let id = JobId::new(SystemClock.now(), &random);
        NewJob::new("one").queue(QUEUE).id(id).payload(payload(id, &random))
    };
    engine.inner.enqueue(Enqueue::each((0..100).map(job))).await.unwrap();
    let running = tokio::spawn(Rogue::new(stage.clone(), 0).run());
    until(|| stage.ended.load(Ordering::SeqCst) > 0).await;
    order.send_replace(Order::Stop);
    running.await.unwrap();
    assert_repeated(&engine.claims);
    assert_repeated(&engine.settles);
    assert_eq!(stage.bad.load(Ordering::SeqCst), 0);
}
