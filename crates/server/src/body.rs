//! Receives request bodies within all limits and parses them into wire types.

use crate::app::App;
use crate::beside::beside;
use crate::budget::{Held, busy};
use crate::reply::Refusal;
use crate::room::Reservation;
use axum::body::Body;
use axum::extract::{FromRequest, FromRequestParts, Request};
use bytes::Bytes;
use http::StatusCode;
use http::header::CONTENT_TYPE;
use http::request::Parts;
use http_body_util::BodyExt as _;
use hyper::body::Body as _;
use serde::de::DeserializeOwned;
use std::time::Duration;
use windlass_core::{Error, Result};

/// Minimum step in which memory is reserved as a body arrives.
const STEP_BYTES: usize = 8 * 1024;
/// Maximum time without any bytes of a body arriving, even if the read timeout is longer.
const STALL_MAX: Duration = Duration::from_secs(10);
/// Bodies of at least this size are parsed on the blocking thread pool, so as not to delay other
/// requests.
const BESIDE_BYTES_MIN: usize = 64 * 1024;

/// A request with a JSON body.
pub(crate) struct Json<T> {
    pub(crate) value: T,
}

impl<T: DeserializeOwned + Send + 'static> FromRequest<App> for Json<T> {
    type Rejection = Refusal;

    async fn from_request(request: Request, app: &App) -> Result<Self, Refusal> {
        let (parts, body) = request.into_parts();
        check_media_type(&parts)?;
        let held = Held::by(app, &parts.extensions);
        let raw = Raw::receive(body, app, &held, app.limits().body_bytes_max).await?;
        let value = if raw.bytes.len() < BESIDE_BYTES_MIN {
            held.take(held.cost(&raw.bytes)).await?;
            windlass_wire::read(&raw.bytes)
        } else {
            read_beside(raw, app, &held).await?
        };
        let value = value.map_err(|error| match error.field() {
            Some("body") => Refusal::with(StatusCode::BAD_REQUEST, error),
            _ => Refusal::from(error),
        })?;
        Ok(Self { value })
    }
}

/// Parses a large body on the blocking thread pool, with limited concurrency.
async fn read_beside<T: DeserializeOwned + Send + 'static>(
    raw: Raw,
    app: &App,
    held: &Held,
) -> Result<Result<T>, Refusal> {
    // The semaphore is never closed, so this cannot fail.
    let _turn = app.readers.acquire().await;
    let counting = held.clone();
    let (raw, cost) = beside(move || {
        let cost = counting.cost(&raw.bytes);
        (raw, cost)
    })
    .await?;
    held.take(cost).await?;
    beside(move || windlass_wire::read(&raw.bytes)).await
}

/// A raw body.
pub(crate) struct Raw {
    pub(crate) bytes: Bytes,
    /// Released together with the bytes.
    _taken: Reservation,
}

impl Raw {
    /// Receives a complete body of at most `limit` bytes within the read timeout.
    pub(crate) async fn receive(
        body: Body,
        app: &App,
        held: &Held,
        limit: usize,
    ) -> Result<Self, Refusal> {
        let announced = body.size_hint().lower();
        if announced > limit as u64 {
            return Err(too_big(announced, limit));
        }
        let time = app.limits().read_timeout;
        let received = tokio::time::timeout(time, collect(body, held, limit, time)).await;
        received.map_err(|_| too_slow(time))?
    }
}

/// Collects a body. Reserves memory for bytes that have arrived, never for the announced length, so
/// a client that announces a large body and sends nothing holds no memory.
async fn collect(
    mut body: Body,
    held: &Held,
    limit: usize,
    time: Duration,
) -> Result<Raw, Refusal> {
    let stall = time.min(STALL_MAX);
    let most = body.size_hint().upper().map_or(limit, |size| limit.min(size as usize));
    let mut taken = held.budget.bodies.empty(held.client.clone());
    let mut bytes = Vec::new();
    loop {
        let frame = tokio::time::timeout(stall, body.frame()).await;
        let frame = frame.map_err(|_| too_slow(stall))?;
        let data = match frame {
            None => return Ok(Raw { bytes: bytes.into(), _taken: taken }),
            Some(Err(error)) => return Err(broken_off(&error)),
            Some(Ok(frame)) => frame.into_data().unwrap_or_default(),
        };
        let size = bytes.len() + data.len();
        if size > limit {
            return Err(too_big(size as u64, limit));
        }
        if size > bytes.capacity() {
            let capacity = size.max(STEP_BYTES).max(2 * bytes.capacity()).min(most.max(size));
            let more = taken.grow(capacity - bytes.capacity()).await;
            more.map_err(|full| busy(full, "requests"))?;
            bytes.reserve_exact(capacity - bytes.len());
        }
        bytes.extend_from_slice(&data);
    }
}

fn broken_off(error: &axum::Error) -> Refusal {
    let error = Error::invalid(
        "body",
        "incomplete",
        format!("the connection failed before the end of the body: {error}"),
    );
    Refusal::with(StatusCode::BAD_REQUEST, error)
}

/// Requires the JSON media type: browsers do not send it across origins without a preflight
/// request.
fn check_media_type(parts: &Parts) -> Result<(), Refusal> {
    let given = parts.headers.get(CONTENT_TYPE).map(|value| value.to_str().unwrap_or("?"));
    let essence = given.unwrap_or("none").split(';').next().unwrap_or_default().trim();
    if essence.eq_ignore_ascii_case(windlass_wire::JSON) {
        return Ok(());
    }
    let expected = "send JSON with Content-Type: application/json (curl --json sets it)";
    let error = Error::invalid("content-type", essence, expected);
    Err(Refusal::with(StatusCode::UNSUPPORTED_MEDIA_TYPE, error))
}

fn too_big(size: u64, limit: usize) -> Refusal {
    let hint = "split the batch, or keep large data elsewhere";
    Refusal::from(Error::TooLarge { field: "body".into(), size, limit: limit as u64, hint })
}

fn too_slow(limit: Duration) -> Refusal {
    let reason = format!("the request did not arrive within {limit:?}");
    let error = Error::Unavailable { store: "this server".to_owned(), reason };
    Refusal::with(StatusCode::REQUEST_TIMEOUT, error)
}

/// The parsed query string of a request.
pub(crate) struct Query<T>(pub(crate) T);

impl<T: DeserializeOwned> FromRequestParts<App> for Query<T> {
    type Rejection = Refusal;

    async fn from_request_parts(parts: &mut Parts, _: &App) -> Result<Self, Refusal> {
        let query = parts.uri.query().unwrap_or_default();
        Ok(Self(windlass_wire::read_query(query)?))
    }
}

/// The parsed query string of a list of jobs, which may name any field of a payload.
pub(crate) struct ListQuery(pub(crate) windlass_wire::List);

impl FromRequestParts<App> for ListQuery {
    type Rejection = Refusal;

    async fn from_request_parts(parts: &mut Parts, _: &App) -> Result<Self, Refusal> {
        let query = parts.uri.query().unwrap_or_default();
        Ok(Self(windlass_wire::read_list(query)?))
    }
}

/// The parsed path parameters of a request.
pub(crate) struct Path<T>(pub(crate) T);

impl<T: DeserializeOwned + Send> FromRequestParts<App> for Path<T> {
    type Rejection = Refusal;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Self, Refusal> {
        let named = axum::extract::Path::from_request_parts(parts, app).await;
        named.map(|axum::extract::Path(named)| Self(named)).map_err(|_| {
            let expected = "it must be percent-encoded UTF-8";
            Refusal::from(Error::invalid("path", parts.uri.path(), expected))
        })
    }
}
