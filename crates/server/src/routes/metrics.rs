//! Metrics for whoever collects them.

use crate::app::App;
use crate::metrics::Exporter;
use crate::openapi::tag;
use crate::reply::{Refusal, Reply};
use axum::body::Body;
use axum::extract::State;
use axum::response::Response;
use http::header::{CACHE_CONTROL, CONTENT_TYPE};
use http::{HeaderValue, StatusCode};
use windlass_core::Error;
use windlass_wire::routes as paths;

/// The text format of Prometheus, as it announces itself.
const PROMETHEUS_TEXT: &str = "text/plain; version=0.0.4; charset=utf-8";

/// Metrics of this server and its store
///
/// In Prometheus' text format; `docs/guides/metrics.md` lists them. The store's numbers are a second old at
/// most, and `NaN` while it does not answer.
#[utoipa::path(
    get, path = paths::METRICS, tag = tag::SERVER, operation_id = "metrics",
    responses(
        (status = 200, body = String, content_type = "text/plain", description = "The metrics."),
        (status = 404, description = "The program around this server collects none."),
    ),
)]
pub(super) async fn show(State(app): State<App>) -> Reply {
    let Some(exporter) = &app.options.exporter else {
        let expected = "this server was started without an exporter; `windlass serve` has one";
        let error = Error::invalid("path", paths::METRICS, expected);
        return Err(Refusal::with(StatusCode::NOT_FOUND, error));
    };
    app.gauges.refresh().await;
    Ok(text(exporter))
}

/// The metrics as they are.
pub(crate) fn text(exporter: &Exporter) -> Response {
    let mut response = Response::new(Body::from(exporter.write()));
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(PROMETHEUS_TEXT));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}
