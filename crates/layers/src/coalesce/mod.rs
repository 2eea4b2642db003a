//! Coalesce: merges concurrent single calls into one engine call, without a timer.
//!
//! An engine with a round trip or a disk write per call serves a hundred callers as fast as one if their
//! calls are merged. While one call is in flight, further requests are collected and sent together when it
//! returns; a single call does not wait. Merged are `enqueue` in mode `Each`, `settle` without a claim,
//! `update` and `get`. Everything else passes through, including all-or-nothing batches, which would lose
//! their meaning if merged.
//!
//! - **Bounded.** Items and bytes held are limited ([`Options`]); beyond that, callers wait for capacity.
//!   Settles and updates have separate capacity of the same size, so that workers do not wait for producers.
//! - **Separate results.** Every caller gets the results of its own items. If a merged call is refused as a
//!   whole, nothing was done, and each request is repeated separately, so that only an invalid one fails. If
//!   the outcome is unknown (`Unavailable`, a panic), all callers of that call get the error.
//! - **Cancellation.** If a caller is dropped before its call is made, the call is not made; after that it
//!   takes effect, as with a call of its own.
//! - **Isolation of keys.** Jobs with unique or ordering keys are merged only with each other: a key that is
//!   locked in the store does not delay jobs without keys.
//! - **Ordered.** A caller that awaits one call before making the next sees them take effect in that order.
//!
//! Merging needs a Tokio runtime; outside of one, calls pass straight through.
//!
//! ```
//! use std::sync::Arc;
//! use windlass_core::engine::{Enqueue, Jobs};
//! use windlass_core::model::NewJob;
//! use windlass_layers::Coalesce;
//! # use windlass_memory::MemoryEngine;
//!
//! # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
//! let engine = Coalesce::new(Arc::new(MemoryEngine::new()));
//! engine.enqueue(Enqueue::each([NewJob::new("hello").json("{}")])).await.unwrap();
//! # });
//! ```

mod batcher;
mod line;
mod options;
mod room;
mod verb;

pub use options::{
    CALL_BYTES_MAX, CALL_ITEMS_MAX, HELD_BYTES_DEFAULT, HELD_ITEMS_DEFAULT, IN_FLIGHT_DEFAULT,
    Options,
};

use batcher::Batcher;
use room::Room;
use std::fmt;
use std::sync::Arc;
use verb::{EnqueueEach, Gets, SettleOnly, Updates};
use windlass_core::Result;
use windlass_core::engine::*;
use windlass_core::model::Job;

/// An engine that merges concurrent single calls to the engine it wraps.
pub struct Coalesce {
    engine: Arc<dyn Engine>,
    enqueues: Batcher<EnqueueEach>,
    /// Jobs with keys may have to wait for a lock on a key; jobs without keys must not wait with them.
    keyed: Batcher<EnqueueEach>,
    settles: Batcher<SettleOnly>,
    updates: Batcher<Updates>,
    gets: Batcher<Gets>,
}

impl Coalesce {
    /// Wraps this engine, with default bounds.
    pub fn new(engine: Arc<dyn Engine>) -> Self {
        Self::assemble(engine, Options::default())
    }

    /// Wraps this engine, with these bounds.
    pub fn with(engine: Arc<dyn Engine>, options: Options) -> Result<Self> {
        options.check()?;
        Ok(Self::assemble(engine, options))
    }

    fn assemble(engine: Arc<dyn Engine>, options: Options) -> Self {
        let Options { in_flight_max, held_items_max, held_bytes_max } = options;
        let room = || Arc::new(Room::new(held_items_max, held_bytes_max));
        // Separate capacity for workers' reports, so that they never wait for producers.
        let (room, reports) = (room(), room());
        Self {
            enqueues: Batcher::new(engine.clone(), room.clone(), in_flight_max),
            keyed: Batcher::new(engine.clone(), room.clone(), in_flight_max),
            settles: Batcher::new(engine.clone(), reports.clone(), in_flight_max),
            updates: Batcher::new(engine.clone(), reports, in_flight_max),
            gets: Batcher::new(engine.clone(), room, in_flight_max),
            engine,
        }
    }
}

impl fmt::Debug for Coalesce {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Coalesce({})", self.engine.capabilities().engine)
    }
}

/// Whether any of these jobs has a unique or ordering key.
fn has_keys(request: &Enqueue) -> bool {
    request.jobs.iter().any(|job| job.unique.is_some() || job.key.is_some())
}

impl Jobs for Coalesce {
    windlass_core::pass_on!(engine: capabilities);

    fn enqueue(&self, request: Enqueue) -> Answer<'_, Vec<Item<Enqueued>>> {
        match request.mode {
            Mode::Each if has_keys(&request) => Box::pin(self.keyed.call((), request.jobs)),
            Mode::Each => Box::pin(self.enqueues.call((), request.jobs)),
            Mode::AllOrNothing => self.engine.enqueue(request),
        }
    }

    windlass_core::pass_on!(engine: open_session, heartbeat, close_session, take, claim, wait);

    fn settle(&self, request: Settle) -> Answer<'_, SettleReply> {
        if request.claim.is_some() {
            return self.engine.settle(request);
        }
        Box::pin(async move {
            let reply = self.settles.call((), request.items).await?;
            Ok(reply.map(|items| SettleReply::new(items, None)))
        })
    }

    fn update(&self, request: Update) -> Answer<'_, Vec<Item<Updated>>> {
        Box::pin(self.updates.call((), request.items))
    }
}

impl Admin for Coalesce {
    fn get(&self, request: Get) -> Answer<'_, Vec<Option<Job>>> {
        Box::pin(self.gets.call((request.parts, request.queue_hint), request.ids))
    }

    windlass_core::pass_on!(engine: list, stats, limits, why, sessions, change, configure, settings, removed, events, records, import, health);
}

impl Maintain for Coalesce {
    windlass_core::pass_on!(engine: maintain, check);
}
