//! The line of requests that wait to be merged, and the seats of those who drive merged calls.
//! Knows nothing of engines.

use super::options::{CALL_BYTES_MAX, CALL_ITEMS_MAX};
use super::room::Taken;
use super::verb::Verb;
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::oneshot;
use windlass_core::Result;
use windlass_core::engine::Stamped;

/// What a caller gets back.
pub(super) type Reply<V> = Result<Stamped<Vec<<V as Verb>::Answer>>>;

/// A caller's request in line.
pub(super) struct Request<V: Verb> {
    pub(super) key: V::Key,
    pub(super) items: Vec<V::Item>,
    pub(super) bytes: usize,
    pub(super) reply: oneshot::Sender<Reply<V>>,
    /// Held until the request is answered: what is on its way counts as well.
    pub(super) _room: Taken,
}

/// Requests that go in one call; never empty.
pub(super) type Batch<V> = Vec<Request<V>>;

/// The line of one verb.
pub(super) struct Line<V: Verb> {
    seats_max: usize,
    state: Mutex<State<V>>,
}

struct State<V: Verb> {
    waiting: VecDeque<Request<V>>,
    /// How many merged calls are being driven.
    seats: usize,
}

impl<V: Verb> Line<V> {
    pub(super) fn new(seats_max: usize) -> Self {
        let state = State { waiting: VecDeque::new(), seats: 0 };
        Self { seats_max, state: Mutex::new(state) }
    }

    /// Gets in line. Whoever gets a seat must drive calls until nobody waits.
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
        // Nothing under the lock leaves it half done.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The right, and the duty, to drive merged calls.
pub(super) struct Seat<V: Verb> {
    line: Arc<Line<V>>,
    left: bool,
}

impl<V: Verb> Seat<V> {
    /// The next requests that go together; `None` ends the duty.
    pub(super) fn next(&mut self) -> Option<Batch<V>> {
        let mut state = self.line.lock();
        let batch = state.take();
        if batch.is_empty() {
            // Under the same lock that saw nobody: the next to come gets the seat.
            state.seats -= 1;
            self.left = true;
            return None;
        }
        Some(batch)
    }

    /// Whether somebody waits.
    pub(super) fn is_wanted(&self) -> bool {
        !self.line.lock().waiting.is_empty()
    }
}

impl<V: Verb> Drop for Seat<V> {
    fn drop(&mut self) {
        if self.left {
            return;
        }
        // The runtime that drove us is shutting down. If nobody else drives, those in line would wait
        // forever: dropping their requests tells them.
        let mut state = self.line.lock();
        state.seats -= 1;
        let forsaken =
            if state.seats == 0 { std::mem::take(&mut state.waiting) } else { VecDeque::new() };
        drop(state);
        drop(forsaken);
    }
}

impl<V: Verb> State<V> {
    /// Takes the head of the line and whoever can go with it, in order.
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
            // Whoever went away before the call was made has not made it.
            if !next.reply.is_closed() {
                items += next.items.len();
                bytes += next.bytes;
                batch.push(next);
            }
        }
        batch
    }
}
