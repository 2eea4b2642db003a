//! How many workers a queue needs, for whoever starts and stops them.

use crate::app::App;
use crate::body::Query;
use crate::openapi::tag;
use crate::reply::{Reply, json};
use axum::extract::State;
use http::StatusCode;
use windlass_services::{Scale, ScaleQuery};
use windlass_wire as wire;
use windlass_wire::routes as paths;

/// How many workers a queue needs
///
/// `desired` workers of `per_worker` jobs at a time keep up with what comes in and start what is ready within
/// the target: the slots are arrivals per second × seconds per job + ready jobs × seconds per job ÷ target
/// seconds, and never fewer than jobs run now. While nothing is known of how long jobs take, each counts as
/// long as the target. When to follow is the caller's business.
#[utoipa::path(
    get, path = paths::SCALE, tag = tag::SETTINGS, operation_id = "scale",
    params(wire::ScaleQuery),
    responses(
        (status = 200, body = wire::Scale, description = "How many, and why."),
    ),
)]
pub(super) async fn show(State(app): State<App>, Query(asked): Query<wire::ScaleQuery>) -> Reply {
    let mut query = ScaleQuery::new(asked.queue);
    query.target_latency_ms = asked.target_latency_ms.unwrap_or(query.target_latency_ms);
    query.per_worker = asked.per_worker.unwrap_or(query.per_worker);
    query.min = asked.min.unwrap_or(query.min);
    query.max = asked.max.unwrap_or(query.max);
    let look = Scale::look(app.engine.clone(), &query, Some(&app.flows));
    let scale = app.in_time(look, 0).await?;
    let scale = wire::Scale {
        desired: scale.desired,
        available: scale.available,
        running: scale.running,
        arrivals_per_second: scale.arrivals_per_second,
        run_ms: scale.run_ms,
    };
    Ok(json(StatusCode::OK, &scale))
}
