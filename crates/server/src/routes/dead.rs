//! Dead letters: look at them, and replay or discard them, by id or all that pass a filter. Editing one
//! before its replay is a change of that job.

use super::merged;
use crate::access::Who;
use crate::app::App;
use crate::body::{Json, Query};
use crate::openapi::tag;
use crate::reply::{Reply, stamped};
use axum::extract::State;
use windlass_core::engine::{Admin as _, Change, ChangeItem, Cursor, Get, List, Stamped};
use windlass_core::model::State as JobState;
use windlass_core::{Error, JobId, Result};
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
/// By `ids`, or page by page all that pass a `filter`. To edit one first, change it as a job.
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
/// By `ids`, or page by page all that pass a `filter`.
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
    let found = match ones {
        DeadOnes::Ids(ids) => by_id(app, ids, &change).await?,
        DeadOnes::Page(list) => by_page(app, list).await?,
    };
    let Stamped { now, epoch, value: Found { ids, dead, alive, next } } = found;
    let items: Vec<_> = dead.into_iter().map(|id| ChangeItem::new(id, change.clone())).collect();
    let changed = match items.is_empty() {
        true => Stamped { now, epoch, value: Vec::new() },
        false => app.call(app.acting(who).change(items)).await?,
    };
    Ok(stamped(changed.map(|answers| {
        let answers = merged(answers, alive).into_iter();
        let states = answers.map(|answer| answer.map(|changed| changed.state));
        let item = |(id, answer)| DeadItem { id, answer };
        DeadReply { items: ids.into_iter().zip(states).map(item).collect(), next }
    })))
}

/// Jobs that were named.
#[derive(Default)]
struct Found {
    ids: Vec<JobId>,
    /// Those that are dead, in order.
    dead: Vec<JobId>,
    /// What is wrong with the others, by their place.
    alive: Vec<(usize, Error)>,
    next: Option<Cursor>,
}

/// These jobs. A discard would take any ended job, and a replay a cancelled one; nobody who looks after
/// dead letters means those.
async fn by_id(app: &App, ids: Vec<JobId>, change: &Change) -> Result<Stamped<Found>> {
    let jobs = app.call(app.engine.get(Get::new(ids.iter().copied()))).await?;
    let hint = "only dead letters are taken here; change others at /v1/jobs/change";
    Ok(jobs.map(|jobs| {
        let mut found = Found::default();
        for (index, (id, job)) in ids.iter().copied().zip(jobs).enumerate() {
            match job.map(|job| job.state) {
                Some(JobState::Dead) => found.dead.push(id),
                Some(state) => {
                    let event = change.event();
                    found.alive.push((index, Error::Refused { id, state, event, hint }));
                }
                None => found.alive.push((index, Error::NotFound { id })),
            }
        }
        found.ids = ids;
        found
    }))
}

/// The dead letters of a page.
async fn by_page(app: &App, list: List) -> Result<Stamped<Found>> {
    let page = app.call(app.engine.list(list)).await?;
    Ok(page.map(|page| {
        let ids: Vec<_> = page.rows.iter().map(|job| job.header.id).collect();
        Found { dead: ids.clone(), ids, alive: Vec::new(), next: page.next }
    }))
}
