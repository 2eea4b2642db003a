//! Dead letters: list, replay and discard them, by id or by filter. To edit one before its replay,
//! use the change route of its job.

use crate::access::Who;
use crate::app::App;
use crate::body::{Json, ListQuery};
use crate::openapi::tag;
use crate::reply::{Reply, stamped};
use axum::extract::State;
use windlass_core::engine::{Admin as _, Change, ChangeItem};
use windlass_core::model::State as JobState;
use windlass_core::{Error, JobId};
use windlass_wire as wire;
use windlass_wire::routes as paths;
use windlass_wire::{DeadBatch, DeadItem, DeadOnes, DeadReply};

/// List dead letters
///
/// Takes the parameters of the job list. Sorted by the time of death, the latest first; only an absent `next` marks the
/// end.
#[utoipa::path(
    get, path = paths::DEAD, tag = tag::JOBS, operation_id = "list_dead",
    params(wire::openapi::DeadList),
    responses(
        (status = 200, body = wire::Page, description = "A page."),
    ),
)]
pub(super) async fn list(State(app): State<App>, ListQuery(mut list): ListQuery) -> Reply {
    if let Some(state) = list.state {
        let expected = "dead letters are always dead; omit it, or use /v1/jobs";
        return Err(Error::invalid("state", state, expected).into());
    }
    list.state = Some(JobState::Dead);
    let reply = app.call(app.engine.list(list.into())).await?;
    Ok(stamped(reply.map(wire::Page::from)))
}

/// Replay dead letters
///
/// By `ids`, or by `filter` one page at a time. To edit a job first, change it as a job. A job that
/// is not dead fails with `state_conflict` and stays unchanged.
#[utoipa::path(
    post, path = paths::DEAD_REPLAY, tag = tag::JOBS, operation_id = "replay_dead",
    request_body = DeadBatch,
    responses(
        (status = 200, body = DeadReply, description = "The result of each item."),
    ),
)]
pub(super) async fn replay(State(app): State<App>, who: Who, batch: Json<DeadBatch>) -> Reply {
    let (ones, change) = batch.value.into_replay()?;
    act(&app, &who, ones, change).await
}

/// Discard dead letters
///
/// By `ids`, or by `filter` one page at a time. A job that is not dead fails with `state_conflict`
/// and stays unchanged.
#[utoipa::path(
    post, path = paths::DEAD_DISCARD, tag = tag::JOBS, operation_id = "discard_dead",
    request_body = DeadBatch,
    responses(
        (status = 200, body = DeadReply, description = "The result of each item."),
    ),
)]
pub(super) async fn discard(State(app): State<App>, who: Who, batch: Json<DeadBatch>) -> Reply {
    let (ones, change) = batch.value.into_discard()?;
    act(&app, &who, ones, change).await
}

async fn act(app: &App, who: &Who, ones: DeadOnes, change: Change) -> Reply {
    let (ids, next) = match ones {
        DeadOnes::Ids(ids) => (ids, None),
        DeadOnes::Page(list) => {
            let page = app.call(app.engine.list(*list)).await?.value;
            (page.rows.iter().map(|job| job.header.id).collect(), page.next)
        }
    };
    // Require the dead state: a discard would accept any finished job, and a replay a cancelled
    // one. Another caller may also have replayed a job since it was listed.
    let item = |id: &JobId| ChangeItem::new(*id, change.clone()).if_state(JobState::Dead);
    let changed = match ids.is_empty() {
        true => app.call(app.engine.health()).await?.map(|()| Vec::new()),
        false => app.call(app.acting(who).change(ids.iter().map(item).collect())).await?,
    };
    Ok(stamped(changed.map(|answers| {
        let states = answers.into_iter().map(|answer| answer.map(|changed| changed.state));
        let item = |(id, answer)| DeadItem { id, answer };
        DeadReply { items: ids.into_iter().zip(states).map(item).collect(), next }
    })))
}
