//! Builds a running server from options. The address is bound first, so that the engine can publish
//! it.

use crate::accept::{Acceptor, accept};
use crate::access::KeyChanges;
use crate::admit::{Admit, Depth, DepthLimits, Registry};
use crate::app::App;
use crate::handle::{Counts, LiveSettings, ServerHandle};
use crate::health::StoreHealth;
use crate::hosting::Hosting;
use crate::late::Late;
use crate::meter::{Counts as Passed, Meter, Rates};
use crate::options::{Limits, Options};
use crate::routes;
use crate::tls;
use axum::Router;
use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use tokio::net::{TcpListener, TcpSocket};
use tokio::sync::watch;
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;
use tracing::{error, info};
use windlass_core::engine::Engine;
use windlass_core::{Error, Result};
use windlass_layers::Coalesce;
use windlass_services::{Checks, Flows, Outcomes};

/// Length of the accept queue. Operating systems often cap it at 4,096.
const BACKLOG: u32 = 65_535;

/// A server that is bound to its address but has no engine yet.
pub struct Server {
    options: Options,
    listener: TcpListener,
    address: SocketAddr,
    tls: Option<TlsAcceptor>,
}

impl fmt::Debug for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Server({})", self.address)
    }
}

impl Server {
    /// Binds the address. Clients can connect from now on; requests are answered once the server
    /// serves.
    pub async fn bind(options: Options) -> Result<Self> {
        options.check()?;
        let tls = options.tls.as_ref().map(tls::acceptor).transpose()?;
        let unbound = |error: std::io::Error| {
            let expected = format!("cannot listen there: {error}; choose another address");
            Error::invalid("listen", options.listen, expected)
        };
        let listener = listen(options.listen).map_err(unbound)?;
        let address = listener.local_addr().map_err(unbound)?;
        Ok(Self { options, listener, address, tls })
    }

    /// The bound address.
    pub const fn address(&self) -> SocketAddr {
        self.address
    }

    /// Serves this engine in background tasks of the current tokio runtime.
    pub fn serve(self, engine: Arc<dyn Engine>) -> Result<ServerHandle> {
        self.options.check_payloads(engine.capabilities().payload_bytes_max)?;
        let name = self.options.store.clone();
        let name = name.unwrap_or_else(|| engine.capabilities().engine.into());
        let health = StoreHealth::new(name, self.options.disk.as_ref());
        let base = Base::new(self.options.clone(), health);
        let (engine, router) = base.over(engine);
        let services = Hosting::start(engine, self.options.services.as_ref())?;
        Ok(self.run(base, router, services))
    }

    /// Serves a store that is not available yet. Until `open` succeeds the process is alive but not
    /// ready, and refuses every request with [`Error::Unavailable`]. `open` is retried with pauses
    /// of at most 8 seconds.
    pub fn serve_once_open<F>(
        self,
        mut open: impl FnMut() -> F + Send + 'static,
    ) -> Result<ServerHandle>
    where
        F: Future<Output = Result<Arc<dyn Engine>>> + Send,
    {
        let name = self.options.store.clone();
        let name = name.unwrap_or_else(|| "the store".to_owned());
        let health = StoreHealth::new(name, self.options.disk.as_ref());
        let late = Late::new(health.clone(), self.options.exporter.clone());
        let (base, router) = (Base::new(self.options.clone(), health), late.router());
        let services = Hosting::later(self.options.services.clone());
        tokio::spawn({
            let (base, services) = (base.clone(), services.clone());
            async move {
                let options = base.options.clone();
                let open = || {
                    let (opening, options) = (open(), &options);
                    async move {
                        let engine = opening.await?;
                        options.check_payloads(engine.capabilities().payload_bytes_max)?;
                        Ok(engine)
                    }
                };
                let Some(engine) = late.open(open, &base.stop).await else { return };
                let (engine, router) = base.over(engine);
                // Only invalid options can fail here, and `bind` and `set_services` check them.
                if let Err(error) = services.begin(engine).await {
                    error!(%error, "the store is open, but its services did not start");
                }
                late.arrived(router);
            }
        });
        Ok(self.run(base, router, services))
    }

    /// Serves these routes until shutdown, then stops the services.
    fn run(self, base: Base, router: Router, services: Hosting) -> ServerHandle {
        let Self { options, listener, address, tls } = self;
        let Base { counts, stop, health, limits, set_limits, .. } = base;
        let acceptor = Acceptor {
            listener,
            router,
            connections_max: options.connections_max,
            limits,
            tls,
            stop: stop.clone(),
            connections: counts.connections.clone(),
        };
        let hosted = services.clone();
        let bodies_bytes_max = options.bodies_bytes_max;
        let live = LiveSettings { limits: set_limits, bodies_bytes_max, services };
        let ended = CancellationToken::new();
        let over = ended.clone();
        info!(%address, store = health.standing().name, "server started");
        tokio::spawn(async move {
            let _over = over.drop_guard();
            accept(acceptor).await;
            hosted.stop().await;
            info!(%address, "server stopped");
        });
        ServerHandle::new(address, counts, live, stop, ended)
    }
}

/// Listens with the longest accept queue that the system allows: a client that finds the queue full
/// retries after a second, which would delay health probes too.
fn listen(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = if address.is_ipv4() { TcpSocket::new_v4()? } else { TcpSocket::new_v6()? };
    // As the standard library does: lets a restarted server bind the same address at once.
    #[cfg(not(windows))]
    socket.set_reuseaddr(true)?;
    socket.bind(address)?;
    socket.listen(BACKLOG)
}

/// Server state that exists before the store is open.
#[derive(Clone)]
pub(crate) struct Base {
    pub(crate) options: Options,
    pub(crate) counts: Counts,
    pub(crate) stop: CancellationToken,
    pub(crate) health: StoreHealth,
    pub(crate) limits: watch::Receiver<Limits>,
    set_limits: watch::Sender<Limits>,
}

impl Base {
    fn new(options: Options, health: StoreHealth) -> Self {
        let (set_limits, limits) = watch::channel(options.limits());
        let (counts, stop) = (Counts::default(), CancellationToken::new());
        Self { options, counts, stop, health, limits, set_limits }
    }

    /// Wraps the engine in layers. Returns the engine for the services, and the routes.
    fn over(&self, engine: Arc<dyn Engine>) -> (Arc<dyn Engine>, Router) {
        let options = &self.options;
        let (rates, flows) = (Rates::new(), Flows::default());
        let passed = Passed::new(options.metrics_by_kind, flows.clone());
        let engine: Arc<dyn Engine> = Arc::new(Outcomes::new(Arc::new(Checks::new(engine))));
        let engine: Arc<dyn Engine> = Arc::new(Meter::new(engine, rates.clone(), passed));
        tokio::spawn(self.health.clone().watch(engine.clone(), self.stop.clone()));
        if let Some(disk) = options.disk.clone() {
            tokio::spawn(disk.watch(self.health.clone(), self.stop.clone()));
        }
        tokio::spawn(flows.clone().write(engine.clone(), self.stop.clone()));
        let registry = Arc::new(Registry::new(engine.clone(), options.strict_kinds));
        let limits = DepthLimits { soft: options.soft_depth, hard: options.hard_depth };
        let depth = Some(Arc::new(Depth::new(engine.clone(), limits)));
        let key_changes = Arc::new(KeyChanges::default());
        let inside = Admit::new(engine.clone(), registry.clone(), None, key_changes.clone());
        let engine: Arc<dyn Engine> = Arc::new(Coalesce::new(engine));
        let admitted = Arc::new(Admit::new(engine, registry.clone(), depth, key_changes.clone()));
        let app = App::new(admitted, registry, rates, flows, key_changes, self);
        let attend = app.access.clone().attend(app.waiting.clone(), self.stop.clone());
        tokio::spawn(attend);
        (Arc::new(inside), routes::router(app))
    }
}
