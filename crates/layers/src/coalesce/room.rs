//! Room for what callers hand over: bounded in items and in bytes. Knows nothing of calls.

use std::sync::Arc;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Room for so many items and bytes, shared by all verbs of a layer.
pub(super) struct Room {
    items: Bound,
    bytes: Bound,
}

struct Bound {
    free: Arc<Semaphore>,
    max: u32,
}

/// Room that is taken until this is dropped.
pub(super) struct Taken {
    _items: Option<OwnedSemaphorePermit>,
    _bytes: Option<OwnedSemaphorePermit>,
}

impl Room {
    pub(super) fn new(items_max: usize, bytes_max: usize) -> Self {
        Self { items: Bound::new(items_max), bytes: Bound::new(bytes_max) }
    }

    /// Takes room, waiting for others to leave if need be; first come, first served.
    pub(super) async fn take(&self, items: usize, bytes: usize) -> Taken {
        // Always in this order, so that two callers never wait for each other.
        let items = self.items.take(items).await;
        let bytes = self.bytes.take(bytes).await;
        Taken { _items: items, _bytes: bytes }
    }
}

impl Bound {
    fn new(max: usize) -> Self {
        let max = u32::try_from(max).unwrap_or(u32::MAX);
        Self { free: Arc::new(Semaphore::new(max as usize)), max }
    }

    async fn take(&self, count: usize) -> Option<OwnedSemaphorePermit> {
        // What is bigger than all the room takes all of it, instead of waiting forever.
        let count = u32::try_from(count).unwrap_or(u32::MAX).min(self.max);
        // The semaphore is never closed, so that this is always `Some`.
        self.free.clone().acquire_many_owned(count).await.ok()
    }
}
