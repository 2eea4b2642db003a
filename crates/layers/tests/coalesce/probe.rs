//! An engine that counts the calls of the merged verbs, holds them at a gate, and spoils them on demand.

use std::sync::{Arc, Mutex};
use tokio::sync::Semaphore;
use windlass_core::Error;
use windlass_core::engine::*;
use windlass_core::model::Job;
use windlass_memory::MemoryEngine;

/// Jobs of this kind make the whole call fail, as a bad row does in some stores.
pub(crate) const POISON: &str = "poison";

/// The result of the next call that passes the gate.
#[derive(Clone, Debug)]
pub(crate) enum Fault {
    Fail(Error),
    Panic,
    AnswerTooFew,
}

pub(crate) struct Probe {
    inner: MemoryEngine,
    /// Every call of a merged verb that arrived, with its number of items.
    calls: Mutex<Vec<(&'static str, usize)>>,
    /// A call takes one permit to get through.
    gate: Semaphore,
    fault: Mutex<Option<Fault>>,
}

impl Probe {
    /// Calls get through.
    pub(crate) fn open() -> Arc<Self> {
        Self::with_permits(Semaphore::MAX_PERMITS / 2)
    }

    /// Calls wait until [`Probe::let_through`].
    pub(crate) fn shut() -> Arc<Self> {
        Self::with_permits(0)
    }

    fn with_permits(permits: usize) -> Arc<Self> {
        let (inner, gate) = (MemoryEngine::new(), Semaphore::new(permits));
        Arc::new(Self { inner, calls: Mutex::default(), gate, fault: Mutex::default() })
    }

    pub(crate) fn let_through(&self, calls: usize) {
        self.gate.add_permits(calls);
    }

    pub(crate) fn spoil_next(&self, fault: Fault) {
        *self.fault.lock().unwrap() = Some(fault);
    }

    /// How many items each call of this verb had so far.
    pub(crate) fn calls(&self, verb: &str) -> Vec<usize> {
        let calls = self.calls.lock().unwrap();
        calls.iter().filter(|(name, _)| *name == verb).map(|(_, items)| *items).collect()
    }

    /// Counts a call, holds it at the gate, and says whether one answer must be left out.
    async fn pass(&self, verb: &'static str, items: usize) -> Result<bool, Error> {
        self.calls.lock().unwrap().push((verb, items));
        self.gate.acquire().await.expect("the gate is never closed").forget();
        let fault = self.fault.lock().unwrap().take();
        match fault {
            None => Ok(false),
            Some(Fault::AnswerTooFew) => Ok(true),
            Some(Fault::Fail(error)) => Err(error),
            Some(Fault::Panic) => panic!("the probe panics"),
        }
    }
}

impl Jobs for Probe {
    windlass_core::pass_on!(inner: capabilities);

    fn enqueue(&self, request: Enqueue) -> Answer<'_, Vec<Item<Enqueued>>> {
        Box::pin(async move {
            let verb = match request.mode {
                Mode::Each => "enqueue",
                Mode::AllOrNothing => "enqueue_all",
            };
            let too_few = self.pass(verb, request.jobs.len()).await?;
            if request.jobs.iter().any(|job| &*job.kind == POISON) {
                return Err(Error::invalid("jobs", POISON, "no poison"));
            }
            let mut reply = self.inner.enqueue(request).await?;
            if too_few {
                reply.value.pop();
            }
            Ok(reply)
        })
    }

    windlass_core::pass_on!(inner: open_session, heartbeat, close_session, take, claim, wait);

    fn settle(&self, request: Settle) -> Answer<'_, SettleReply> {
        Box::pin(async move {
            let verb = if request.claim.is_some() { "settle_and_claim" } else { "settle" };
            self.pass(verb, request.items.len()).await?;
            self.inner.settle(request).await
        })
    }

    fn update(&self, request: Update) -> Answer<'_, Vec<Item<Updated>>> {
        Box::pin(async move {
            self.pass("update", request.items.len()).await?;
            self.inner.update(request).await
        })
    }
}

impl Admin for Probe {
    fn get(&self, request: Get) -> Answer<'_, Vec<Option<Job>>> {
        Box::pin(async move {
            self.pass("get", request.ids.len()).await?;
            self.inner.get(request).await
        })
    }

    windlass_core::pass_on!(inner: list, stats, limits, why, sessions, change, configure, settings, removed, events, records, import, health);
}

impl Maintain for Probe {
    windlass_core::pass_on!(inner: maintain, check);
}
