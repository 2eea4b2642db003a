//! One set of services for all who want it in a process: it starts with the first guest and ends with
//! the last. It must not know who the guests are.

use crate::board::Status;
use crate::handle::ServicesHandle;
use crate::options::ServiceOptions;
use crate::services::Services;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use windlass_core::engine::Engine;
use windlass_core::{Error, Result};

/// The services of one connection to a store, shared by the workers on it. Cheap to clone.
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
/// assert!(host.status().is_some(), "somebody still needs them");
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
    /// Held for moments, never across an await.
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// What somebody asked for; the defaults until then.
    options: Option<ServiceOptions>,
    guests: usize,
    /// There while there are guests.
    running: Option<ServicesHandle>,
}

impl Host {
    /// For services of this engine. Nothing runs yet.
    pub fn new(engine: Arc<dyn Engine>) -> Self {
        Self { shared: Arc::new(Shared { engine, state: Mutex::default() }) }
    }

    /// Has the services run with these options from their next start on. There is one set of services,
    /// so it has one set of options: others than those somebody chose before, or than those that are
    /// at work, are refused.
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

    /// Has the services run for as long as the guest stays. The first one starts them, on the current
    /// tokio runtime.
    pub fn join(&self) -> Result<Guest> {
        let mut state = self.lock();
        if state.running.is_none() {
            let options = state.options.clone().unwrap_or_default();
            let services = Services::builder(self.shared.engine.clone()).options(options);
            state.running = Some(services.start()?);
        }
        state.guests += 1;
        Ok(Guest { host: self.clone(), left: false })
    }

    /// How the services of this process are doing; `None` while nobody needs them.
    pub fn status(&self) -> Option<Status> {
        self.lock().running.as_ref().map(ServicesHandle::status)
    }

    /// One guest less. After the last one, what is to be stopped.
    fn leave(&self) -> Option<ServicesHandle> {
        let mut state = self.lock();
        state.guests -= 1;
        if state.guests == 0 { state.running.take() } else { None }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.shared.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Host {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Host").field("guests", &self.lock().guests).finish_non_exhaustive()
    }
}

/// Somebody who needs the services to run. Dropping it is leaving without waiting.
#[derive(Debug)]
#[must_use = "the services run for as long as there is a guest"]
pub struct Guest {
    host: Host,
    left: bool,
}

impl Guest {
    /// Leaves. The last one to leave stops the services in good order and waits for that.
    pub async fn leave(mut self) {
        self.left = true;
        if let Some(services) = self.host.leave() {
            services.stop().await;
        }
    }
}

impl Drop for Guest {
    fn drop(&mut self) {
        if !self.left {
            // The last handle to go stops the services, in the background.
            drop(self.host.leave());
        }
    }
}
