//! Sends one request and receives one reply, as JSON over pooled connections. It knows HTTP and the
//! stamps of replies, but no verbs.

use crate::connector::Connector;
use crate::options::Options;
use bytes::Bytes;
use http::header::{AUTHORIZATION, CONTENT_TYPE};
use http::{HeaderMap, HeaderValue, Method, Request, Response, StatusCode};
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::body::Incoming;
use hyper_util::client::legacy::Client;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::error::Error as _;
use std::time::Duration;
use windlass_core::engine::{Epoch, Stamped};
use windlass_core::{Error, Result, Timestamp};
use windlass_wire::{EPOCH_HEADER, JSON, NOW_HEADER, Problem};

/// Idle connections are closed after this time: before the server closes them and a request on them
/// is lost.
const IDLE_TIMEOUT: Duration = Duration::from_secs(15);

/// The HTTP client for one server.
pub(crate) struct Transport {
    client: Client<Connector, Full<Bytes>>,
    base: String,
    /// The `Authorization` header with the key, marked as sensitive.
    key: Option<HeaderValue>,
    options: Options,
    /// Maximum bytes of a request body, once the server has reported it.
    body_bytes_max: Option<usize>,
}

impl Transport {
    pub(crate) fn new(options: Options) -> Result<Self> {
        let base = options.base()?;
        let key = options.shown_key()?.map(|key| bearer(&key)).transpose()?;
        let connector = Connector::new(&options, base.starts_with("https:"))?;
        let client = Client::builder(TokioExecutor::new())
            .pool_timer(TokioTimer::new())
            .pool_idle_timeout(IDLE_TIMEOUT)
            .pool_max_idle_per_host(options.idle_connections_max)
            .build(connector);
        Ok(Self { client, base, key, options, body_bytes_max: None })
    }

    /// The options it was created with.
    pub(crate) const fn options(&self) -> &Options {
        &self.options
    }

    /// The base URL of the server.
    pub(crate) fn base(&self) -> &str {
        &self.base
    }

    /// Sets the maximum body size: the server would close the connection during a larger request.
    pub(crate) fn limit_bodies(&mut self, bytes_max: usize) {
        self.body_bytes_max = Some(bytes_max);
    }

    /// Sends a request with a body; the timeout is extended by `wait_ms`.
    pub(crate) async fn post<T: DeserializeOwned>(
        &self,
        path: &str,
        body: &impl Serialize,
        wait_ms: u64,
    ) -> Result<Stamped<T>> {
        let (headers, body) =
            self.send(Method::POST, path, windlass_wire::write(body).into(), wait_ms).await?;
        self.stamped(&headers, &body)
    }

    /// Sends a request without a body.
    pub(crate) async fn ask<T: DeserializeOwned>(
        &self,
        method: Method,
        path: &str,
    ) -> Result<Stamped<T>> {
        self.ask_within(method, path, 0).await
    }

    /// Sends a request without a body; the timeout is extended by `wait_ms`.
    pub(crate) async fn ask_within<T: DeserializeOwned>(
        &self,
        method: Method,
        path: &str,
        wait_ms: u64,
    ) -> Result<Stamped<T>> {
        let (headers, body) = self.send(method, path, Bytes::new(), wait_ms).await?;
        self.stamped(&headers, &body)
    }

    /// Sends a GET request whose reply has no stamp.
    pub(crate) async fn get_unstamped<T: DeserializeOwned>(&self, path: &str) -> Result<T> {
        let (_, body) = self.send(Method::GET, path, Bytes::new(), 0).await?;
        self.readable(&body)
    }

    async fn send(
        &self,
        method: Method,
        path: &str,
        body: Bytes,
        wait_ms: u64,
    ) -> Result<(HeaderMap, Bytes)> {
        if let Some(limit) = self.body_bytes_max.filter(|limit| body.len() > *limit) {
            let (size, limit) = (body.len() as u64, limit as u64);
            let hint = "split the batch, or keep large data elsewhere";
            return Err(Error::TooLarge { field: "body".into(), size, limit, hint });
        }
        let mut request = Request::builder()
            .method(method)
            .uri(format!("{}{path}", self.base))
            .header(CONTENT_TYPE, JSON)
            .body(Full::new(body))
            .map_err(|error| Error::invalid("path", path, error.to_string()))?;
        if let Some(key) = &self.key {
            request.headers_mut().insert(AUTHORIZATION, key.clone());
        }
        let limit = self.options.answer_timeout.saturating_add(Duration::from_millis(wait_ms));
        let answer = async {
            let response = self.client.request(request).await.map_err(|error| {
                let causes = std::iter::successors(error.source(), |&cause| cause.source());
                let causes: String = causes.map(|cause| format!(": {cause}")).collect();
                self.unavailable(format!("{error}{causes}"))
            })?;
            self.whole(response).await
        };
        let (status, headers, body) = tokio::time::timeout(limit, answer)
            .await
            .map_err(|_| self.unavailable(format!("no answer within {limit:?}")))??;
        if status.is_success() {
            return Ok((headers, body));
        }
        Err(self.refusal(status, &body))
    }

    /// Receives a complete reply.
    async fn whole(&self, response: Response<Incoming>) -> Result<(StatusCode, HeaderMap, Bytes)> {
        let (head, body) = response.into_parts();
        let body = Limited::new(body, self.options.answer_bytes_max).collect().await;
        let body =
            body.map_err(|error| self.unavailable(format!("its reply is incomplete: {error}")))?;
        Ok((head.status, head.headers, body.to_bytes()))
    }

    /// The error in an unsuccessful reply.
    fn refusal(&self, status: StatusCode, body: &[u8]) -> Error {
        match windlass_wire::read_reply::<Problem>(body) {
            Ok(problem) => problem.fault.into_core(),
            Err(_) => {
                self.unavailable(format!("it replied {status}, and is not a Windlass server"))
            }
        }
    }

    fn stamped<T: DeserializeOwned>(&self, headers: &HeaderMap, body: &[u8]) -> Result<Stamped<T>> {
        let text = |name: &str| {
            let value =
                headers.get(name).and_then(|value| std::str::from_utf8(value.as_bytes()).ok());
            value.ok_or_else(|| self.unavailable(format!("its answer has no header {name}")))
        };
        let now = text(NOW_HEADER)?;
        let now = now.parse().map_err(|_| self.unavailable(format!("its time is {now:?}")))?;
        let epoch = Epoch::new(text(EPOCH_HEADER)?);
        Ok(Stamped { now: Timestamp::from_millis(now), epoch, value: self.readable(body)? })
    }

    fn readable<T: DeserializeOwned>(&self, body: &[u8]) -> Result<T> {
        windlass_wire::read_reply(body)
            .map_err(|error| self.unavailable(format!("its answer cannot be read: {error}")))
    }

    /// The error for a failed or invalid reply; the outcome of the call is unknown.
    pub(crate) fn unavailable(&self, reason: String) -> Error {
        Error::Unavailable { store: self.base.clone(), reason }
    }
}

/// The `Authorization` header for a key.
fn bearer(key: &str) -> Result<HeaderValue> {
    let value = HeaderValue::from_str(&format!("Bearer {key}"));
    let unfit =
        |_| Error::invalid("key", "***", "it must be a key as printed when it was created: wl_…");
    value.map_err(unfit).map(|mut value| {
        value.set_sensitive(true);
        value
    })
}
