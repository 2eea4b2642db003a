//! A network that loses requests and replies, and delivers some requests late.

use super::happens;
use std::future::Future;
use std::sync::{Arc, Mutex};
use tokio::task::JoinSet;
use windlass_core::engine::{
    Admin, Answer, ChangeItem, Changed, Claim, Claimed, Engine, Enqueue, Enqueued, Item, Jobs,
    Maintain, Settle, SettleReply, Stamped, Update, Updated,
};
use windlass_core::random::Random;
use windlass_core::sync::lock;
use windlass_core::{Error, Result};

/// Maximum number of scheduler turns that a late request waits.
const LATE_TURNS_MAX: u64 = 200;

/// An engine behind such a network. Sessions and reads always get through.
pub(super) struct Lossy {
    inner: Arc<dyn Engine>,
    random: Arc<dyn Random>,
    per_mille: u64,
    /// Late requests that have not arrived yet.
    late: Mutex<JoinSet<()>>,
}

impl Lossy {
    pub(super) fn new(inner: Arc<dyn Engine>, random: Arc<dyn Random>, per_mille: u64) -> Self {
        Self { inner, random, per_mille, late: Mutex::default() }
    }

    /// Waits until every late request has arrived.
    pub(super) async fn settle_down(&self) {
        let mut late = std::mem::take(&mut *lock(&self.late));
        while let Some(ended) = late.join_next().await {
            ended.expect("a late request panicked");
        }
    }

    /// Sends `call`; the caller gets its result or an unknown outcome.
    fn send<'a, T: Send + 'static>(
        &'a self,
        call: impl Future<Output = Result<Stamped<T>>> + Send + 'static,
    ) -> Answer<'a, T> {
        Box::pin(async move {
            if !happens(&*self.random, self.per_mille) {
                return call.await;
            }
            match self.random.below(3) {
                0 => {}
                1 => drop(call.await),
                _ => {
                    let turns = self.random.below(LATE_TURNS_MAX);
                    let late = async move {
                        for _ in 0..turns {
                            tokio::task::yield_now().await;
                        }
                        drop(call.await);
                    };
                    lock(&self.late).spawn(late);
                }
            }
            let (store, reason) = ("the store".to_owned(), "the network lost it".to_owned());
            Err(Error::Unavailable { store, reason })
        })
    }
}

impl Jobs for Lossy {
    windlass_core::pass_on!(inner: capabilities);

    fn enqueue(&self, request: Enqueue) -> Answer<'_, Vec<Item<Enqueued>>> {
        let inner = self.inner.clone();
        self.send(async move { inner.enqueue(request).await })
    }

    fn claim(&self, request: Claim) -> Answer<'_, Claimed> {
        let inner = self.inner.clone();
        self.send(async move { inner.claim(request).await })
    }

    fn settle(&self, request: Settle) -> Answer<'_, SettleReply> {
        let inner = self.inner.clone();
        self.send(async move { inner.settle(request).await })
    }

    fn update(&self, request: Update) -> Answer<'_, Vec<Item<Updated>>> {
        let inner = self.inner.clone();
        self.send(async move { inner.update(request).await })
    }

    windlass_core::pass_on!(inner: open_session, heartbeat, close_session, take, wait);
}

impl Admin for Lossy {
    fn change(&self, batch: Vec<ChangeItem>) -> Answer<'_, Vec<Item<Changed>>> {
        let inner = self.inner.clone();
        self.send(async move { inner.change(batch).await })
    }

    windlass_core::pass_on!(inner: get, list, stats, limits, why, sessions, configure, settings, removed, events, records, import, health);
}

impl Maintain for Lossy {
    windlass_core::pass_on!(inner: maintain, check);
}
