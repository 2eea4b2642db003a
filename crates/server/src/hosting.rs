//! The services that a server hosts: started with it, exchanged while it runs, stopped with it. It must not
//! know what services do.

use std::sync::Arc;
use tokio::sync::Mutex;
use windlass_core::engine::Engine;
use windlass_core::{Error, Result};
use windlass_services::{ServiceOptions, Services, ServicesHandle};

/// Cheap to clone.
#[derive(Clone)]
pub(crate) struct Hosting {
    /// Held across a stop and a start: two changes at a time must not leave two sets running.
    hosted: Arc<Mutex<Hosted>>,
}

enum Hosted {
    /// There is no engine yet.
    Later(Option<ServiceOptions>),
    On {
        engine: Arc<dyn Engine>,
        running: Option<ServicesHandle>,
    },
    /// The server has stopped: a handle that outlives it must not hold the engine.
    Over,
}

impl Hosting {
    /// Starts services with these options, or none.
    pub(crate) fn start(engine: Arc<dyn Engine>, options: Option<&ServiceOptions>) -> Result<Self> {
        let running = start(&engine, options)?;
        Ok(Self { hosted: Arc::new(Mutex::new(Hosted::On { engine, running })) })
    }

    /// For an engine that is not there yet.
    pub(crate) fn later(options: Option<ServiceOptions>) -> Self {
        Self { hosted: Arc::new(Mutex::new(Hosted::Later(options))) }
    }

    /// The engine is there.
    pub(crate) async fn begin(&self, engine: Arc<dyn Engine>) -> Result<()> {
        let mut hosted = self.hosted.lock().await;
        if let Hosted::Later(options) = &*hosted {
            let running = start(&engine, options.as_ref())?;
            *hosted = Hosted::On { engine, running };
        }
        Ok(())
    }

    /// Goes on with these options, or without services.
    pub(crate) async fn change(&self, options: Option<&ServiceOptions>) -> Result<()> {
        options.map_or(Ok(()), ServiceOptions::check)?;
        match &mut *self.hosted.lock().await {
            Hosted::Later(later) => *later = options.cloned(),
            Hosted::On { engine, running } => {
                // In this order: the leadership is given back before it is wanted again.
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

    /// Stops them for good and lets the engine go.
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
        // Every server shows the numbers of the store at `/metrics`, whoever leads.
        let mut options = options.clone();
        options.gauges = false;
        Services::builder(engine.clone()).options(options).start()
    };
    options.map(start).transpose()
}
