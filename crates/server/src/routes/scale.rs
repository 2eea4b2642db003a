//! Computes the number of workers that a queue needs, for autoscalers.

use crate::app::App;
use crate::body::Query;
use crate::documents;
use crate::openapi::tag;
use crate::reply::{Reply, json};
use axum::extract::State;
use http::StatusCode;
use windlass_services::{Scale, ScaleQuery};
use windlass_wire as wire;
use windlass_wire::routes as paths;

/// Get the number of workers that a queue needs
///
/// `desired` workers with `per_worker` slots each keep up with arrivals and start ready jobs within
/// the target latency. The number of slots is arrivals per second × seconds per job + ready jobs ×
/// seconds per job ÷ target seconds, but never less than the number of running jobs. Without a
/// known run time, each job counts as long as the target. The caller decides when to scale.
#[utoipa::path(
    get, path = paths::SCALE, tag = tag::SETTINGS, operation_id = "scale",
    params(wire::ScaleQuery),
    responses(
        (status = 200, body = wire::Scale, description = "The number of workers, and the values it was computed from."),
    ),
)]
pub(super) async fn show(
    State(app): State<App>,
    Query(requested): Query<wire::ScaleQuery>,
) -> Reply {
    let mut query = ScaleQuery::new(requested.queue);
    query.target_latency_ms = requested.target_latency_ms.unwrap_or(query.target_latency_ms);
    query.per_worker = requested.per_worker.unwrap_or(query.per_worker);
    query.min = requested.min.unwrap_or(query.min);
    query.max = requested.max.unwrap_or(query.max);
    let scale = Scale::read(app.engine.clone(), &query, Some(&app.flows));
    let scale = app.in_time(scale, 0).await?;
    Ok(json(StatusCode::OK, &documents::scale(&scale)))
}
