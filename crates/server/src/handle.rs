//! The handle of a running server: where it listens, how it is doing, and the way to stop it.

use crate::hosting::Hosting;
use crate::options::Limits;
use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use tokio::sync::watch;
use tokio_util::sync::{CancellationToken, DropGuard};
use windlass_core::{Error, Result};
use windlass_services::ServiceOptions;

/// A running server. Cheap to clone; when the last clone is gone, it stops by itself.
#[derive(Clone)]
pub struct ServerHandle {
    inner: Arc<Inner>,
}

struct Inner {
    address: SocketAddr,
    counts: Counts,
    dials: Dials,
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

/// What can be changed while a server runs.
pub(crate) struct Dials {
    pub(crate) limits: watch::Sender<Limits>,
    /// Room for the bodies of all requests, which cannot change.
    pub(crate) bodies_bytes_max: usize,
    pub(crate) services: Hosting,
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
        dials: Dials,
        stop: CancellationToken,
        ended: CancellationToken,
    ) -> Self {
        let _guard = stop.clone().drop_guard();
        let inner = Inner { address, counts, dials, stop, ended, _guard };
        Self { inner: Arc::new(inner) }
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

    /// The bounds that hold at present.
    pub fn limits(&self) -> Limits {
        *self.inner.dials.limits.borrow()
    }

    /// Keeps these bounds from now on.
    pub fn set_limits(&self, limits: Limits) -> Result<()> {
        limits.check()?;
        let room = self.inner.dials.bodies_bytes_max;
        if limits.body_bytes_max > room {
            let expected = format!(
                "there is room for {room} bytes of requests; restart with a larger bodies_bytes_max"
            );
            return Err(Error::invalid("body_bytes_max", limits.body_bytes_max, expected));
        }
        self.inner.dials.limits.send_replace(limits);
        Ok(())
    }

    /// Hosts services with these options from now on, or none. Those that run are stopped in good order
    /// first; meanwhile another process on the store may take the leadership.
    pub async fn set_services(&self, services: Option<&ServiceOptions>) -> Result<()> {
        self.inner.dials.services.change(services).await
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
