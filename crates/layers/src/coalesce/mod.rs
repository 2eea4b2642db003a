//! Coalesce: concurrent single calls become one engine call, without a timer.
//!
//! An engine that costs a round trip or a disk write per call serves a hundred callers as fast as one
//! if their calls travel together. While one call is on its way, the next ones gather and go together
//! when it returns; a lone call waits for nobody. What is merged: `enqueue` of jobs each for themselves,
//! `settle` without a claim, `update` and `get`. Everything else passes through, all-or-nothing batches
//! included: merged with others they would not stay what they are.
//!
//! - **Bounded.** Items and bytes held are limited ([`Options`]); beyond that, callers wait for room. Settles
//!   and updates have as much of their own, so that workers do not wait for producers.
//! - **Each its own.** Every caller gets the answers to its own items. If a merged call is refused as a
//!   whole, nothing of it was done, and each request is tried alone, so that a bad one fails alone. If
//!   the outcome is unknown (`Unavailable`, a panic), all callers of that call are told so.
//! - **Nobody is disturbed.** A caller that goes away before its call was made has not made it; after
//!   that, what was done stays done, as with a call of its own.
//! - **Apart.** Jobs with unique or ordering keys travel together, without others: a key that is held in
//!   the store holds up nobody who has none.
//! - **In order.** Whoever awaits one call before making the next sees them happen in that order.
//!
//! It needs a tokio runtime to merge; outside of one, calls pass straight through.
//!
//! ```
//! use std::sync::Arc;
//! use windlass_core::engine::{Enqueue, Hot};
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

/// An engine that merges concurrent single calls to the one it wraps.
pub struct Coalesce {
    engine: Arc<dyn Engine>,
    enqueues: Batcher<EnqueueEach>,
    /// Jobs with keys may have to wait for somebody who holds one; others must not wait with them.
    keyed: Batcher<EnqueueEach>,
    settles: Batcher<SettleOnly>,
    updates: Batcher<Updates>,
    gets: Batcher<Gets>,
}

impl Coalesce {
    /// Around this engine, with the usual bounds.
    pub fn new(engine: Arc<dyn Engine>) -> Self {
        Self::assemble(engine, Options::default())
    }

    /// Around this engine, with these bounds.
    pub fn with(engine: Arc<dyn Engine>, options: Options) -> Result<Self> {
        options.check()?;
        Ok(Self::assemble(engine, options))
    }

    fn assemble(engine: Arc<dyn Engine>, options: Options) -> Self {
        let Options { in_flight_max, held_items_max, held_bytes_max } = options;
        let room = || Arc::new(Room::new(held_items_max, held_bytes_max));
        // What workers report waits for no producer.
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

/// Whether some of these jobs may find a key held.
fn has_keys(request: &Enqueue) -> bool {
    request.jobs.iter().any(|job| job.unique.is_some() || job.key.is_some())
}

impl Hot for Coalesce {
    windlass_core::pass_on!(engine: capabilities);

    fn enqueue(&self, request: Enqueue) -> Answer<'_, Vec<Item<Enqueued>>> {
        match request.mode {
            Mode::Each if has_keys(&request) => Box::pin(self.keyed.call((), request.jobs)),
            Mode::Each => Box::pin(self.enqueues.call((), request.jobs)),
            Mode::AllOrNothing => self.engine.enqueue(request),
        }
    }

    windlass_core::pass_on!(engine: open_session, heartbeat, close_session, claim, wait);

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
        Box::pin(self.gets.call(request.parts, request.ids))
    }

    windlass_core::pass_on!(engine: list, stats, sessions, change, configure, settings, records, health);
}

impl Maintain for Coalesce {
    windlass_core::pass_on!(engine: maintain, check);
}
