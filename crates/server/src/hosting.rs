//! Lifecycle of the hosted services: started with the server, replaced at run time, stopped with
//! the server. It must not know what the services do.

use std::sync::Arc;
use tokio::sync::Mutex;
use windlass_core::engine::Engine;
use windlass_core::{Error, Result};
use windlass_services::{ServiceOptions, Services, ServicesHandle};

/// The hosted services. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Hosting {
    /// Held across a stop and a start, so that concurrent changes cannot leave two sets running.
    hosted: Arc<Mutex<Hosted>>,
}

enum Hosted {
    /// The engine is not open yet; these options are used once it is.
    Later(Option<Box<ServiceOptions>>),
    On {
        engine: Arc<dyn Engine>,
        running: Option<ServicesHandle>,
    },
    /// The server has stopped. Holds no engine, because a handle can outlive the server.
    Over,
}

impl Hosting {
    /// Starts services with these options; `None` starts none.
    pub(crate) fn start(engine: Arc<dyn Engine>, options: Option<&ServiceOptions>) -> Result<Self> {
        let running = start(&engine, options)?;
        Ok(Self { hosted: Arc::new(Mutex::new(Hosted::On { engine, running })) })
    }

    /// Defers the start until the engine is open ([`Hosting::begin`]).
    pub(crate) fn later(options: Option<ServiceOptions>) -> Self {
        Self { hosted: Arc::new(Mutex::new(Hosted::Later(options.map(Box::new)))) }
    }

    /// Starts the deferred services on the opened engine.
    pub(crate) async fn begin(&self, engine: Arc<dyn Engine>) -> Result<()> {
        let mut hosted = self.hosted.lock().await;
        if let Hosted::Later(options) = &*hosted {
            let running = start(&engine, options.as_deref())?;
            *hosted = Hosted::On { engine, running };
        }
        Ok(())
    }

    /// Restarts the services with these options; `None` stops them.
    pub(crate) async fn change(&self, options: Option<&ServiceOptions>) -> Result<()> {
        options.map_or(Ok(()), ServiceOptions::check)?;
        match &mut *self.hosted.lock().await {
            Hosted::Later(later) => *later = options.cloned().map(Box::new),
            Hosted::On { engine, running } => {
                // Stop first: the running services must release the leadership before new ones
                // request it.
                if let Some(running) = running.take() {
                    running.stop().await;
                }
                *running = start(engine, options)?;
            }
            Hosted::Over => {
                return Err(Error::invalid("services", "other options", "the server has stopped"));
            }
        }
        Ok(())
    }

    /// Stops the services permanently and releases the engine.
    pub(crate) async fn stop(&self) {
        let hosted = std::mem::replace(&mut *self.hosted.lock().await, Hosted::Over);
        if let Hosted::On { running: Some(running), .. } = hosted {
            running.stop().await;
        }
    }
}

fn start(
    engine: &Arc<dyn Engine>,
    options: Option<&ServiceOptions>,
) -> Result<Option<ServicesHandle>> {
    let start = |options: &ServiceOptions| {
        // Every server exports the store's gauges at `/metrics` itself, leader or not.
        let mut options = options.clone();
        options.gauges = false;
        Services::builder(engine.clone()).options(options).start()
    };
    options.map(start).transpose()
}
