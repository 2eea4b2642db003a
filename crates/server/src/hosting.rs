//! The services that a server hosts: started with it, exchanged while it runs, stopped with it. It must not
//! know what services do.

use std::sync::Arc;
use tokio::sync::Mutex;
use windlass_core::engine::Engine;
use windlass_core::{Error, Result};
use windlass_services::{ServiceOptions, Services, ServicesHandle};

/// Cheap to clone. Empty once the server has stopped, so that a handle that outlives it does not hold the
/// engine.
#[derive(Clone)]
pub(crate) struct Hosting {
    /// Held across a stop and a start: two changes at a time must not leave two sets running.
    hosted: Arc<Mutex<Option<Hosted>>>,
}

struct Hosted {
    engine: Arc<dyn Engine>,
    running: Option<ServicesHandle>,
}

impl Hosting {
    /// Starts services with these options, or none.
    pub(crate) fn start(engine: Arc<dyn Engine>, options: Option<&ServiceOptions>) -> Result<Self> {
        let running = start(&engine, options)?;
        Ok(Self { hosted: Arc::new(Mutex::new(Some(Hosted { engine, running }))) })
    }

    /// Goes on with these options, or without services.
    pub(crate) async fn change(&self, options: Option<&ServiceOptions>) -> Result<()> {
        options.map_or(Ok(()), ServiceOptions::check)?;
        let mut hosted = self.hosted.lock().await;
        let Some(hosted) = &mut *hosted else {
            return Err(Error::invalid("services", "other options", "the server has stopped"));
        };
        // In this order: the leadership is given back before it is wanted again.
        if let Some(running) = hosted.running.take() {
            running.stop().await;
        }
        hosted.running = start(&hosted.engine, options)?;
        Ok(())
    }

    /// Stops them for good and lets the engine go.
    pub(crate) async fn stop(&self) {
        if let Some(Hosted { running: Some(running), .. }) = self.hosted.lock().await.take() {
            running.stop().await;
        }
    }
}

fn start(
    engine: &Arc<dyn Engine>,
    options: Option<&ServiceOptions>,
) -> Result<Option<ServicesHandle>> {
    let start = |options: &ServiceOptions| {
        Services::builder(engine.clone()).options(options.clone()).start()
    };
    options.map(start).transpose()
}
