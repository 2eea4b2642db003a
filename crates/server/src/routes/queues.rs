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
/// All queues with jobs or settings, in pages; only an absent `next` marks the end.
#[utoipa::path(
    get, path = paths::QUEUES, tag = tag::SETTINGS, operation_id = "list_queues",
    params(wire::PageQuery),
    responses(
        (status = 200, body = wire::Queues, description = "A page of queues, by name."),
    ),
)]
pub(super) async fn queues(State(app): State<App>, Query(page): Query<wire::PageQuery>) -> Reply {
    let (settings, lanes) = settings_and_lanes(&app, StatsRequest::default()).await?;
    let Stamped { now, epoch, value: lanes } = lanes;
    let all = Overview::all(settings.queues, &lanes, |it| &it.queue, now);
    let (queues, next) = page.cut(all, |queue| &queue.name)?;
    Ok(stamped(Stamped { now, epoch, value: wire::Queues { queues, next } }))
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
