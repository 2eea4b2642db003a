//! Connections: accepted one by one within their bound, served until they or the server end. It knows
//! nothing of what is said on them.

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

/// The pause after a connection could not be accepted: usually there are too many open files.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);
/// The same if idle connections are ending to give back files.
const SHORT_PAUSE: Duration = Duration::from_millis(10);
/// Idle connections that end when there are too many open files.
const ENDED_AT_ONCE: usize = 32;
/// Connections that cannot be accepted are logged once in this time, with their number.
const LOG_EVERY: Duration = Duration::from_secs(10);

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
    let all = Connections::new(connections_max, connections.clone());
    let mut tasks = JoinSet::new();
    let mut failures = Failures::default();
    loop {
        // Those that ended are let go, or the set would grow for as long as the server runs.
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
                // An idle connection that ends gives back a file.
                let ended = (0..ENDED_AT_ONCE).take_while(|_| all.end_one()).count();
                let pause = if ended > 0 { SHORT_PAUSE } else { ACCEPT_PAUSE };
                tokio::time::sleep(pause).await;
                continue;
            }
        };
        // Replies are small and whole: waiting to fill a packet only delays them.
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
    let grace_ms = limits.borrow().grace_ms;
    let ended = async { while tasks.join_next().await.is_some() {} };
    if tokio::time::timeout(Duration::from_millis(grace_ms), ended).await.is_err() {
        let left = connections.load(Ordering::Relaxed);
        warn!(left, grace_ms, "connections outlast the grace time; closing them");
    }
    tasks.shutdown().await;
}

/// Connections that could not be accepted, logged now and then.
#[derive(Default)]
struct Failures {
    logged: Option<Instant>,
    since: u64,
}

impl Failures {
    /// How many there were since the last line of the log, this one included, if it is time for another.
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

/// What one connection needs.
struct Served {
    router: Router,
    peer: Peer,
    limits: watch::Receiver<Limits>,
    stop: CancellationToken,
    connection: Arc<Connection>,
}

impl Served {
    /// Answers what is asked on a connection until it ends, or is told to.
    async fn run(self, stream: TcpStream, tls: Option<TlsAcceptor>) {
        let connection = self.connection.clone();
        tokio::select! {
            () = self.answer(stream, tls) => {}
            () = connection.told_to_end() => debug!("an idle connection ends for another"),
        }
    }

    async fn answer(self, stream: TcpStream, tls: Option<TlsAcceptor>) {
        let stream = self.connection.patient(stream, &self.limits);
        let Some(tls) = tls else { return self.answer_on(stream, None).await };
        // Encryption is agreed on in the time that a request may take to arrive.
        let shaken = tokio::select! {
            shaken = tokio::time::timeout(self.read_timeout(), tls.accept(stream)) => shaken,
            () = self.stop.cancelled() => return,
        };
        match shaken {
            Ok(Ok(stream)) => {
                let names = tls::peer_names(stream.get_ref().1);
                self.answer_on(stream, names).await;
            }
            Ok(Err(error)) => debug!(%error, "a connection was not agreed on"),
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

    /// For the head of a request to arrive.
    fn read_timeout(&self) -> Duration {
        Duration::from_millis(self.limits.borrow().read_timeout_ms)
    }
}

/// The routes, told where requests come from.
struct From {
    peer: Peer,
    /// Those in the certificate that the client showed.
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

/// An answer in the making, which keeps its connection from being idle.
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
