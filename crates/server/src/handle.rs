//! The handle of a running server: where it listens, how it is doing, and the way to stop it.

use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use tokio_util::sync::{CancellationToken, DropGuard};

/// A running server. Cheap to clone; when the last clone is gone, it stops by itself.
#[derive(Clone)]
pub struct ServerHandle {
    inner: Arc<Inner>,
}

struct Inner {
    address: SocketAddr,
    counts: Counts,
    stop: CancellationToken,
    ended: CancellationToken,
    /// Stops the server with the last handle.
    _guard: DropGuard,
}

/// What a server counts while it runs.
#[derive(Clone, Default)]
pub(crate) struct Counts {
    pub(crate) connections: Arc<AtomicUsize>,
    pub(crate) waiting: Arc<AtomicUsize>,
}

/// How a server is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Status {
    /// Open connections.
    pub connections: usize,
    /// Requests that wait for something to claim.
    pub waiting: usize,
}

impl ServerHandle {
    pub(crate) fn new(
        address: SocketAddr,
        counts: Counts,
        stop: CancellationToken,
        ended: CancellationToken,
    ) -> Self {
        let guard = stop.clone().drop_guard();
        Self { inner: Arc::new(Inner { address, counts, stop, ended, _guard: guard }) }
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.inner.address
    }

    /// How it is doing.
    pub fn status(&self) -> Status {
        let count = |count: &AtomicUsize| count.load(Ordering::Relaxed);
        let Counts { connections, waiting } = &self.inner.counts;
        Status { connections: count(connections), waiting: count(waiting) }
    }

    /// Stops in good order: no new connections, waiting claims answer with nothing, requests under way
    /// are answered within the grace time, then the services stop and the engine is let go. Stopping
    /// twice is fine.
    pub async fn stop(&self) {
        self.inner.stop.cancel();
        self.ended().await;
    }

    /// Waits until it has stopped, whoever stopped it.
    pub async fn ended(&self) {
        self.inner.ended.cancelled().await;
    }
}

impl fmt::Debug for ServerHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ServerHandle({})", self.inner.address)
    }
}
