//! Natural batching of one verb: requests that arrive while a call is in flight are merged into the next
//! call.
//!
//! There is no timer: a single call is made at once, in its caller's own poll. If the engine does not reply
//! within that poll, a spawned task continues the call. The caller cannot drive it alone, because other
//! callers share it and must get their replies even if that caller is dropped or stops polling. The task
//! continues with the requests collected meanwhile and ends when none are waiting; so there is at most one
//! spawn per merged call, and none on an engine that replies at once.

use super::line::{Batch, Line, Reply, Request, Seat};
use super::options::{CALL_BYTES_MAX, CALL_ITEMS_MAX};
use super::room::Room;
use super::verb::Verb;
use futures_util::FutureExt as _;
use std::future::{Future as _, poll_fn};
use std::panic::AssertUnwindSafe;
use std::sync::{Arc, Weak};
use std::task::Poll;
use tokio::runtime::Handle;
use tokio::sync::oneshot;
use windlass_core::Error;
use windlass_core::engine::{Engine, Stamped};

/// Merges the calls of one verb.
pub(super) struct Batcher<V: Verb> {
    engine: Arc<dyn Engine>,
    room: Arc<Room>,
    line: Arc<Line<V>>,
}

impl<V: Verb> Batcher<V> {
    pub(super) fn new(engine: Arc<dyn Engine>, room: Arc<Room>, in_flight_max: usize) -> Self {
        Self { engine, room, line: Arc::new(Line::new(in_flight_max)) }
    }

    /// Makes the call, merged with others if it has to wait anyway.
    pub(super) async fn call(&self, key: V::Key, items: Vec<V::Item>) -> Reply<V> {
        let bytes = items.iter().map(V::bytes).sum();
        let is_big = items.len() >= CALL_ITEMS_MAX || bytes > CALL_BYTES_MAX;
        // A large request gains nothing from merging, and without a runtime there is no task to drive shared
        // calls.
        let runtime = match Handle::try_current() {
            Ok(runtime) if !is_big => runtime,
            _ => return V::call(&*self.engine, key, items).await,
        };
        let room = self.room.take(items.len(), bytes).await;
        let (reply, answer) = oneshot::channel();
        if let Some(seat) = self.line.join(Request { key, items, bytes, reply, _room: room }) {
            let mut driving = Box::pin(drive(Arc::downgrade(&self.engine), seat));
            let pending =
                poll_fn(|context| Poll::Ready(driving.as_mut().poll(context).is_pending()));
            if pending.await {
                runtime.spawn(driving);
            }
        }
        answer.await.unwrap_or_else(|_| Err(unanswered(&*self.engine, "its runtime was shut down")))
    }
}

/// Makes merged calls until no request is waiting.
///
/// Holds the engine only while a call is in flight and releases it before replies are sent, so that dropping
/// the last handle after the last reply closes the store.
async fn drive<V: Verb>(engine: Weak<dyn Engine>, mut seat: Seat<V>) {
    while let Some(mut batch) = seat.next() {
        // Without an engine there are no callers, because each would have a handle to it.
        let Some(engine) = engine.upgrade() else { continue };
        let is_shared = batch.len() > 1;
        let replies = replies(&*engine, &mut batch).await;
        drop(engine);
        for (request, reply) in batch.into_iter().zip(replies) {
            // The caller may be gone; the call has still taken effect.
            let _ = request.reply.send(reply);
        }
        // Callers that just got a reply often have another request ready. Yielding lets them queue it first;
        // otherwise every second call after a large batch would be small.
        if is_shared || seat.is_wanted() {
            tokio::task::yield_now().await;
        }
    }
}

/// Makes one call for the batch; returns the reply to each request, in order.
async fn replies<V: Verb>(engine: &dyn Engine, batch: &mut Batch<V>) -> Vec<Reply<V>> {
    metrics::counter!("windlass_coalesce_calls_total", "verb" => V::NAME).increment(1);
    metrics::counter!("windlass_coalesce_requests_total", "verb" => V::NAME)
        .increment(batch.len() as u64);
    if let [only] = &mut batch[..] {
        return vec![alone(engine, only).await];
    }
    let Some(key) = batch.first().map(|first| first.key.clone()) else { return Vec::new() };
    let items = batch.iter().flat_map(|request| request.items.iter().cloned()).collect();
    match attempt::<V>(engine, key, items).await {
        Ok(reply) => share(batch, reply),
        // Separate calls would fail in the same way.
        Err(error @ (Error::Unavailable { .. } | Error::StoreFull { .. })) => {
            batch.iter().map(|_| Err(error.clone())).collect()
        }
        // Nothing was done, perhaps because of one request: repeat each separately, so that only the invalid
        // one fails.
        Err(_) => {
            let mut replies = Vec::with_capacity(batch.len());
            for request in batch {
                replies.push(alone(engine, request).await);
            }
            replies
        }
    }
}

async fn alone<V: Verb>(engine: &dyn Engine, request: &mut Request<V>) -> Reply<V> {
    attempt::<V>(engine, request.key.clone(), std::mem::take(&mut request.items)).await
}

/// Calls the engine; a panic or a wrong number of results becomes `Unavailable`, because the outcome is
/// unknown.
async fn attempt<V: Verb>(engine: &dyn Engine, key: V::Key, items: Vec<V::Item>) -> Reply<V> {
    let requested = items.len();
    let call = AssertUnwindSafe(async { V::call(engine, key, items).await });
    let reply = call.catch_unwind().await.unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<&str>().copied();
        let text = text.or_else(|| panic.downcast_ref::<String>().map(String::as_str));
        let reason = format!("it panicked: {}", text.unwrap_or("no message"));
        Err(unanswered(engine, reason))
    })?;
    if reply.value.len() == requested {
        return Ok(reply);
    }
    let reason = format!("it gave {} answers to {requested} items of one call", reply.value.len());
    Err(unanswered(engine, reason))
}

/// Splits the reply among the requests.
fn share<V: Verb>(batch: &Batch<V>, reply: Stamped<Vec<V::Answer>>) -> Vec<Reply<V>> {
    let Stamped { now, epoch, value } = reply;
    let mut answers = value.into_iter();
    let own = |request: &Request<V>| {
        let value = answers.by_ref().take(request.items.len()).collect();
        Ok(Stamped { now, epoch: epoch.clone(), value })
    };
    batch.iter().map(own).collect()
}

fn unanswered(engine: &dyn Engine, reason: impl Into<String>) -> Error {
    let store = format!("the {} engine", engine.capabilities().engine);
    Error::Unavailable { store, reason: reason.into() }
}
