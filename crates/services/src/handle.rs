//! A handle to running services: status and stop.

use crate::board::{Board, Status};
use crate::lead::Lead;
use std::fmt;
use std::sync::Arc;
use tokio_util::sync::{CancellationToken, DropGuard};

/// Running services. Cheap to clone; they stop when the last clone is dropped.
#[derive(Clone)]
pub struct ServicesHandle {
    inner: Arc<Inner>,
}

struct Inner {
    lead: Lead,
    boards: Vec<Arc<Board>>,
    stop: CancellationToken,
    /// Cancelled when all services have ended and the leadership has been released.
    ended: CancellationToken,
    /// Stops the services when the last handle is dropped.
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

    /// The status of the services in this process.
    pub fn status(&self) -> Status {
        let services = self.inner.boards.iter().map(|board| board.status()).collect();
        Status { leader: self.inner.lead.term(), services }
    }

    /// Whether this process leads and so runs the services.
    pub fn leads(&self) -> bool {
        self.inner.lead.term().is_some()
    }

    /// Stops gracefully: finishes steps in progress, then releases the leadership so that another process
    /// takes over at once. Takes at most a few seconds even if the store is down. May be called repeatedly.
    pub async fn stop(&self) {
        self.inner.stop.cancel();
        self.inner.ended.cancelled().await;
    }

    /// Waits until the services have ended, for whatever reason.
    pub async fn ended(&self) {
        self.inner.ended.cancelled().await;
    }
}

impl fmt::Debug for ServicesHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ServicesHandle").field("leader", &self.inner.lead.term()).finish()
    }
}
