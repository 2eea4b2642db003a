//! The queue of requests waiting to be merged, and the seats (slots) of tasks that drive merged calls.
//! Independent of engines.

use super::options::{CALL_BYTES_MAX, CALL_ITEMS_MAX};
use super::room::Reservation;
use super::verb::Verb;
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard};
use tokio::sync::oneshot;
use windlass_core::Result;
use windlass_core::engine::Stamped;
use windlass_core::sync::lock;

/// The reply to a caller.
pub(super) type Reply<V> = Result<Stamped<Vec<<V as Verb>::Answer>>>;

/// A caller's request in the queue.
pub(super) struct Request<V: Verb> {
    pub(super) key: V::Key,
    pub(super) items: Vec<V::Item>,
    pub(super) bytes: usize,
    pub(super) reply: oneshot::Sender<Reply<V>>,
    /// Capacity held until the reply is sent: requests in flight count as well.
    pub(super) _room: Reservation,
}

/// Requests merged into one call; never empty.
pub(super) type Batch<V> = Vec<Request<V>>;

/// The request queue of one verb.
pub(super) struct Line<V: Verb> {
    seats_max: usize,
    state: Mutex<State<V>>,
}

struct State<V: Verb> {
    waiting: VecDeque<Request<V>>,
    /// Number of tasks that drive merged calls.
    seats: usize,
}

impl<V: Verb> Line<V> {
    pub(super) fn new(seats_max: usize) -> Self {
        let state = State { waiting: VecDeque::new(), seats: 0 };
        Self { seats_max, state: Mutex::new(state) }
    }

    /// Queues a request. A caller that gets a seat must drive calls until the queue is empty.
    pub(super) fn join(self: &Arc<Self>, request: Request<V>) -> Option<Seat<V>> {
        let mut state = self.lock();
        state.waiting.push_back(request);
        if state.seats == self.seats_max {
            return None;
        }
        state.seats += 1;
        Some(Seat { line: self.clone(), left: false })
    }

    fn lock(&self) -> MutexGuard<'_, State<V>> {
        lock(&self.state)
    }
}

/// The obligation to drive merged calls.
pub(super) struct Seat<V: Verb> {
    line: Arc<Line<V>>,
    left: bool,
}

impl<V: Verb> Seat<V> {
    /// The next batch of requests; `None` ends the obligation.
    pub(super) fn next(&mut self) -> Option<Batch<V>> {
        let mut state = self.line.lock();
        let batch = state.take();
        if batch.is_empty() {
            // Under the same lock that found the queue empty, so that the next request gets the seat.
            state.seats -= 1;
            self.left = true;
            return None;
        }
        Some(batch)
    }

    /// Whether requests are waiting.
    pub(super) fn is_wanted(&self) -> bool {
        !self.line.lock().waiting.is_empty()
    }
}

impl<V: Verb> Drop for Seat<V> {
    fn drop(&mut self) {
        if self.left {
            return;
        }
        // The runtime of this task is shutting down. If no other task drives calls, queued requests would
        // wait forever; dropping them returns an error to their callers.
        let mut state = self.line.lock();
        state.seats -= 1;
        let forsaken =
            if state.seats == 0 { std::mem::take(&mut state.waiting) } else { VecDeque::new() };
        drop(state);
        drop(forsaken);
    }
}

impl<V: Verb> State<V> {
    /// Takes the first request and those that can be merged with it, in order.
    fn take(&mut self) -> Batch<V> {
        let mut batch: Batch<V> = Vec::new();
        let (mut items, mut bytes) = (0, 0);
        while let Some(next) = self.waiting.front() {
            if let Some(first) = batch.first() {
                let fits = next.key == first.key
                    && items + next.items.len() <= CALL_ITEMS_MAX
                    && bytes + next.bytes <= CALL_BYTES_MAX;
                if !fits && !next.reply.is_closed() {
                    break;
                }
            }
            let Some(next) = self.waiting.pop_front() else { break };
            // Requests of callers that are gone are dropped before the call is made.
            if !next.reply.is_closed() {
                items += next.items.len();
                bytes += next.bytes;
                batch.push(next);
            }
        }
        batch
    }
}
