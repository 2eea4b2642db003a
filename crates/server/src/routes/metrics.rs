//! The metrics route.

use crate::app::App;
use crate::metrics::Exporter;
use crate::openapi::tag;
use crate::reply::Reply;
use axum::body::Body;
use axum::extract::State;
use axum::response::Response;
use http::HeaderValue;
use http::header::{CACHE_CONTROL, CONTENT_TYPE};
use windlass_core::Error;
use windlass_wire::routes as paths;

/// Media type of the Prometheus text format.
const PROMETHEUS_TEXT: &str = "text/plain; version=0.0.4; charset=utf-8";

/// Get metrics of this server and its store
///
/// In the Prometheus text format; `docs/guides/metrics.md` lists them. Statistics of the store are
/// at most a second old, and `NaN` while it does not answer.
#[utoipa::path(
    get, path = paths::METRICS, tag = tag::SERVER, operation_id = "metrics",
    responses(
        (status = 200, body = String, content_type = "text/plain", description = "The metrics."),
        (status = 404, description = "The server runs without a metrics exporter."),
    ),
)]
pub(super) async fn show(State(app): State<App>) -> Reply {
    let Some(exporter) = &app.options.exporter else {
        let hint = "this server was started without an exporter; `windlass serve` has one";
        return Err(Error::missing("route", paths::METRICS, hint).into());
    };
    app.gauges.refresh().await;
    Ok(text(exporter))
}

/// Renders the metrics.
pub(crate) fn text(exporter: &Exporter) -> Response {
    let mut response = Response::new(Body::from(exporter.write()));
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(PROMETHEUS_TEXT));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}
