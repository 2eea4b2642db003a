//! Changes of one job: one route for each action.
//!
//! Each requires a JSON body, even if it is empty: pages of other sites cannot send one.

use super::{job_id, only};
use crate::access::Who;
use crate::app::App;
use crate::body::{Json, Path};
use crate::openapi::tag;
use crate::reply::{Reply, stamped};
use axum::extract::State;
use windlass_core::engine::{Admin as _, Change, ChangeItem, Stamped};
use windlass_core::model;
use windlass_wire as wire;
use windlass_wire::routes as paths;

async fn change(
    app: &App,
    who: &Who,
    id: &str,
    change: Change,
    if_state: Option<model::State>,
) -> Reply {
    let mut item = ChangeItem::new(job_id(id)?, change);
    item.if_state = if_state;
    let reply = app.call(app.acting(who).change(vec![item])).await?;
    let value = wire::Changed::from(only(reply.value)?);
    Ok(stamped(Stamped { now: reply.now, epoch: reply.epoch, value }))
}

/// Cancel a job
///
/// A waiting job ends at once; the worker of a running job is asked to stop it.
#[utoipa::path(
    post, path = paths::JOB_CANCEL, tag = tag::JOBS, operation_id = "cancel_job",
    request_body = wire::IfState,
    params(("id" = wire::openapi::JobId, Path, description = "The job.")),
    responses(
        (status = 200, body = wire::Changed, description = "Done."),
        (status = 404, description = "There is no such job."),
        (status = 409, description = "The job's state does not allow it, or is not `if_state`."),
    ),
)]
pub(super) async fn cancel(
    State(app): State<App>,
    who: Who,
    Path(id): Path<String>,
    body: Json<wire::IfState>,
) -> Reply {
    change(&app, &who, &id, Change::Cancel, body.value.if_state).await
}

/// Make a waiting job due now
#[utoipa::path(
    post, path = paths::JOB_PROMOTE, tag = tag::JOBS, operation_id = "promote_job",
    request_body = wire::IfState,
    params(("id" = wire::openapi::JobId, Path, description = "The job.")),
    responses(
        (status = 200, body = wire::Changed, description = "Done."),
        (status = 404, description = "There is no such job."),
        (status = 409, description = "The job's state does not allow it, or is not `if_state`."),
    ),
)]
pub(super) async fn promote(
    State(app): State<App>,
    who: Who,
    Path(id): Path<String>,
    body: Json<wire::IfState>,
) -> Reply {
    change(&app, &who, &id, Change::Promote, body.value.if_state).await
}

/// End a waiting job as dead
#[utoipa::path(
    post, path = paths::JOB_KILL, tag = tag::JOBS, operation_id = "kill_job",
    request_body = wire::IfState,
    params(("id" = wire::openapi::JobId, Path, description = "The job.")),
    responses(
        (status = 200, body = wire::Changed, description = "Done."),
        (status = 404, description = "There is no such job."),
        (status = 409, description = "The job's state does not allow it, or is not `if_state`."),
    ),
)]
pub(super) async fn kill(
    State(app): State<App>,
    who: Who,
    Path(id): Path<String>,
    body: Json<wire::IfState>,
) -> Reply {
    change(&app, &who, &id, Change::Kill, body.value.if_state).await
}

/// Pause a waiting job
#[utoipa::path(
    post, path = paths::JOB_PAUSE, tag = tag::JOBS, operation_id = "pause_job",
    request_body = wire::IfState,
    params(("id" = wire::openapi::JobId, Path, description = "The job.")),
    responses(
        (status = 200, body = wire::Changed, description = "Done."),
        (status = 404, description = "There is no such job."),
        (status = 409, description = "The job's state does not allow it, or is not `if_state`."),
    ),
)]
pub(super) async fn pause(
    State(app): State<App>,
    who: Who,
    Path(id): Path<String>,
    body: Json<wire::IfState>,
) -> Reply {
    change(&app, &who, &id, Change::Pause, body.value.if_state).await
}

/// Resume a paused job
#[utoipa::path(
    post, path = paths::JOB_RESUME, tag = tag::JOBS, operation_id = "resume_job",
    request_body = wire::IfState,
    params(("id" = wire::openapi::JobId, Path, description = "The job.")),
    responses(
        (status = 200, body = wire::Changed, description = "Done."),
        (status = 404, description = "There is no such job."),
        (status = 409, description = "The job's state does not allow it, or is not `if_state`."),
    ),
)]
pub(super) async fn resume(
    State(app): State<App>,
    who: Who,
    Path(id): Path<String>,
    body: Json<wire::IfState>,
) -> Reply {
    change(&app, &who, &id, Change::Resume, body.value.if_state).await
}

/// Remove an ended job
#[utoipa::path(
    post, path = paths::JOB_DISCARD, tag = tag::JOBS, operation_id = "discard_job",
    request_body = wire::IfState,
    params(("id" = wire::openapi::JobId, Path, description = "The job.")),
    responses(
        (status = 200, body = wire::Changed, description = "Done."),
        (status = 404, description = "There is no such job."),
        (status = 409, description = "The job's state does not allow it, or is not `if_state`."),
    ),
)]
pub(super) async fn discard(
    State(app): State<App>,
    who: Who,
    Path(id): Path<String>,
    body: Json<wire::IfState>,
) -> Reply {
    change(&app, &who, &id, Change::Discard, body.value.if_state).await
}

/// Change the due time of a waiting job
///
/// To `run_at` or `delay_ms` from now; now if neither is given.
#[utoipa::path(
    post, path = paths::JOB_RESCHEDULE, tag = tag::JOBS, operation_id = "reschedule_job",
    request_body = wire::Reschedule,
    params(("id" = wire::openapi::JobId, Path, description = "The job.")),
    responses(
        (status = 200, body = wire::Changed, description = "Done."),
        (status = 404, description = "There is no such job."),
        (status = 409, description = "The job's state does not allow it, or is not `if_state`."),
    ),
)]
pub(super) async fn reschedule(
    State(app): State<App>,
    who: Who,
    Path(id): Path<String>,
    body: Json<wire::Reschedule>,
) -> Reply {
    let body = body.value;
    change(&app, &who, &id, Change::Reschedule(body.due()?), body.if_state).await
}

/// Change the priority of a job
#[utoipa::path(
    post, path = paths::JOB_REPRIORITISE, tag = tag::JOBS, operation_id = "reprioritise_job",
    request_body = wire::Reprioritise,
    params(("id" = wire::openapi::JobId, Path, description = "The job.")),
    responses(
        (status = 200, body = wire::Changed, description = "Done."),
        (status = 404, description = "There is no such job."),
        (status = 409, description = "The job's state does not allow it, or is not `if_state`."),
    ),
)]
pub(super) async fn reprioritise(
    State(app): State<App>,
    who: Who,
    Path(id): Path<String>,
    body: Json<wire::Reprioritise>,
) -> Reply {
    let body = body.value;
    change(&app, &who, &id, Change::Reprioritise(body.priority), body.if_state).await
}

/// Move a waiting job to another queue
#[utoipa::path(
    post, path = paths::JOB_MOVE, tag = tag::JOBS, operation_id = "move_job",
    request_body = wire::Move,
    params(("id" = wire::openapi::JobId, Path, description = "The job.")),
    responses(
        (status = 200, body = wire::Changed, description = "Done."),
        (status = 404, description = "There is no such job."),
        (status = 409, description = "The job's state does not allow it, or is not `if_state`."),
        (status = 429, description = "The queue to move to is full. Retry after `Retry-After`."),
    ),
)]
pub(super) async fn move_to(
    State(app): State<App>,
    who: Who,
    Path(id): Path<String>,
    body: Json<wire::Move>,
) -> Reply {
    let body = body.value;
    change(&app, &who, &id, Change::Move(body.queue.clone()), body.if_state).await
}

/// Replay a dead, cancelled or expired job
///
/// With its counters cleared, and with the changes in the body.
#[utoipa::path(
    post, path = paths::JOB_REPLAY, tag = tag::JOBS, operation_id = "replay_job",
    request_body = wire::Edits,
    params(("id" = wire::openapi::JobId, Path, description = "The job.")),
    responses(
        (status = 200, body = wire::Changed, description = "Done."),
        (status = 404, description = "There is no such job."),
        (status = 409, description = "The job's state does not allow it, or another job holds its unique key."),
        (status = 429, description = "The queue is full. Retry after `Retry-After`."),
    ),
)]
pub(super) async fn replay(
    State(app): State<App>,
    who: Who,
    Path(id): Path<String>,
    body: Json<wire::Edits>,
) -> Reply {
    let body = body.value;
    change(&app, &who, &id, Change::Replay(Box::new(body.into_core()?)), None).await
}
