//! Builds replies: JSON with the store's time and epoch, or an RFC 9457 problem.

use axum::body::Body;
use axum::response::{IntoResponse, Response};
use http::header::{CACHE_CONTROL, CONTENT_TYPE, RETRY_AFTER, WWW_AUTHENTICATE};
use http::{HeaderValue, StatusCode};
use serde::Serialize;
use windlass_core::Error;
use windlass_core::engine::Stamped;
use windlass_wire::{EPOCH_HEADER, JSON, NOW_HEADER, PROBLEM_JSON, Problem};

/// Default of the `Retry-After` header, for errors without their own retry time.
const RETRY_AFTER_SECONDS: u64 = 1;

/// The result of a route.
pub(crate) type Reply = Result<Response, Refusal>;

/// An error reply.
#[derive(Debug)]
pub(crate) struct Refusal {
    /// Boxed, because every function that can refuse returns one.
    problem: Box<Problem>,
    /// When to retry, if the error specifies it.
    retry_after_ms: Option<u64>,
}

impl Refusal {
    /// Overrides the error's default status.
    pub(crate) fn with(status: StatusCode, error: Error) -> Self {
        let mut refusal = Self::from(error);
        refusal.problem.status = status.as_u16();
        refusal
    }

    /// The HTTP status.
    pub(crate) fn status(&self) -> StatusCode {
        let status = StatusCode::from_u16(self.problem.status);
        status.unwrap_or(StatusCode::INTERNAL_SERVER_ERROR)
    }

    /// Human-readable description of the problem and its solution.
    pub(crate) fn detail(&self) -> &str {
        &self.problem.detail
    }
}

impl From<Error> for Refusal {
    fn from(error: Error) -> Self {
        let retry_after_ms = error.retry_after_ms();
        Self { problem: Box::new(Problem::new(error)), retry_after_ms }
    }
}

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        let status = self.status();
        let mut response = Response::new(Body::from(windlass_wire::write(&*self.problem)));
        *response.status_mut() = status;
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static(PROBLEM_JSON));
        if status == StatusCode::UNAUTHORIZED {
            headers.insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer realm=\"windlass\""));
        }
        if matches!(status, StatusCode::TOO_MANY_REQUESTS | StatusCode::SERVICE_UNAVAILABLE) {
            // The header holds whole seconds. Round up, because an earlier retry would fail.
            let seconds = self.retry_after_ms.map_or(RETRY_AFTER_SECONDS, |ms| ms.div_ceil(1_000));
            headers.insert(RETRY_AFTER, HeaderValue::from(seconds));
        }
        response
    }
}

/// Converts an engine reply to JSON with status 200.
pub(crate) fn stamped<T: Serialize>(reply: Stamped<T>) -> Response {
    stamped_with(StatusCode::OK, reply)
}

/// Converts an engine reply to JSON with this status.
pub(crate) fn stamped_with<T: Serialize>(status: StatusCode, reply: Stamped<T>) -> Response {
    let mut response = json(status, &reply.value);
    stamp(&mut response, &reply);
    response
}

/// Sets the headers for the store's time and epoch.
pub(crate) fn stamp<T>(response: &mut Response, reply: &Stamped<T>) {
    let headers = response.headers_mut();
    headers.insert(NOW_HEADER, HeaderValue::from(reply.now.as_millis()));
    if let Ok(epoch) = HeaderValue::from_bytes(reply.epoch.as_str().as_bytes()) {
        headers.insert(EPOCH_HEADER, epoch);
    }
}

/// A JSON reply that does not originate from the engine, without time and epoch.
pub(crate) fn json(status: StatusCode, value: &impl Serialize) -> Response {
    let mut response = Response::new(Body::from(windlass_wire::write(value)));
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(JSON));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}
