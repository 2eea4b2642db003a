//! Dead letters: look at them, and replay or discard them, by id or all that pass a filter. Editing one
//! before its replay is a change of that job.

use crate::access::Who;
use crate::app::App;
use crate::body::{Json, Query};
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
/// As jobs are listed. A page may be short, even empty; only an absent `next` is the end.
#[utoipa::path(
    get, path = paths::DEAD, tag = tag::JOBS, operation_id = "list_dead",
    params(wire::openapi::DeadList),
    responses(
        (status = 200, body = wire::Page, description = "A page."),
    ),
)]
pub(super) async fn list(State(app): State<App>, Query(mut list): Query<wire::List>) -> Reply {
    if let Some(state) = list.state {
        let expected = "all of these are dead; leave it out, or list /v1/jobs";
        return Err(Error::invalid("state", state, expected).into());
    }
    list.state = Some(JobState::Dead);
    let reply = app.call(app.engine.list(list.into())).await?;
    Ok(stamped(reply.map(wire::Page::from)))
}

/// Give dead letters another life
///
/// By `ids`, or page by page all that pass a `filter`. To edit one first, change it as a job. A job that is not
/// dead answers `state_conflict` and stays as it is.
#[utoipa::path(
    post, path = paths::DEAD_REPLAY, tag = tag::JOBS, operation_id = "replay_dead",
    request_body = DeadBatch,
    responses(
        (status = 200, body = DeadReply, description = "What became of each."),
    ),
)]
pub(super) async fn replay(State(app): State<App>, who: Who, batch: Json<DeadBatch>) -> Reply {
    let (ones, change) = batch.value.into_replay()?;
    act(&app, &who, ones, change).await
}

/// Throw dead letters away
///
/// By `ids`, or page by page all that pass a `filter`. A job that is not dead answers `state_conflict` and stays
/// as it is.
#[utoipa::path(
    post, path = paths::DEAD_DISCARD, tag = tag::JOBS, operation_id = "discard_dead",
    request_body = DeadBatch,
    responses(
        (status = 200, body = DeadReply, description = "What became of each."),
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
            let page = app.call(app.engine.list(list)).await?.value;
            (page.rows.iter().map(|job| job.header.id).collect(), page.next)
        }
    };
    // A discard would take any ended job and a replay a cancelled one. Somebody else may have replayed a dead
    // letter since it was listed, too.
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
