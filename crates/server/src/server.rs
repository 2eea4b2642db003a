//! From options to a running server: bind first, so that the engine can be told the address.

use crate::accept::{Acceptor, accept};
use crate::app::App;
use crate::handle::{Counts, ServerHandle};
use crate::meter::{Meter, Rates};
use crate::options::Options;
use crate::routes;
use std::net::SocketAddr;
use std::sync::Arc;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;
use tracing::info;
use windlass_core::engine::Engine;
use windlass_core::{Error, Result};
use windlass_layers::Coalesce;
use windlass_services::Services;

/// A server that has its address and waits for its engine.
#[derive(Debug)]
pub struct Server {
    options: Options,
    listener: TcpListener,
    address: SocketAddr,
}

impl Server {
    /// Takes the address. Clients can connect from now on; they are answered once it serves.
    pub async fn bind(options: Options) -> Result<Self> {
        options.check()?;
        let unbound = |error: std::io::Error| {
            let expected = format!("cannot listen there: {error}; choose another address");
            Error::invalid("listen", options.listen, expected)
        };
        let listener = TcpListener::bind(options.listen).await.map_err(unbound)?;
        let address = listener.local_addr().map_err(unbound)?;
        Ok(Self { options, listener, address })
    }

    /// Where it listens.
    pub const fn address(&self) -> SocketAddr {
        self.address
    }

    /// Serves this engine in the background, on the current tokio runtime.
    pub fn serve(self, engine: Arc<dyn Engine>) -> Result<ServerHandle> {
        let Self { options, listener, address } = self;
        let name = engine.capabilities().engine;
        let rates = Rates::new();
        let engine: Arc<dyn Engine> = Arc::new(Meter::new(engine, rates.clone()));
        let services = match &options.services {
            Some(services) => {
                Some(Services::builder(engine.clone()).options(services.clone()).start()?)
            }
            None => None,
        };
        let (stop, ended) = (CancellationToken::new(), CancellationToken::new());
        let counts = Counts::default();
        let engine: Arc<dyn Engine> = Arc::new(Coalesce::new(engine));
        let app = App::new(engine, rates, options.clone(), stop.clone(), counts.waiting.clone());
        let acceptor = Acceptor {
            listener,
            router: routes::router(app),
            options,
            stop: stop.clone(),
            connections: counts.connections.clone(),
        };
        info!(%address, engine = name, services = services.is_some(), "server started");
        let over = ended.clone();
        tokio::spawn(async move {
            let _over = over.drop_guard();
            accept(acceptor).await;
            if let Some(services) = services {
                services.stop().await;
            }
            info!(%address, "server stopped");
        });
        Ok(ServerHandle::new(address, counts, stop, ended))
    }
}
