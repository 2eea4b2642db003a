//! That keys changed. Whoever changes them through this server is followed by their effect at once; changes
//! made elsewhere are found when the keys are read again.

use std::sync::atomic::{AtomicU64, Ordering};
use tokio::sync::watch;
use windlass_core::engine::RecordOp;
use windlass_services::is_key_record;

/// Shared by whoever sees keys change and whoever acts on it.
#[derive(Debug)]
pub(crate) struct KeyNews {
    /// Changes that were made through this server.
    changes: AtomicU64,
    /// Wakes requests that wait, to look at their keys again.
    wake: watch::Sender<()>,
}

impl Default for KeyNews {
    fn default() -> Self {
        Self { changes: AtomicU64::new(0), wake: watch::Sender::new(()) }
    }
}

impl KeyNews {
    /// Whether one of these operations may change who is let in.
    pub(crate) fn is_among(batch: &[RecordOp]) -> bool {
        batch.iter().any(|op| match op {
            RecordOp::Put { key, .. } | RecordOp::Delete { key, .. } => is_key_record(key),
            _ => false,
        })
    }

    /// Tells everybody when it is dropped: a change whose answer was lost may have been made.
    pub(crate) fn announce_at_end(&self) -> impl Drop + '_ {
        Announce(self)
    }

    /// How many changes were made through this server.
    pub(super) fn changes(&self) -> u64 {
        self.changes.load(Ordering::Acquire)
    }

    /// Wakes requests that wait.
    pub(super) fn wake(&self) {
        self.wake.send_replace(());
    }

    /// For a request that waits.
    pub(super) fn watch(&self) -> watch::Receiver<()> {
        self.wake.subscribe()
    }
}

struct Announce<'a>(&'a KeyNews);

impl Drop for Announce<'_> {
    fn drop(&mut self) {
        self.0.changes.fetch_add(1, Ordering::AcqRel);
        self.0.wake();
    }
}
