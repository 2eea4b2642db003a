//! Writing replies: stamped JSON, or a problem.

use axum::body::Body;
use axum::response::{IntoResponse, Response};
use http::header::{CACHE_CONTROL, CONTENT_TYPE, RETRY_AFTER, WWW_AUTHENTICATE};
use http::{HeaderValue, StatusCode};
use serde::Serialize;
use windlass_core::Error;
use windlass_core::engine::Stamped;
use windlass_wire::{EPOCH_HEADER, JSON, NOW_HEADER, PROBLEM_JSON, Problem};

/// Seconds after which an absent store is worth another try, and whoever gave no time of its own.
const RETRY_AFTER_SECONDS: u64 = 1;

/// What a route answers.
pub(crate) type Reply = Result<Response, Refusal>;

/// A request that was not carried out, and why.
#[derive(Debug)]
pub(crate) struct Refusal {
    /// Boxed, because every function that can refuse returns one.
    problem: Box<Problem>,
    /// When to try again, where the error says so.
    retry_after_ms: Option<u64>,
}

impl Refusal {
    /// With a status that says more than the error's own.
    pub(crate) fn with(status: StatusCode, error: Error) -> Self {
        let mut refusal = Self::from(error);
        refusal.problem.status = status.as_u16();
        refusal
    }

    /// Its HTTP status.
    pub(crate) fn status(&self) -> StatusCode {
        let status = StatusCode::from_u16(self.problem.status);
        status.unwrap_or(StatusCode::INTERNAL_SERVER_ERROR)
    }

    /// What happened and the way out, for a person.
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
            // The header has whole seconds; earlier would be in vain.
            let seconds = self.retry_after_ms.map_or(RETRY_AFTER_SECONDS, |ms| ms.div_ceil(1_000));
            headers.insert(RETRY_AFTER, HeaderValue::from(seconds));
        }
        response
    }
}

/// A reply of the engine as JSON.
pub(crate) fn stamped<T: Serialize>(reply: Stamped<T>) -> Response {
    stamped_with(StatusCode::OK, reply)
}

/// The same with another status.
pub(crate) fn stamped_with<T: Serialize>(status: StatusCode, reply: Stamped<T>) -> Response {
    let mut response = json(status, &reply.value);
    stamp(&mut response, &reply);
    response
}

/// Says when a reply was made, and by which store.
pub(crate) fn stamp<T>(response: &mut Response, reply: &Stamped<T>) {
    let headers = response.headers_mut();
    headers.insert(NOW_HEADER, HeaderValue::from(reply.now.as_millis()));
    if let Ok(epoch) = HeaderValue::from_bytes(reply.epoch.as_str().as_bytes()) {
        headers.insert(EPOCH_HEADER, epoch);
    }
}

/// A reply that is not the engine's.
pub(crate) fn json(status: StatusCode, value: &impl Serialize) -> Response {
    let mut response = Response::new(Body::from(windlass_wire::write(value)));
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(JSON));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}
