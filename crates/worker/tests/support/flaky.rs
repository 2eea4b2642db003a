//! A store that can go away, lose its replies, hang, or refuse: around any engine.

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use windlass_core::Error;
use windlass_core::engine::*;

/// How a store fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    None,
    /// Executes nothing and returns an error.
    Unavailable,
    /// Executes the call and loses the reply.
    LosesReplies,
    /// Executes calls, and replies in their order once the fault is over.
    Slow,
    /// Executes nothing and never replies.
    Hangs,
}

/// Between the answers of two slow calls.
const SLOW_STEP: Duration = Duration::from_millis(10);

pub(crate) struct Flaky {
    inner: Arc<dyn Engine>,
    fault: Mutex<Fault>,
    /// Number of slow calls so far.
    slow: AtomicU32,
    /// Only heartbeats fail: a worker that is stalled or cut off, while its jobs run.
    pub(crate) no_heartbeats: AtomicBool,
    /// Settles with more items than this are refused as a whole.
    pub(crate) settle_max: AtomicUsize,
    /// Calls of hot verbs so far.
    pub(crate) calls: AtomicU64,
    pub(crate) settles: AtomicU64,
    pub(crate) updates: AtomicU64,
    /// The claims that came, by their numbers; repeats again.
    pub(crate) claims: Mutex<Vec<u64>>,
}

impl Flaky {
    pub(crate) fn new(inner: Arc<dyn Engine>) -> Arc<Self> {
        Arc::new(Self {
            inner,
            fault: Mutex::new(Fault::None),
            slow: AtomicU32::new(0),
            no_heartbeats: AtomicBool::new(false),
            settle_max: AtomicUsize::new(usize::MAX),
            calls: AtomicU64::new(0),
            settles: AtomicU64::new(0),
            updates: AtomicU64::new(0),
            claims: Mutex::default(),
        })
    }

    pub(crate) fn set(&self, fault: Fault) {
        *self.fault.lock().unwrap() = fault;
    }

    fn note(&self, claim: &Claim) {
        if let Claimant::Session { claim_no, .. } = claim.by {
            self.claims.lock().unwrap().push(claim_no);
        }
    }

    fn serve<'a, T: Send + 'a>(&'a self, answer: Answer<'a, T>) -> Answer<'a, T> {
        self.calls.fetch_add(1, Ordering::SeqCst);
        let fault = *self.fault.lock().unwrap();
        Box::pin(async move {
            match fault {
                Fault::None => answer.await,
                Fault::Unavailable => Err(away()),
                Fault::LosesReplies => answer.await.and_then(|_| Err(away())),
                Fault::Slow => {
                    let answer = answer.await;
                    let turn = self.slow.fetch_add(1, Ordering::SeqCst) + 1;
                    while *self.fault.lock().unwrap() == Fault::Slow {
                        tokio::time::sleep(Duration::from_millis(1)).await;
                    }
                    tokio::time::sleep(SLOW_STEP * turn).await;
                    answer
                }
                Fault::Hangs => std::future::pending().await,
            }
        })
    }
}

pub(crate) fn away() -> Error {
    Error::Unavailable { store: "flaky".into(), reason: "it went away".into() }
}

impl Jobs for Flaky {
    windlass_core::pass_on!(inner: capabilities, enqueue, take);

    fn open_session(&self, request: OpenSession) -> Answer<'_, Session> {
        self.serve(self.inner.open_session(request))
    }

    fn heartbeat(&self, request: Heartbeat) -> Answer<'_, HeartbeatReply> {
        if self.no_heartbeats.load(Ordering::SeqCst) {
            return Box::pin(std::future::pending());
        }
        self.serve(self.inner.heartbeat(request))
    }

    fn close_session(&self, session: SessionId) -> Answer<'_, ()> {
        self.serve(self.inner.close_session(session))
    }

    fn claim(&self, request: Claim) -> Answer<'_, Claimed> {
        self.note(&request);
        self.serve(self.inner.claim(request))
    }

    fn wait(&self, request: Wait) -> Answer<'_, bool> {
        self.serve(self.inner.wait(request))
    }

    fn settle(&self, request: Settle) -> Answer<'_, SettleReply> {
        self.settles.fetch_add(1, Ordering::SeqCst);
        let limit = self.settle_max.load(Ordering::SeqCst);
        if request.items.len() > limit {
            let size = request.items.len() as u64;
            let field = "items".into();
            let refusal =
                Error::TooLarge { field, size, limit: limit as u64, hint: "split the batch" };
            return Box::pin(async { Err(refusal) });
        }
        request.claim.iter().for_each(|claim| self.note(claim));
        self.serve(self.inner.settle(request))
    }

    fn update(&self, request: Update) -> Answer<'_, Vec<Item<Updated>>> {
        self.updates.fetch_add(1, Ordering::SeqCst);
        self.serve(self.inner.update(request))
    }
}

impl Admin for Flaky {
    windlass_core::pass_on!(inner: get, list, stats, limits, why, sessions, change, configure, settings, removed, events, records, import, health);
}

impl Maintain for Flaky {
    windlass_core::pass_on!(inner: maintain, check);
}
