//! Accepts connections up to the limit and serves each until it closes or the server stops. It
//! knows nothing about the requests on them.

use crate::access::PeerNames;
use crate::admit::Peer;
use crate::connections::{Busy, Connection, Connections};
use crate::options::Limits;
use crate::tls;
use axum::Router;
use http::Request;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::Service;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::Instant;
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;
use tracing::{debug, warn};

/// Pause after a failed accept. The usual cause is the limit of open files.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);
/// Pause after a failed accept when idle connections are closing and will release files.
const SHORT_PAUSE: Duration = Duration::from_millis(10);
/// Maximum number of idle connections to close after a failed accept.
const ENDED_AT_ONCE: usize = 32;
/// Minimum interval between log lines about failed accepts; each line includes the count since the
/// last.
const LOG_EVERY: Duration = Duration::from_secs(10);

/// Maximum bytes of a request head. Typical heads are far smaller; 64 KiB leaves space for large
/// cookies.
const HEAD_BYTES_MAX: usize = 64 * 1024;

/// The accept loop's inputs.
pub(crate) struct Acceptor {
    pub(crate) listener: TcpListener,
    pub(crate) router: Router,
    /// Maximum number of connections.
    pub(crate) connections_max: usize,
    pub(crate) limits: watch::Receiver<Limits>,
    /// Terminates TLS, if configured.
    pub(crate) tls: Option<TlsAcceptor>,
    pub(crate) stop: CancellationToken,
    /// Number of open connections.
    pub(crate) connections: Arc<AtomicUsize>,
}

/// Accepts connections until shutdown, then waits up to the grace period for requests in progress.
pub(crate) async fn accept(acceptor: Acceptor) {
    let Acceptor { listener, router, connections_max, limits, tls, stop, connections } = acceptor;
    let all = Connections::new(connections_max, connections.clone());
    let mut tasks = JoinSet::new();
    let mut failures = Failures::default();
    loop {
        // Reap finished tasks, or the set would grow as long as the server runs.
        while tasks.try_join_next().is_some() {}
        let next = async { Ok::<_, io::Error>((listener.accept().await?, all.place().await)) };
        let accepted = tokio::select! {
            biased;
            () = stop.cancelled() => break,
            next = next => next,
        };
        let ((stream, peer), connection) = match accepted {
            Ok(accepted) => accepted,
            Err(error) => {
                failures.log(&error);
                // Each idle connection that closes releases a file descriptor.
                let ended = (0..ENDED_AT_ONCE).take_while(|_| all.end_one()).count();
                let pause = if ended > 0 { SHORT_PAUSE } else { ACCEPT_PAUSE };
                tokio::time::sleep(pause).await;
                continue;
            }
        };
        // Replies are small and written whole: Nagle's algorithm would only delay them.
        let _ = stream.set_nodelay(true);
        let served = Served {
            router: router.clone(),
            peer: Peer(peer.ip()),
            limits: limits.clone(),
            stop: stop.clone(),
            connection: Arc::new(connection),
        };
        tasks.spawn(served.run(stream, tls.clone()));
    }
    drop(listener);
    let grace = limits.borrow().grace;
    let ended = async { while tasks.join_next().await.is_some() {} };
    if tokio::time::timeout(grace, ended).await.is_err() {
        let left = connections.load(Ordering::Relaxed);
        warn!(left, ?grace, "closing connections that exceed the grace period");
    }
    tasks.shutdown().await;
}

/// Failed accepts, logged at most once per [`LOG_EVERY`].
#[derive(Default)]
struct Failures {
    logged: Option<Instant>,
    since: u64,
}

impl Failures {
    /// Number of failures since the last log line including this one; `None` if it is too early to
    /// log.
    fn count(&mut self) -> Option<u64> {
        self.since += 1;
        if self.logged.is_some_and(|logged| logged.elapsed() < LOG_EVERY) {
            return None;
        }
        self.logged = Some(Instant::now());
        Some(std::mem::take(&mut self.since))
    }

    fn log(&mut self, error: &io::Error) {
        if let Some(failures) = self.count() {
            warn!(%error, failures, "cannot accept connections; closing idle ones and trying again");
        }
    }
}

/// State for serving one connection.
struct Served {
    router: Router,
    peer: Peer,
    limits: watch::Receiver<Limits>,
    stop: CancellationToken,
    connection: Arc<Connection>,
}

impl Served {
    /// Serves requests until the connection closes or is chosen to make space for another.
    async fn run(self, stream: TcpStream, tls: Option<TlsAcceptor>) {
        let connection = self.connection.clone();
        tokio::select! {
            () = self.answer(stream, tls) => {}
            () = connection.close_requested() => debug!("closing an idle connection to accept another"),
        }
    }

    async fn answer(self, stream: TcpStream, tls: Option<TlsAcceptor>) {
        let stream = self.connection.patient(stream, &self.limits);
        let Some(tls) = tls else { return self.answer_on(stream, None).await };
        // The TLS handshake has the same time limit as a request head.
        let shaken = tokio::select! {
            shaken = tokio::time::timeout(self.read_timeout(), tls.accept(stream)) => shaken,
            () = self.stop.cancelled() => return,
        };
        match shaken {
            Ok(Ok(stream)) => {
                let names = tls::peer_names(stream.get_ref().1);
                self.answer_on(stream, names).await;
            }
            Ok(Err(error)) => debug!(%error, "TLS handshake failed"),
            Err(_) => {}
        }
    }

    async fn answer_on<S>(self, stream: S, names: Option<PeerNames>)
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let read_timeout = self.read_timeout();
        let Self { router, peer, stop, connection, .. } = self;
        let router = TowerToHyperService::new(router);
        let service = From { peer, names, router, connection: connection.clone() };
        let answering = http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(read_timeout)
            .max_buf_size(HEAD_BYTES_MAX)
            .serve_connection(TokioIo::new(stream), service);
        tokio::pin!(answering);
        let ended = tokio::select! {
            ended = answering.as_mut() => ended,
            () = stop.cancelled() => {
                if connection.is_idle() {
                    return;
                }
                answering.as_mut().graceful_shutdown();
                answering.await
            }
        };
        if let Err(error) = ended {
            debug!(%error, "connection ended early");
        }
    }

    /// Time limit for a request head.
    fn read_timeout(&self) -> Duration {
        self.limits.borrow().read_timeout
    }
}

/// Adds the client's address and certificate names to each request before routing.
struct From {
    peer: Peer,
    /// Names from the client's certificate.
    names: Option<PeerNames>,
    router: TowerToHyperService<Router>,
    connection: Arc<Connection>,
}

type Routes = TowerToHyperService<Router>;

impl Service<Request<Incoming>> for From {
    type Response = <Routes as Service<Request<Incoming>>>::Response;
    type Error = <Routes as Service<Request<Incoming>>>::Error;
    type Future = Answering<<Routes as Service<Request<Incoming>>>::Future>;

    fn call(&self, mut request: Request<Incoming>) -> Self::Future {
        request.extensions_mut().insert(self.peer);
        if let Some(names) = &self.names {
            request.extensions_mut().insert(names.clone());
        }
        if let Some(restricted) = self.connection.restricted() {
            request.extensions_mut().insert(restricted);
        }
        let busy = self.connection.request();
        Answering { answer: Box::pin(self.router.call(request)), _busy: busy }
    }
}

/// A response in progress, which marks its connection as busy.
struct Answering<F> {
    answer: std::pin::Pin<Box<F>>,
    _busy: Busy,
}

impl<F: Future> Future for Answering<F> {
    type Output = F::Output;

    fn poll(
        mut self: std::pin::Pin<&mut Self>,
        cx: &mut std::task::Context<'_>,
    ) -> std::task::Poll<F::Output> {
        self.answer.as_mut().poll(cx)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn failures_to_accept_are_logged_once_in_ten_seconds_with_their_number() {
        let mut failures = Failures::default();
        assert_eq!(failures.count(), Some(1));
        for _ in 0..99 {
            assert_eq!(failures.count(), None);
            tokio::time::advance(ACCEPT_PAUSE).await;
        }
        tokio::time::advance(ACCEPT_PAUSE).await;
        assert_eq!(failures.count(), Some(100));
    }
}
