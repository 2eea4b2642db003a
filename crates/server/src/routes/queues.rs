//! Queues: their settings and statistics.

use crate::app::App;
use crate::body::{Path, Query};
use crate::openapi::tag;
use crate::reply::{Reply, stamped};
use axum::extract::State;
use windlass_core::check_name;
use windlass_core::engine::{LaneStats, Settings, Stamped, StatsRequest};
use windlass_core::model::Name;
use windlass_wire as wire;
use windlass_wire::Overview;
use windlass_wire::routes as paths;

/// List queues
///
/// All queues with jobs or settings.
#[utoipa::path(
    get, path = paths::QUEUES, tag = tag::SETTINGS, operation_id = "list_queues",
    responses(
        (status = 200, body = wire::Queues, description = "The queues, by name."),
    ),
)]
pub(super) async fn queues(State(app): State<App>, _: Query<wire::Nothing>) -> Reply {
    let (settings, lanes) = settings_and_lanes(&app, StatsRequest::default()).await?;
    let now = lanes.now;
    let all = |lanes: Vec<LaneStats>| Overview::all(settings.queues, &lanes, |it| &it.queue, now);
    Ok(stamped(lanes.map(|lanes| wire::Queues { queues: all(lanes) })))
}

/// Get a queue
///
/// An unused queue has zeros and default settings.
#[utoipa::path(
    get, path = paths::QUEUE, tag = tag::SETTINGS, operation_id = "get_queue",
    params(("queue" = wire::openapi::Name, Path, description = "The queue; a `/` is written `%2F`.")),
    responses(
        (status = 200, body = wire::openapi::QueueOverview, description = "The queue."),
    ),
)]
pub(super) async fn queue(
    State(app): State<App>,
    Path(queue): Path<String>,
    _: Query<wire::Nothing>,
) -> Reply {
    check_name("queue", &queue)?;
    let queue = Name::from(queue);
    let (settings, lanes) = settings_and_lanes(&app, StatsRequest::queue(queue.clone())).await?;
    let now = lanes.now;
    Ok(stamped(lanes.map(|lanes| Overview::of(queue, settings.queues, lanes, now))))
}

pub(super) async fn settings_and_lanes(
    app: &App,
    lanes: StatsRequest,
) -> windlass_core::Result<(Settings, Stamped<Vec<LaneStats>>)> {
    let settings = app.call(app.engine.settings()).await?.value;
    Ok((settings, app.call(app.engine.stats(lanes)).await?))
}
