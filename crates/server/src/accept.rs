//! Connections: accepted one by one within their bound, served until they or the server end. It knows
//! nothing of what is said on them.

use crate::access::PeerNames;
use crate::admit::Peer;
use crate::options::Limits;
use crate::tls;
use axum::Router;
use http::Request;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::Service;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::{GracefulShutdown, Watcher};
use hyper_util::service::TowerToHyperService;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, watch};
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;
use tokio_util::sync::CancellationToken;
use tracing::{debug, warn};

/// The pause after a connection could not be accepted: usually there are too many open files.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// The bytes of a request's head. The head of a real one is far below this; a page of cookies fits.
const HEAD_BYTES_MAX: usize = 64 * 1024;

/// What is needed to accept connections.
pub(crate) struct Acceptor {
    pub(crate) listener: TcpListener,
    pub(crate) router: Router,
    /// Connections at a time.
    pub(crate) connections_max: usize,
    pub(crate) limits: watch::Receiver<Limits>,
    /// Encrypts, if told to.
    pub(crate) tls: Option<TlsAcceptor>,
    pub(crate) stop: CancellationToken,
    /// How many are open.
    pub(crate) connections: Arc<AtomicUsize>,
}

/// Accepts connections until the server stops, then lets those under way end.
pub(crate) async fn accept(acceptor: Acceptor) {
    let Acceptor { listener, router, connections_max, limits, tls, stop, connections } = acceptor;
    let slots = Arc::new(Semaphore::new(connections_max));
    let graceful = GracefulShutdown::new();
    let mut tasks = JoinSet::new();
    loop {
        // Those that ended are let go, or the set would grow for as long as the server runs.
        while tasks.try_join_next().is_some() {}
        let next = async {
            let slot = slots.clone().acquire_owned().await;
            (slot, listener.accept().await)
        };
        let (slot, accepted) = tokio::select! {
            biased;
            () = stop.cancelled() => break,
            next = next => next,
        };
        let (stream, peer) = match accepted {
            Ok(accepted) => accepted,
            Err(error) => {
                warn!(%error, "cannot accept a connection; trying again");
                tokio::time::sleep(ACCEPT_PAUSE).await;
                continue;
            }
        };
        // Replies are small and whole: waiting to fill a packet only delays them.
        let _ = stream.set_nodelay(true);
        let read_timeout = Duration::from_millis(limits.borrow().read_timeout_ms);
        let served = Served { router: router.clone(), peer: Peer(peer.ip()), read_timeout };
        let (watcher, counted) = (graceful.watcher(), Open::new(connections.clone()));
        let (tls, stop) = (tls.clone(), stop.clone());
        tasks.spawn(async move {
            let _held = (slot, counted);
            match tls {
                None => served.run(stream, None, watcher).await,
                Some(tls) => {
                    let Some(stream) = served.shake_hands(&tls, stream, &stop).await else {
                        return;
                    };
                    let names = tls::peer_names(stream.get_ref().1);
                    served.run(stream, names, watcher).await;
                }
            }
        });
    }
    drop(listener);
    let grace_ms = limits.borrow().grace_ms;
    let grace = Duration::from_millis(grace_ms);
    if tokio::time::timeout(grace, graceful.shutdown()).await.is_err() {
        let left = connections.load(Ordering::Relaxed);
        warn!(left, grace_ms, "connections outlast the grace time; closing them");
    }
    tasks.shutdown().await;
}

/// What one connection needs.
struct Served {
    router: Router,
    peer: Peer,
    /// For the head of a request to arrive.
    read_timeout: Duration,
}

impl Served {
    /// Agrees on encryption, in the time that a request may take to arrive.
    async fn shake_hands(
        &self,
        tls: &TlsAcceptor,
        stream: TcpStream,
        stop: &CancellationToken,
    ) -> Option<TlsStream<TcpStream>> {
        tokio::select! {
            shaken = tokio::time::timeout(self.read_timeout, tls.accept(stream)) => match shaken {
                Ok(Ok(stream)) => Some(stream),
                Ok(Err(error)) => {
                    debug!(%error, "a connection was not agreed on");
                    None
                }
                Err(_) => None,
            },
            () = stop.cancelled() => None,
        }
    }

    /// Answers what is asked on a connection until it ends.
    async fn run<S>(self, stream: S, names: Option<PeerNames>, watcher: Watcher)
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let service =
            From { peer: self.peer, names, router: TowerToHyperService::new(self.router) };
        let connection = http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(self.read_timeout)
            .max_buf_size(HEAD_BYTES_MAX)
            .serve_connection(TokioIo::new(stream), service);
        if let Err(error) = watcher.watch(connection).await {
            debug!(%error, "connection ended early");
        }
    }
}

/// The routes, told where requests come from.
struct From {
    peer: Peer,
    /// Those in the certificate that the client showed.
    names: Option<PeerNames>,
    router: TowerToHyperService<Router>,
}

impl Service<Request<Incoming>> for From {
    type Response = <TowerToHyperService<Router> as Service<Request<Incoming>>>::Response;
    type Error = <TowerToHyperService<Router> as Service<Request<Incoming>>>::Error;
    type Future = <TowerToHyperService<Router> as Service<Request<Incoming>>>::Future;

    fn call(&self, mut request: Request<Incoming>) -> Self::Future {
        request.extensions_mut().insert(self.peer);
        if let Some(names) = &self.names {
            request.extensions_mut().insert(names.clone());
        }
        self.router.call(request)
    }
}

/// Counts a connection for as long as it is open.
struct Open(Arc<AtomicUsize>);

impl Open {
    fn new(count: Arc<AtomicUsize>) -> Self {
        let open = count.fetch_add(1, Ordering::Relaxed) + 1;
        metrics::gauge!("windlass_server_connections").set(open as f64);
        Self(count)
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        let open = self.0.fetch_sub(1, Ordering::Relaxed) - 1;
        metrics::gauge!("windlass_server_connections").set(open as f64);
    }
}
