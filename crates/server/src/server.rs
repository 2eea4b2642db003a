//! From options to a running server: bind first, so that the engine can be told the address.

use crate::accept::{Acceptor, accept};
use crate::app::App;
use crate::handle::{Counts, Dials, ServerHandle};
use crate::hosting::Hosting;
use crate::meter::{Meter, Rates};
use crate::options::Options;
use crate::routes;
use std::net::SocketAddr;
use std::sync::Arc;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tracing::info;
use windlass_core::engine::Engine;
use windlass_core::{Error, Result};
use windlass_layers::Coalesce;

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
        let services = Hosting::start(engine.clone(), options.services.as_ref())?;
        let (set_limits, limits) = watch::channel(options.limits());
        let hosted = services.clone();
        let bodies_bytes_max = options.bodies_bytes_max;
        let dials = Dials { limits: set_limits, bodies_bytes_max, services };
        let (stop, ended) = (CancellationToken::new(), CancellationToken::new());
        let counts = Counts::default();
        let engine: Arc<dyn Engine> = Arc::new(Coalesce::new(engine));
        info!(%address, engine = name, services = options.services.is_some(), "server started");
        let connections_max = options.connections_max;
        let waiting = counts.waiting.clone();
        let app = App::new(engine, rates, options, limits.clone(), stop.clone(), waiting);
        let acceptor = Acceptor {
            listener,
            router: routes::router(app),
            connections_max,
            limits,
            stop: stop.clone(),
            connections: counts.connections.clone(),
        };
        let over = ended.clone();
        tokio::spawn(async move {
            let _over = over.drop_guard();
            accept(acceptor).await;
            hosted.stop().await;
            info!(%address, "server stopped");
        });
        Ok(ServerHandle::new(address, counts, dials, stop, ended))
    }
}
