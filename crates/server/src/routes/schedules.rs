//! Schedules: recurring jobs by name. When they fire is the business of the services.

use crate::app::App;
use crate::body::{Json, Path, Query};
use crate::reply::{Refusal, Reply, stamped, stamped_with};
use axum::extract::State;
use axum::routing::{MethodRouter, get as at_get};
use http::StatusCode;
use windlass_core::engine::Stamped;
use windlass_core::{Error, Result};
use windlass_services::{ScheduleView, Schedules};
use windlass_wire as wire;

/// What can be done with one schedule.
pub(super) fn one() -> MethodRouter<App> {
    at_get(get).put(put).patch(patch).delete(remove)
}

/// `GET /v1/schedules`
pub(super) async fn list(State(app): State<App>, Query(query): Query<wire::ScheduleList>) -> Reply {
    let limit = query.limit();
    let reply = on(&app, async |schedules: &Schedules| schedules.list(query.after, limit).await);
    Ok(stamped(reply.await?.map(|page| wire::SchedulePage {
        schedules: page.rows.into_iter().map(view).collect(),
        unreadable: page.unreadable,
        next: page.next,
    })))
}

/// `GET /v1/schedules/{name}`
async fn get(State(app): State<App>, Path(name): Path<String>, _: Query<wire::Nothing>) -> Reply {
    let reply = on(&app, async |schedules: &Schedules| schedules.get(&name).await).await?;
    let Stamped { now, epoch, value } = reply;
    let value = view(value.ok_or_else(|| not_there(&name))?);
    Ok(stamped(Stamped { now, epoch, value }))
}

/// `PUT /v1/schedules/{name}`
async fn put(
    State(app): State<App>,
    Path(name): Path<String>,
    request: Json<wire::PutSchedule>,
) -> Reply {
    let (schedule, job) = request.value.into_core()?;
    let reply = on(&app, async |schedules: &Schedules| schedules.put(&name, schedule, job).await);
    Ok(stamped(reply.await?.map(view)))
}

/// `PATCH /v1/schedules/{name}`
async fn patch(
    State(app): State<App>,
    Path(name): Path<String>,
    patch: Json<wire::SchedulePatch>,
) -> Reply {
    let reply = on(&app, async |schedules: &Schedules| match patch.value.paused {
        true => schedules.pause(&name).await,
        false => schedules.resume(&name).await,
    });
    let reply = there(&app, &name, reply.await).await?;
    Ok(stamped(reply.map(view)))
}

/// `DELETE /v1/schedules/{name}`
async fn remove(
    State(app): State<App>,
    Path(name): Path<String>,
    _: Query<wire::Nothing>,
) -> Reply {
    let reply = on(&app, async |schedules: &Schedules| schedules.remove(&name).await).await?;
    if !reply.value {
        return Err(not_there(&name));
    }
    Ok(stamped(reply.map(|_| wire::Empty {})))
}

/// `POST /v1/schedules/{name}/trigger`
pub(super) async fn trigger(
    State(app): State<App>,
    Path(name): Path<String>,
    _: Json<wire::Nothing>,
) -> Reply {
    let reply = on(&app, async |schedules: &Schedules| schedules.trigger(&name).await).await;
    let reply = there(&app, &name, reply).await?.map(wire::Enqueued::from);
    let status = if reply.value.is_new() { StatusCode::CREATED } else { StatusCode::OK };
    Ok(stamped_with(status, reply))
}

/// Does something with the schedules, in time, and stamps the answer.
async fn on<T>(app: &App, act: impl AsyncFnOnce(&Schedules) -> Result<T>) -> Result<Stamped<T>> {
    let Stamped { now, epoch, value: () } = app.call(app.engine.health()).await?;
    let schedules = Schedules::new(app.engine.clone());
    let value = app.in_time(act(&schedules), 0).await?;
    Ok(Stamped { now, epoch, value })
}

/// An answer about a schedule that must be there: the service cannot tell a name that nobody uses from
/// one that nobody can.
async fn there<T>(app: &App, name: &str, answer: Result<T>) -> Result<T, Refusal> {
    match answer {
        Err(error) if error.field() == Some("name") => {
            match on(app, async |schedules: &Schedules| schedules.get(name).await).await {
                Ok(Stamped { value: None, .. }) => Err(not_there(name)),
                _ => Err(error.into()),
            }
        }
        answer => answer.map_err(Refusal::from),
    }
}

fn not_there(name: &str) -> Refusal {
    let expected = "there is no such schedule; list them at /v1/schedules, or put it first";
    Refusal::with(StatusCode::NOT_FOUND, Error::invalid("name", name, expected))
}

fn view(schedule: ScheduleView) -> wire::ScheduleView {
    wire::ScheduleView {
        name: schedule.name,
        schedule: schedule.schedule.into(),
        job: schedule.job.into(),
        paused: schedule.paused,
        next: schedule.next,
        last_fire: schedule.last_fire,
        fired: schedule.fired,
        refused: schedule.refused,
        last_error: schedule
            .last_error
            .map(|error| wire::ScheduleError { at: error.at, message: error.message }),
    }
}
