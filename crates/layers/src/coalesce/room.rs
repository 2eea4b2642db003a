//! Capacity for requests, bounded in items and in bytes. Independent of calls.

use std::sync::Arc;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Capacity for items and bytes, shared by several verbs of a layer.
pub(super) struct Room {
    items: Bound,
    bytes: Bound,
}

struct Bound {
    free: Arc<Semaphore>,
    max: u32,
}

/// Capacity held until this is dropped.
pub(super) struct Reservation {
    _items: Option<OwnedSemaphorePermit>,
    _bytes: Option<OwnedSemaphorePermit>,
}

impl Room {
    pub(super) fn new(items_max: usize, bytes_max: usize) -> Self {
        Self { items: Bound::new(items_max), bytes: Bound::new(bytes_max) }
    }

    /// Acquires capacity; waits in FIFO order if there is none.
    pub(super) async fn take(&self, items: usize, bytes: usize) -> Reservation {
        // Always in this order, so that two callers cannot deadlock.
        let items = self.items.take(items).await;
        let bytes = self.bytes.take(bytes).await;
        Reservation { _items: items, _bytes: bytes }
    }
}

impl Bound {
    fn new(max: usize) -> Self {
        let max = u32::try_from(max).unwrap_or(u32::MAX);
        Self { free: Arc::new(Semaphore::new(max as usize)), max }
    }

    async fn take(&self, count: usize) -> Option<OwnedSemaphorePermit> {
        // A request larger than the total capacity takes all of it instead of waiting forever.
        let count = u32::try_from(count).unwrap_or(u32::MAX).min(self.max);
        // The semaphore is never closed, so this is always `Some`.
        self.free.clone().acquire_many_owned(count).await.ok()
    }
}
