//! Schedules: recurring jobs by name. The services enqueue their jobs when due.

use crate::access::Who;
use crate::app::App;
use crate::body::{Json, Path, Query};
use crate::documents;
use crate::openapi::tag;
use crate::reply::{Refusal, Reply, stamped, stamped_with};
use axum::extract::State;
use http::StatusCode;
use std::sync::Arc;
use windlass_core::engine::Stamped;
use windlass_core::{Error, Result};
use windlass_services::Schedules;
use windlass_wire as wire;
use windlass_wire::routes as paths;

/// List schedules
///
/// Sorted by name, in pages; only an absent `next` marks the end.
#[utoipa::path(
    get, path = paths::SCHEDULES, tag = tag::SCHEDULES, operation_id = "list_schedules",
    params(wire::ScheduleList),
    responses(
        (status = 200, body = wire::SchedulePage, description = "A page."),
    ),
)]
pub(super) async fn list(State(app): State<App>, Query(query): Query<wire::ScheduleList>) -> Reply {
    let limit = query.limit();
    let reply = on(&app, async |schedules: &Schedules| schedules.list(query.after, limit).await);
    Ok(stamped(reply.await?.map(|page| wire::SchedulePage {
        schedules: page.rows.into_iter().map(documents::schedule).collect(),
        unreadable: page.unreadable,
        next: page.next,
    })))
}

/// Get a schedule
#[utoipa::path(
    get, path = paths::SCHEDULE, tag = tag::SCHEDULES, operation_id = "get_schedule",
    params(("name" = wire::openapi::Name, Path, description = "The schedule; a `/` is written `%2F`.")),
    responses(
        (status = 200, body = wire::ScheduleView, description = "The schedule and its status."),
        (status = 404, description = "There is no such schedule."),
    ),
)]
pub(super) async fn get(
    State(app): State<App>,
    Path(name): Path<String>,
    _: Query<wire::Nothing>,
) -> Reply {
    let reply = on(&app, async |schedules: &Schedules| schedules.get(&name).await).await?;
    let Stamped { now, epoch, value } = reply;
    let value = documents::schedule(value.ok_or_else(|| not_there(&name))?);
    Ok(stamped(Stamped { now, epoch, value }))
}

/// Create or replace a schedule
///
/// If the recurrence is unchanged, the schedule continues with its new job; otherwise it starts
/// over.
#[utoipa::path(
    put, path = paths::SCHEDULE, tag = tag::SCHEDULES, operation_id = "put_schedule",
    request_body = wire::PutSchedule,
    params(("name" = wire::openapi::Name, Path, description = "The schedule; a `/` is written `%2F`.")),
    responses(
        (status = 200, body = wire::ScheduleView, description = "The current schedule."),
        (status = 409, description = "Concurrent changes; try again."),
    ),
)]
pub(super) async fn put(
    State(app): State<App>,
    who: Who,
    Path(name): Path<String>,
    request: Json<wire::PutSchedule>,
) -> Reply {
    let (schedule, job) = request.value.into_core()?;
    // Jobs are checked again at each run, as rules may change. This check reports errors to the
    // caller early.
    let table = app.in_time(app.registry.table(), 0).await?;
    table.admit(&mut job.clone()).map_err(|error| error.within("job"))?;
    let reply =
        by(&app, &who, async |schedules: &Schedules| schedules.put(&name, schedule, job).await);
    Ok(stamped(reply.await?.map(documents::schedule)))
}

/// Pause or resume a schedule
///
/// A resumed schedule continues from now; runs missed while paused are skipped.
#[utoipa::path(
    patch, path = paths::SCHEDULE, tag = tag::SCHEDULES, operation_id = "change_schedule",
    request_body = wire::SchedulePatch,
    params(("name" = wire::openapi::Name, Path, description = "The schedule; a `/` is written `%2F`.")),
    responses(
        (status = 200, body = wire::ScheduleView, description = "The current schedule."),
        (status = 404, description = "There is no such schedule."),
        (status = 409, description = "Concurrent changes; try again."),
    ),
)]
pub(super) async fn patch(
    State(app): State<App>,
    who: Who,
    Path(name): Path<String>,
    patch: Json<wire::SchedulePatch>,
) -> Reply {
    let reply = by(&app, &who, async |schedules: &Schedules| match patch.value.paused {
        true => schedules.pause(&name).await,
        false => schedules.resume(&name).await,
    });
    Ok(stamped(reply.await?.map(documents::schedule)))
}

/// Delete a schedule
///
/// Jobs that it enqueued stay.
#[utoipa::path(
    delete, path = paths::SCHEDULE, tag = tag::SCHEDULES, operation_id = "delete_schedule",
    params(("name" = wire::openapi::Name, Path, description = "The schedule; a `/` is written `%2F`.")),
    responses(
        (status = 200, body = wire::Empty, description = "The schedule is deleted."),
        (status = 404, description = "There is no such schedule."),
    ),
)]
pub(super) async fn remove(
    State(app): State<App>,
    who: Who,
    Path(name): Path<String>,
    _: Query<wire::Nothing>,
) -> Reply {
    let reply = by(&app, &who, async |schedules: &Schedules| schedules.remove(&name).await).await?;
    if !reply.value {
        return Err(not_there(&name));
    }
    Ok(stamped(reply.map(|_| wire::Empty {})))
}

/// Enqueue the job of a schedule now
///
/// Works for paused schedules too, and does not change the next run. Two calls enqueue two jobs,
/// unless the job is unique.
#[utoipa::path(
    post, path = paths::SCHEDULE_TRIGGER, tag = tag::SCHEDULES, operation_id = "trigger_schedule",
    request_body = wire::Nothing,
    params(("name" = wire::openapi::Name, Path, description = "The schedule; a `/` is written `%2F`.")),
    responses(
        (status = 201, body = wire::Enqueued, description = "Stored."),
        (status = 200, body = wire::Enqueued, description = "The job exists already, or was throttled."),
        (status = 404, description = "There is no such schedule."),
        (status = 409, description = "Its unique key is held by another job, and its conflict policy is `reject`."),
        (status = 429, description = "The queue is full."),
    ),
)]
pub(super) async fn trigger(
    State(app): State<App>,
    who: Who,
    Path(name): Path<String>,
    _: Json<wire::Nothing>,
) -> Reply {
    let reply = on(&app, async |schedules: &Schedules| schedules.trigger(&name).await).await;
    let reply = reply?.map(wire::Enqueued::from);
    app.acting(&who).record("schedule.trigger", &name).await;
    let status = if reply.value.is_new() { StatusCode::CREATED } else { StatusCode::OK };
    Ok(stamped_with(status, reply))
}

/// Reads schedules within the call timeout and stamps the answer.
async fn on<T>(app: &App, work: impl AsyncFnOnce(&Schedules) -> Result<T>) -> Result<Stamped<T>> {
    with(app, Schedules::new(app.engine.clone()), work).await
}

/// Changes schedules and writes the change to the audit log.
async fn by<T>(
    app: &App,
    who: &Who,
    act: impl AsyncFnOnce(&Schedules) -> Result<T>,
) -> Result<Stamped<T>> {
    with(app, Schedules::new(Arc::new(app.acting(who))), act).await
}

async fn with<T>(
    app: &App,
    schedules: Schedules,
    act: impl AsyncFnOnce(&Schedules) -> Result<T>,
) -> Result<Stamped<T>> {
    let Stamped { now, epoch, value: () } = app.call(app.engine.health()).await?;
    let value = app.in_time(act(&schedules), 0).await?;
    Ok(Stamped { now, epoch, value })
}

fn not_there(name: &str) -> Refusal {
    Error::missing("schedule", name, "GET /v1/schedules lists them").into()
}
