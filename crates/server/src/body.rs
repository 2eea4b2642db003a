//! Reading requests: their bytes, within all bounds, into the types of the wire.

use crate::app::App;
use crate::reply::Refusal;
use axum::body::Body;
use axum::extract::{FromRequest, FromRequestParts, Request};
use bytes::Bytes;
use http::StatusCode;
use http::header::CONTENT_TYPE;
use http::request::Parts;
use http_body_util::{BodyExt as _, LengthLimitError, Limited};
use hyper::body::Body as _;
use serde::de::DeserializeOwned;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use windlass_core::{Error, Result};

/// Room is counted in pieces of this many bytes.
const PIECE_BYTES: usize = 1024;

/// The bytes of bodies that may be held at a time.
pub(crate) struct Room(Arc<Semaphore>);

impl Room {
    pub(crate) fn new(bytes_max: usize) -> Self {
        Self(Arc::new(Semaphore::new(bytes_max.div_ceil(PIECE_BYTES))))
    }

    async fn take(&self, bytes: usize) -> Option<OwnedSemaphorePermit> {
        let pieces = u32::try_from(bytes.div_ceil(PIECE_BYTES)).unwrap_or(u32::MAX);
        self.0.clone().acquire_many_owned(pieces).await.ok()
    }
}

/// A request with a JSON body.
pub(crate) struct Json<T> {
    pub(crate) value: T,
    /// Given back when the request is answered.
    _room: Option<OwnedSemaphorePermit>,
}

impl<T: DeserializeOwned> FromRequest<App> for Json<T> {
    type Rejection = Refusal;

    async fn from_request(request: Request, app: &App) -> Result<Self, Refusal> {
        let (parts, body) = request.into_parts();
        check_media_type(&parts)?;
        let raw = Raw::receive(body, app, app.limits().body_bytes_max).await?;
        let value = windlass_wire::read(&raw.bytes).map_err(|error| match error.field() {
            Some("body") => Refusal::with(StatusCode::BAD_REQUEST, error),
            _ => Refusal::from(error),
        })?;
        Ok(Self { value, _room: raw._room })
    }
}

/// A body as it came.
pub(crate) struct Raw {
    pub(crate) bytes: Bytes,
    /// Given back when the request is answered.
    _room: Option<OwnedSemaphorePermit>,
}

impl Raw {
    /// All of a body of at most `limit` bytes, in time.
    pub(crate) async fn receive(body: Body, app: &App, limit: usize) -> Result<Self, Refusal> {
        let read_timeout_ms = app.limits().read_timeout_ms;
        let time = Duration::from_millis(read_timeout_ms);
        let received = tokio::time::timeout(time, collect(body, app, limit)).await;
        let (bytes, room) = received.map_err(|_| too_slow(read_timeout_ms))??;
        Ok(Self { bytes, _room: room })
    }
}

/// Only JSON that says it is: no page in somebody's browser can send that here unasked.
fn check_media_type(parts: &Parts) -> Result<(), Refusal> {
    let given = parts.headers.get(CONTENT_TYPE).map(|value| value.to_str().unwrap_or("?"));
    let essence = given.unwrap_or("none").split(';').next().unwrap_or_default().trim();
    if essence.eq_ignore_ascii_case(windlass_wire::JSON) {
        return Ok(());
    }
    let expected = "send JSON and say so: Content-Type: application/json (curl --json does)";
    let error = Error::invalid("content-type", essence, expected);
    Err(Refusal::with(StatusCode::UNSUPPORTED_MEDIA_TYPE, error))
}

async fn collect(
    body: Body,
    app: &App,
    limit: usize,
) -> Result<(Bytes, Option<OwnedSemaphorePermit>), Refusal> {
    let announced = body.size_hint().exact();
    if let Some(size) = announced.filter(|size| *size > limit as u64) {
        return Err(too_big(size, limit));
    }
    // Who does not say how much is coming gets room for the most it can be.
    let size = announced.map_or(limit, |size| usize::try_from(size).unwrap_or(limit));
    let room = app.room.take(size).await;
    match Limited::new(body, limit).collect().await {
        Ok(bytes) => Ok((bytes.to_bytes(), room)),
        Err(error) if error.is::<LengthLimitError>() => Err(too_big(limit as u64 + 1, limit)),
        Err(error) => {
            let error = Error::invalid("body", "broken off", format!("send all of it: {error}"));
            Err(Refusal::with(StatusCode::BAD_REQUEST, error))
        }
    }
}

fn too_big(size: u64, limit: usize) -> Refusal {
    let hint = "split the batch, or keep large data elsewhere";
    Refusal::from(Error::TooLarge { field: "body".into(), size, limit: limit as u64, hint })
}

fn too_slow(limit_ms: u64) -> Refusal {
    let reason = format!("the request did not arrive within {limit_ms} ms");
    let error = Error::Unavailable { store: "this server".to_owned(), reason };
    Refusal::with(StatusCode::REQUEST_TIMEOUT, error)
}

/// The query of a request.
pub(crate) struct Query<T>(pub(crate) T);

impl<T: DeserializeOwned> FromRequestParts<App> for Query<T> {
    type Rejection = Refusal;

    async fn from_request_parts(parts: &mut Parts, _: &App) -> Result<Self, Refusal> {
        let query = parts.uri.query().unwrap_or_default();
        Ok(Self(windlass_wire::read_query(query)?))
    }
}

/// What the path of a request names.
pub(crate) struct Path<T>(pub(crate) T);

impl<T: DeserializeOwned + Send> FromRequestParts<App> for Path<T> {
    type Rejection = Refusal;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Self, Refusal> {
        let named = axum::extract::Path::from_request_parts(parts, app).await;
        named.map(|axum::extract::Path(named)| Self(named)).map_err(|_| {
            let expected = "it must be UTF-8, with what is no letter or digit as %XX";
            Refusal::from(Error::invalid("path", parts.uri.path(), expected))
        })
    }
}
