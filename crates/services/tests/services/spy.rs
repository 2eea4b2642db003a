//! An engine that watches who does maintenance under which term, and that can be away.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;
use windlass_core::Error;
use windlass_core::engine::*;
use windlass_services::ServicesHandle;

/// A step of maintenance that reached the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Seen {
    pub(crate) process: usize,
    /// The term of the process when the step began.
    pub(crate) term: Option<u64>,
}

/// The steps that all spies of a test saw, in order.
#[derive(Clone, Debug, Default)]
pub(crate) struct SeenSteps(Arc<Mutex<Vec<Seen>>>);

impl SeenSteps {
    pub(crate) fn all(&self) -> Vec<Seen> {
        self.0.lock().expect("no panic under the lock").clone()
    }
}

pub(crate) struct Spy {
    inner: Arc<dyn Engine>,
    process: usize,
    handle: OnceLock<ServicesHandle>,
    sightings: SeenSteps,
    /// Answers nothing but errors.
    away: AtomicBool,
    /// Requests are carried out, but their replies are lost.
    deaf: AtomicBool,
    /// Never answers maintenance.
    stuck: AtomicBool,
    panics: AtomicBool,
    /// Answers no operation on records.
    records_away: AtomicBool,
    /// Keeps enqueues waiting.
    holds_enqueues: AtomicBool,
    held: AtomicU64,
    refused: AtomicU64,
    maintained: AtomicU64,
}

impl Spy {
    pub(crate) fn new(inner: Arc<dyn Engine>, process: usize, sightings: SeenSteps) -> Self {
        Self {
            inner,
            process,
            handle: OnceLock::new(),
            sightings,
            away: AtomicBool::new(false),
            deaf: AtomicBool::new(false),
            stuck: AtomicBool::new(false),
            panics: AtomicBool::new(false),
            records_away: AtomicBool::new(false),
            holds_enqueues: AtomicBool::new(false),
            held: AtomicU64::new(0),
            maintained: AtomicU64::new(0),
            refused: AtomicU64::new(0),
        }
    }

    /// Watches the services with this handle.
    pub(crate) fn watch(&self, handle: ServicesHandle) {
        self.handle.set(handle).expect("one handle");
    }

    pub(crate) fn set_away(&self, away: bool) {
        self.away.store(away, Ordering::SeqCst);
    }

    pub(crate) fn set_deaf(&self, deaf: bool) {
        self.deaf.store(deaf, Ordering::SeqCst);
    }

    pub(crate) fn set_stuck(&self, stuck: bool) {
        self.stuck.store(stuck, Ordering::SeqCst);
    }

    pub(crate) fn set_panics(&self, panics: bool) {
        self.panics.store(panics, Ordering::SeqCst);
    }

    pub(crate) fn set_records_away(&self, away: bool) {
        self.records_away.store(away, Ordering::SeqCst);
    }

    pub(crate) fn set_holds_enqueues(&self, holds: bool) {
        self.holds_enqueues.store(holds, Ordering::SeqCst);
    }

    /// How many enqueues came while they were held.
    pub(crate) fn held(&self) -> u64 {
        self.held.load(Ordering::SeqCst)
    }

    /// How many steps of maintenance got through to the store.
    pub(crate) fn maintained(&self) -> u64 {
        self.maintained.load(Ordering::SeqCst)
    }

    /// How many calls it refused.
    pub(crate) fn refused(&self) -> u64 {
        self.refused.load(Ordering::SeqCst)
    }

    fn pass<'a, T: Send + 'a>(&'a self, call: Answer<'a, T>) -> Answer<'a, T> {
        Box::pin(async move {
            // Others may come in between, as on a real network.
            tokio::task::yield_now().await;
            let reason = if self.away.load(Ordering::SeqCst) {
                "it is away"
            } else if self.deaf.load(Ordering::SeqCst) {
                drop(call.await);
                "the reply was lost"
            } else {
                let answer = call.await;
                tokio::task::yield_now().await;
                return answer;
            };
            self.refused.fetch_add(1, Ordering::SeqCst);
            Err(Error::Unavailable { store: "the store".into(), reason: reason.into() })
        })
    }

    async fn watched(
        &self,
        request: MaintainRequest,
    ) -> windlass_core::Result<Stamped<MaintainReply>> {
        let term = self.handle.get().and_then(|handle| handle.status().leader);
        let seen = Seen { process: self.process, term };
        self.sightings.0.lock().expect("no panic under the lock").push(seen);
        assert!(!self.panics.load(Ordering::SeqCst), "panics as requested");
        while self.stuck.load(Ordering::SeqCst) {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        self.maintained.fetch_add(1, Ordering::SeqCst);
        self.pass(self.inner.maintain(request)).await
    }

    async fn held_back(
        &self,
        request: Enqueue,
    ) -> windlass_core::Result<Stamped<Vec<Item<Enqueued>>>> {
        if self.holds_enqueues.load(Ordering::SeqCst) {
            self.held.fetch_add(1, Ordering::SeqCst);
        }
        while self.holds_enqueues.load(Ordering::SeqCst) {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        self.pass(self.inner.enqueue(request)).await
    }

    async fn kept(
        &self,
        batch: Vec<RecordOp>,
    ) -> windlass_core::Result<Stamped<Vec<Item<RecordReply>>>> {
        if self.records_away.load(Ordering::SeqCst) {
            self.refused.fetch_add(1, Ordering::SeqCst);
            let (store, reason) = ("the store".into(), "its records are away".into());
            return Err(Error::Unavailable { store, reason });
        }
        self.pass(self.inner.records(batch)).await
    }
}

impl Jobs for Spy {
    windlass_core::pass_on!(inner: capabilities);

    fn enqueue(&self, request: Enqueue) -> Answer<'_, Vec<Item<Enqueued>>> {
        Box::pin(self.held_back(request))
    }

    windlass_core::pass_on!(inner through pass: open_session, heartbeat, close_session, take, claim, wait, settle, update);
}

impl Admin for Spy {
    fn records(&self, batch: Vec<RecordOp>) -> Answer<'_, Vec<Item<RecordReply>>> {
        Box::pin(self.kept(batch))
    }

    windlass_core::pass_on!(inner through pass: get, list, stats, limits, why, sessions, change, configure, settings, removed, events, import, health);
}

impl Maintain for Spy {
    fn maintain(&self, request: MaintainRequest) -> Answer<'_, MaintainReply> {
        Box::pin(self.watched(request))
    }

    windlass_core::pass_on!(inner through pass: check);
}
