//! Queues and kinds: how each is set and how it is doing.

use crate::app::App;
use crate::body::{Path, Query};
use crate::reply::{Reply, stamped};
use axum::extract::State;
use windlass_core::check_name;
use windlass_core::engine::{LaneStats, Settings, Stamped, StatsRequest};
use windlass_core::model::Name;
use windlass_wire as wire;
use windlass_wire::Overview;

/// `GET /v1/queues`
pub(super) async fn queues(State(app): State<App>, _: Query<wire::Nothing>) -> Reply {
    let (settings, lanes) = look(&app, StatsRequest::default()).await?;
    let now = lanes.now;
    let all = |lanes: Vec<LaneStats>| Overview::all(settings.queues, &lanes, |it| &it.queue, now);
    Ok(stamped(lanes.map(|lanes| wire::Queues { queues: all(lanes) })))
}

/// `GET /v1/queues/{queue}`: every queue there could be; of one that nobody used these are zeros.
pub(super) async fn queue(
    State(app): State<App>,
    Path(queue): Path<String>,
    _: Query<wire::Nothing>,
) -> Reply {
    check_name("queue", &queue)?;
    let queue = Name::from(queue);
    let (settings, lanes) = look(&app, StatsRequest::queue(queue.clone())).await?;
    let now = lanes.now;
    Ok(stamped(lanes.map(|lanes| Overview::of(queue, settings.queues, lanes, now))))
}

/// `GET /v1/kinds`
pub(super) async fn kinds(State(app): State<App>, _: Query<wire::Nothing>) -> Reply {
    let (settings, lanes) = look(&app, StatsRequest::default()).await?;
    let now = lanes.now;
    let all = |lanes: Vec<LaneStats>| Overview::all(settings.kinds, &lanes, |it| &it.kind, now);
    Ok(stamped(lanes.map(|lanes| wire::Kinds { kinds: all(lanes) })))
}

/// `GET /v1/kinds/{kind}`: every kind there could be, on whatever queue.
pub(super) async fn kind(
    State(app): State<App>,
    Path(kind): Path<String>,
    _: Query<wire::Nothing>,
) -> Reply {
    check_name("kind", &kind)?;
    let kind = Name::from(kind);
    let (settings, lanes) = look(&app, StatsRequest::default()).await?;
    let now = lanes.now;
    let of = |mut lanes: Vec<LaneStats>| {
        lanes.retain(|lane| lane.kind == kind);
        Overview::of(kind, settings.kinds, lanes, now)
    };
    Ok(stamped(lanes.map(of)))
}

async fn look(
    app: &App,
    lanes: StatsRequest,
) -> windlass_core::Result<(Settings, Stamped<Vec<LaneStats>>)> {
    let settings = app.call(app.engine.settings()).await?.value;
    Ok((settings, app.call(app.engine.stats(lanes)).await?))
}
