//! The handle of running services: how they are doing, and the way to stop them.

use crate::board::{Board, Status};
use crate::lead::Lead;
use std::fmt;
use std::sync::Arc;
use tokio_util::sync::{CancellationToken, DropGuard};

/// Running services. Cheap to clone; when the last clone is gone, they stop by themselves.
#[derive(Clone)]
pub struct ServicesHandle {
    inner: Arc<Inner>,
}

struct Inner {
    lead: Lead,
    boards: Vec<Arc<Board>>,
    stop: CancellationToken,
    /// Cancelled once everything has ended and the leadership is given back.
    ended: CancellationToken,
    /// Stops the services with the last handle.
    _guard: DropGuard,
}

impl ServicesHandle {
    pub(crate) fn new(
        lead: Lead,
        boards: Vec<Arc<Board>>,
        stop: CancellationToken,
        ended: CancellationToken,
    ) -> Self {
        let guard = stop.clone().drop_guard();
        Self { inner: Arc::new(Inner { lead, boards, stop, ended, _guard: guard }) }
    }

    /// How the services of this process are doing.
    pub fn status(&self) -> Status {
        let services = self.inner.boards.iter().map(|board| board.status()).collect();
        Status { leader: self.inner.lead.term(), services }
    }

    /// Whether this process leads, and so does the work.
    pub fn leads(&self) -> bool {
        self.inner.lead.term().is_some()
    }

    /// Stops in good order: steps under way are finished, then the leadership is given back, so that
    /// another process takes over at once. Bounded by seconds even if the store is away. Stopping
    /// twice is fine.
    pub async fn stop(&self) {
        self.inner.stop.cancel();
        self.inner.ended.cancelled().await;
    }

    /// Waits until the services have ended, whoever stopped them.
    pub async fn ended(&self) {
        self.inner.ended.cancelled().await;
    }
}

impl fmt::Debug for ServicesHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ServicesHandle").field("leader", &self.inner.lead.term()).finish()
    }
}
