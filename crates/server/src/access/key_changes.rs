//! Notifies of key changes. Changes through this server take effect at once; changes made elsewhere
//! are found at the next refresh.

// A match that lists the known variants shows the next one where it must be decided.
#![deny(clippy::wildcard_enum_match_arm)]

use std::sync::atomic::{AtomicU64, Ordering};
use tokio::sync::watch;
use windlass_core::engine::RecordOp;
use windlass_services::is_key_record;

/// Shared between the layer that sees key changes and the requests that depend on keys.
#[derive(Debug)]
pub(crate) struct KeyChanges {
    /// Number of changes through this server.
    changes: AtomicU64,
    /// Wakes waiting requests to check their keys again.
    wake: watch::Sender<()>,
}

impl Default for KeyChanges {
    fn default() -> Self {
        Self { changes: AtomicU64::new(0), wake: watch::Sender::new(()) }
    }
}

impl KeyChanges {
    /// Whether one of these operations may change keys.
    pub(crate) fn is_among(batch: &[RecordOp]) -> bool {
        batch.iter().any(|op| match op {
            RecordOp::Put { key, .. } | RecordOp::Delete { key, .. } => is_key_record(key),
            RecordOp::Get { .. }
            | RecordOp::List { .. }
            | RecordOp::Append { .. }
            | RecordOp::Read { .. }
            | _ => false,
        })
    }

    /// Returns a guard that announces a change when dropped, even after an error: a change whose
    /// reply was lost may have been made.
    pub(crate) fn announce_at_end(&self) -> impl Drop + '_ {
        KeyLayer(self)
    }

    /// Number of changes through this server.
    pub(super) fn changes(&self) -> u64 {
        self.changes.load(Ordering::Acquire)
    }

    /// Wakes waiting requests.
    pub(super) fn wake(&self) {
        self.wake.send_replace(());
    }

    /// Subscribes a waiting request.
    pub(super) fn watch(&self) -> watch::Receiver<()> {
        self.wake.subscribe()
    }
}

struct KeyLayer<'a>(&'a KeyChanges);

impl Drop for KeyLayer<'_> {
    fn drop(&mut self) {
        self.0.changes.fetch_add(1, Ordering::AcqRel);
        self.0.wake();
    }
}
