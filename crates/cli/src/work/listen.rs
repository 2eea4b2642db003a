//! `work --listen`: answers `/healthz` and `/metrics` over HTTP, for probes and collectors. Knows nothing of jobs.

use anyhow::{Context as _, Result};
use bytes::Bytes;
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::header::{CONTENT_TYPE, HeaderValue};
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use std::convert::Infallible;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpListener;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

/// Maximum number of connections; further ones wait to be accepted.
const CONNECTIONS_MAX: usize = 16;
/// Time that a client has to send a request.
const HEAD_TIMEOUT: Duration = Duration::from_secs(5);
/// Maximum time that a connection is open: probes and collectors are brief.
const CONNECTION_MAX: Duration = Duration::from_secs(60);
/// Pause after a failure to accept, such as missing file descriptors.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// What the routes answer.
#[derive(Clone)]
pub(crate) struct Probes {
    /// Whether the worker is healthy, and its state as JSON.
    pub(crate) health: Arc<dyn Fn() -> (bool, String) + Send + Sync>,
    /// The metrics, in the text format of Prometheus.
    pub(crate) metrics: Arc<dyn Fn() -> String + Send + Sync>,
}

/// Parses an address: `PORT` and `:PORT` are on the loopback interface.
pub(crate) fn address(text: &str) -> Result<SocketAddr, String> {
    let port = text.strip_prefix(':').unwrap_or(text).parse();
    port.map(|port: u16| SocketAddr::from((Ipv4Addr::LOCALHOST, port)))
        .or_else(|_| text.parse())
        .map_err(|_| {
            format!("invalid address {text:?} (try 9090, or 0.0.0.0:9090 for all interfaces)")
        })
}

/// A listener on this address.
pub(crate) async fn bind(address: SocketAddr) -> Result<TcpListener> {
    TcpListener::bind(address).await.with_context(|| format!("cannot listen on {address}"))
}

/// Answers requests until dropped.
pub(crate) async fn serve(listener: TcpListener, probes: Probes) {
    let places = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    let mut connections = JoinSet::new();
    loop {
        // The semaphore is never closed.
        let place = Arc::clone(&places).acquire_owned().await;
        while connections.try_join_next().is_some() {}
        let Ok((stream, _)) = listener.accept().await else {
            tokio::time::sleep(ACCEPT_PAUSE).await;
            continue;
        };
        let probes = probes.clone();
        connections.spawn(async move {
            let _place = place;
            let answer = service_fn(|request| {
                let answer = answer(&request, &probes);
                async { Ok::<_, Infallible>(answer) }
            });
            let connection = hyper::server::conn::http1::Builder::new()
                .timer(TokioTimer::new())
                .header_read_timeout(HEAD_TIMEOUT)
                .serve_connection(TokioIo::new(stream), answer);
            // A client that disconnects or takes too long needs no answer.
            let _ = tokio::time::timeout(CONNECTION_MAX, connection).await;
        });
    }
}

fn answer(request: &Request<Incoming>, probes: &Probes) -> Response<Full<Bytes>> {
    let reads = matches!(*request.method(), Method::GET | Method::HEAD);
    let (status, media, text) = match request.uri().path() {
        _ if !reads => (StatusCode::METHOD_NOT_ALLOWED, "text/plain", "use GET\n".to_owned()),
        "/healthz" => {
            let (is_healthy, text) = (probes.health)();
            let status = if is_healthy { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
            (status, "application/json", text)
        }
        "/metrics" => (StatusCode::OK, "text/plain; version=0.0.4", (probes.metrics)()),
        _ => {
            let text = "this worker serves /healthz and /metrics\n".to_owned();
            (StatusCode::NOT_FOUND, "text/plain", text)
        }
    };
    let mut response = Response::new(Full::from(text));
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(media));
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_alone_is_on_the_loopback_interface() {
        for text in ["9090", ":9090", "127.0.0.1:9090"] {
            assert_eq!(address(text), Ok(([127, 0, 0, 1], 9090).into()), "{text}");
        }
        assert_eq!(address("[::]:1"), Ok("[::]:1".parse().unwrap()));
        for wrong in ["", "http", "70000", "localhost:9090"] {
            assert!(address(wrong).unwrap_err().contains("0.0.0.0:9090"), "{wrong}");
        }
    }
}
