//! One set of services per process, shared by reference counting: starts with the first guest and ends with
//! the last. Independent of what the guests are.

use crate::board::Status;
use crate::handle::ServicesHandle;
use crate::options::ServiceOptions;
use crate::services::Services;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard};
use windlass_core::engine::Engine;
use windlass_core::sync::lock;
use windlass_core::{Error, Result};

/// The services of one connection to a store, shared by its workers. Cheap to clone.
///
/// ```
/// # use std::sync::Arc;
/// # use windlass_memory::MemoryEngine;
/// use windlass_services::Host;
///
/// # tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap().block_on(async {
/// let host = Host::new(Arc::new(MemoryEngine::new()));
/// let (one, other) = (host.join()?, host.join()?);
/// one.leave().await;
/// assert!(host.status().is_some(), "another worker still needs them");
/// other.leave().await;
/// assert!(host.status().is_none());
/// # Ok::<(), windlass_core::Error>(())
/// # }).unwrap();
/// ```
#[derive(Clone)]
pub struct Host {
    shared: Arc<Shared>,
}

struct Shared {
    engine: Arc<dyn Engine>,
    /// Locked briefly, never across an await.
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// The chosen options; `None` means the defaults.
    options: Option<ServiceOptions>,
    guests: usize,
    /// `Some` while there are guests.
    running: Option<ServicesHandle>,
}

impl Host {
    /// A host for services of this engine. Starts nothing yet.
    pub fn new(engine: Arc<dyn Engine>) -> Self {
        Self { shared: Arc::new(Shared { engine, state: Mutex::default() }) }
    }

    /// Sets the options from the next start on. There is one set of services with one set of options: options
    /// that differ from those chosen earlier, or from those of the running services, are refused.
    pub fn choose(&self, options: ServiceOptions) -> Result<()> {
        options.check()?;
        let mut state = self.lock();
        let standing = match (&state.options, &state.running) {
            (Some(chosen), _) => Some(chosen.clone()),
            (None, Some(_)) => Some(ServiceOptions::default()),
            (None, None) => None,
        };
        if standing.is_some_and(|standing| standing != options) {
            let expected = "the services of this connection have other options already; give all its \
                            workers the same, before the first of them starts";
            return Err(Error::invalid("service_options", "other options", expected));
        }
        state.options = Some(options);
        Ok(())
    }

    /// Keeps the services running until the guest leaves. The first guest starts them, on the current Tokio
    /// runtime.
    pub fn join(&self) -> Result<HostGuard> {
        let mut state = self.lock();
        if state.running.is_none() {
            let options = state.options.clone().unwrap_or_default();
            let services = Services::builder(self.shared.engine.clone()).options(options);
            state.running = Some(services.start()?);
        }
        state.guests += 1;
        Ok(HostGuard { host: self.clone(), left: false })
    }

    /// The status of the services in this process; `None` while there are no guests.
    pub fn status(&self) -> Option<Status> {
        self.lock().running.as_ref().map(ServicesHandle::status)
    }

    /// Removes a guest. After the last one, returns the services to stop.
    fn leave(&self) -> Option<ServicesHandle> {
        let mut state = self.lock();
        state.guests -= 1;
        if state.guests == 0 { state.running.take() } else { None }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        lock(&self.shared.state)
    }
}

impl fmt::Debug for Host {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Host").field("guests", &self.lock().guests).finish_non_exhaustive()
    }
}

/// A user of the services, which run while there is one. Dropping it leaves without waiting.
#[derive(Debug)]
#[must_use = "the services run for as long as there is a guest"]
pub struct HostGuard {
    host: Host,
    left: bool,
}

impl HostGuard {
    /// Leaves. The last guest stops the services gracefully and waits for their end.
    pub async fn leave(mut self) {
        self.left = true;
        if let Some(services) = self.host.leave() {
            services.stop().await;
        }
    }
}

impl Drop for HostGuard {
    fn drop(&mut self) {
        if !self.left {
            // Dropping the last handle stops the services in the background.
            drop(self.host.leave());
        }
    }
}
