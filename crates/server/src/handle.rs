//! The handle of a running server: address, status, changes at run time and shutdown.

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

/// A running server. Cheap to clone; dropping the last clone stops the server.
#[derive(Clone)]
pub struct ServerHandle {
    inner: Arc<Inner>,
}

struct Inner {
    address: SocketAddr,
    counts: Counts,
    live: LiveSettings,
    stop: CancellationToken,
    ended: CancellationToken,
    /// Stops the server when the last handle is dropped.
    _guard: DropGuard,
}

/// Counters of a running server.
#[derive(Clone, Default)]
pub(crate) struct Counts {
    pub(crate) connections: Arc<AtomicUsize>,
    pub(crate) waiting: Arc<AtomicUsize>,
}

/// Settings that can change while a server runs.
pub(crate) struct LiveSettings {
    pub(crate) limits: watch::Sender<Limits>,
    /// Memory for all request bodies; fixed at startup.
    pub(crate) bodies_bytes_max: usize,
    pub(crate) services: Hosting,
}

/// A snapshot of a server's load.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Status {
    /// Open connections.
    pub connections: usize,
    /// Requests that wait for claimable jobs.
    pub waiting: usize,
}

impl ServerHandle {
    pub(crate) fn new(
        address: SocketAddr,
        counts: Counts,
        live: LiveSettings,
        stop: CancellationToken,
        ended: CancellationToken,
    ) -> Self {
        let _guard = stop.clone().drop_guard();
        let inner = Inner { address, counts, live, stop, ended, _guard };
        Self { inner: Arc::new(inner) }
    }

    /// The address it listens on.
    pub fn address(&self) -> SocketAddr {
        self.inner.address
    }

    /// The current load.
    pub fn status(&self) -> Status {
        let count = |count: &AtomicUsize| count.load(Ordering::Relaxed);
        let Counts { connections, waiting } = &self.inner.counts;
        Status { connections: count(connections), waiting: count(waiting) }
    }

    /// The current limits.
    pub fn limits(&self) -> Limits {
        *self.inner.live.limits.borrow()
    }

    /// Replaces the limits. They apply to later requests and connections.
    pub fn set_limits(&self, limits: Limits) -> Result<()> {
        limits.check()?;
        let room = self.inner.live.bodies_bytes_max;
        if limits.body_bytes_max > room {
            let expected =
                format!("bodies_bytes_max is {room}; restart with a larger bodies_bytes_max");
            return Err(Error::invalid("body_bytes_max", limits.body_bytes_max, expected));
        }
        self.inner.live.limits.send_replace(limits);
        Ok(())
    }

    /// Restarts the hosted services with these options; `None` stops them. The running services
    /// shut down first, and another process may become leader in between.
    pub async fn set_services(&self, services: Option<&ServiceOptions>) -> Result<()> {
        self.inner.live.services.change(services).await
    }

    /// Stops gracefully: accepts no more connections, answers waiting claims without jobs, finishes
    /// requests in progress within the grace period, then stops the services and releases the
    /// engine. Calling it twice is safe.
    pub async fn stop(&self) {
        self.inner.stop.cancel();
        self.ended().await;
    }

    /// Waits until the server has stopped, for any reason.
    pub async fn ended(&self) {
        self.inner.ended.cancelled().await;
    }
}

impl fmt::Debug for ServerHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ServerHandle({})", self.inner.address)
    }
}
