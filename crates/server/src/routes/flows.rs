//! Routes for flows: graphs of jobs that share a name.

use crate::access::Who;
use crate::admit::Principal;
use crate::app::App;
use crate::body::{Json, Path, Query};
use crate::openapi::tag;
use crate::reply::{Reply, stamped, stamped_with};
use crate::traces::Trace;
use axum::extract::State;
use http::StatusCode;
use windlass_core::engine::{self, Changed, Item, Stamped};
use windlass_core::id::Ids;
use windlass_core::model::Name;
use windlass_core::random::SystemRandom;
use windlass_core::{Error, Result, check_name};
use windlass_services::{cancel_flow, flow_jobs, replay_flow};
use windlass_wire as wire;
use windlass_wire::routes as paths;

/// Store a flow
///
/// All jobs or none. `after` of a job names other nodes, or ids of jobs that exist. Cycles and unknown jobs are refused.
#[utoipa::path(
    post, path = paths::FLOWS, tag = tag::JOBS, operation_id = "store_flow",
    params(wire::openapi::TraceHeaders),
    request_body = wire::NewFlow,
    responses(
        (status = 201, body = wire::StoredFlow, description = "Stored."),
        (status = 409, description = "A unique key is held by another job."),
        (status = 429, description = "A queue is full or the rate limit is exceeded. Retry after `Retry-After`."),
    ),
)]
pub(super) async fn store(
    State(app): State<App>,
    who: Who,
    principal: Principal,
    trace: Trace,
    flow: Json<wire::NewFlow>,
) -> Reply {
    app.rate_limits.check(&principal, flow.value.nodes.len())?;
    let now = app.call(app.engine.health()).await?.now;
    let mut ids = Ids::default();
    let (flow, nodes) = flow.value.into_core(|| ids.next(now, &SystemRandom))?;
    let (names, jobs): (Vec<String>, Vec<_>) = nodes.into_iter().unzip();
    jobs.iter().try_for_each(|job| who.may_enqueue(job))?;
    let mut request = engine::Enqueue::all_or_nothing(jobs);
    let span = trace.forward(&mut request.jobs, app.options.traces, paths::FLOWS);
    let reply = span.around(app.call(app.engine.enqueue(request))).await?;
    let Stamped { now, epoch, value } = reply;
    let mut stored = wire::StoredFlow { flow, nodes: Default::default() };
    let mut culprit = None;
    for (name, item) in names.into_iter().zip(value) {
        match item {
            Ok(enqueued) => drop(stored.nodes.insert(name, enqueued.into())),
            Err(Error::Aborted { .. }) => {}
            Err(error) => culprit = Some(error.within(format_args!("nodes.{name}"))),
        }
    }
    match culprit {
        Some(error) => Err(error.into()),
        None => Ok(stamped_with(StatusCode::CREATED, Stamped { now, epoch, value: stored })),
    }
}

/// Return a flow
///
/// Its jobs with what they run `after` and how that ended, in pages, and the number of all its jobs by state.
#[utoipa::path(
    get, path = paths::FLOW, tag = tag::JOBS, operation_id = "get_flow",
    params(("flow" = wire::openapi::Name, Path, description = "The flow; a `/` is written `%2F`."), wire::PageQuery),
    responses(
        (status = 200, body = wire::Flow, description = "A page of the flow."),
        (status = 404, description = "No jobs belong to this flow."),
    ),
)]
pub(super) async fn get(
    State(app): State<App>,
    Path(flow): Path<String>,
    Query(page): Query<wire::PageQuery>,
) -> Reply {
    let flow = named(flow)?;
    let Stamped { now, epoch, value } = app.in_time(flow_jobs(&*app.engine, &flow), 0).await?;
    if value.is_empty() {
        return Err(Error::missing("flow", &*flow, "no jobs belong to it").into());
    }
    Ok(stamped(Stamped { now, epoch, value: wire::Flow::page(flow, value, &page)? }))
}

/// Cancel a flow
///
/// Cancels all of its jobs that have not ended; running ones are asked to stop.
#[utoipa::path(
    post, path = paths::FLOW_CANCEL, tag = tag::JOBS, operation_id = "cancel_flow",
    request_body = wire::Nothing,
    params(("flow" = wire::openapi::Name, Path, description = "The flow; a `/` is written `%2F`.")),
    responses(
        (status = 200, body = wire::openapi::ChangedItems, description = "The result of each job."),
    ),
)]
pub(super) async fn cancel(
    State(app): State<App>,
    who: Who,
    Path(flow): Path<String>,
    _: Json<wire::Nothing>,
) -> Reply {
    let (flow, engine) = (named(flow)?, app.acting(&who));
    Ok(changed(app.in_time(cancel_flow(&engine, &flow), 0).await?))
}

/// Replay a flow
///
/// Replays all of its jobs that ended without being completed. Each waits again for those that it depends on.
#[utoipa::path(
    post, path = paths::FLOW_REPLAY, tag = tag::JOBS, operation_id = "replay_flow",
    request_body = wire::Nothing,
    params(("flow" = wire::openapi::Name, Path, description = "The flow; a `/` is written `%2F`.")),
    responses(
        (status = 200, body = wire::openapi::ChangedItems, description = "The result of each job."),
    ),
)]
pub(super) async fn replay(
    State(app): State<App>,
    who: Who,
    Path(flow): Path<String>,
    _: Json<wire::Nothing>,
) -> Reply {
    let (flow, engine) = (named(flow)?, app.acting(&who));
    Ok(changed(app.in_time(replay_flow(&engine, &flow), 0).await?))
}

fn named(flow: String) -> Result<Name> {
    check_name("flow", &flow)?;
    Ok(flow.into())
}

fn changed(reply: Stamped<Vec<Item<Changed>>>) -> axum::response::Response {
    stamped(reply.map(|items| wire::Items::new(items, wire::Changed::from)))
}
