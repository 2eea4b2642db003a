//! Serves the OpenAPI document.

use crate::openapi::{document, tag};
use axum::body::Body;
use axum::response::Response;
use http::header::{CACHE_CONTROL, CONTENT_TYPE, ETAG, IF_NONE_MATCH};
use http::{HeaderMap, HeaderValue, StatusCode};
use windlass_wire::JSON;
use windlass_wire::routes as paths;

/// This document
#[utoipa::path(
    get, path = paths::OPENAPI, tag = tag::SERVER, operation_id = "openapi",
    responses(
        (status = 200, body = Object, description = "The document."),
        (status = 304, description = "Not modified: `If-None-Match` contains the current `ETag`."),
    ),
)]
pub(super) async fn openapi(headers: HeaderMap) -> Response {
    let document = document();
    let known = headers.get_all(IF_NONE_MATCH).iter().any(|named| {
        let mut named = named.to_str().unwrap_or_default().split(',').map(str::trim);
        named.any(|tag| tag == "*" || tag.trim_start_matches("W/") == document.etag)
    });
    let mut response = Response::new(match known {
        true => Body::empty(),
        false => Body::from(document.text.clone()),
    });
    if known {
        *response.status_mut() = StatusCode::NOT_MODIFIED;
    }
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(JSON));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    if let Ok(etag) = HeaderValue::from_str(&document.etag) {
        headers.insert(ETAG, etag);
    }
    response
}
