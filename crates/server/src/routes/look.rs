//! Looking at jobs, lanes, workers and the server itself.

use super::job_id;
use crate::access::Viewer;
use crate::app::App;
use crate::body::{Json, Path, Query};
use crate::health::StoreHealth;
use crate::openapi::tag;
use crate::reply::{Reply, json, stamped};
use axum::extract::State;
use http::StatusCode;
use windlass_core::{Error, check_name, engine};
use windlass_wire as wire;
use windlass_wire::routes as paths;

/// Look at jobs by their ids
///
/// No parts unless named.
#[utoipa::path(
    post, path = paths::JOBS_GET, tag = tag::JOBS, operation_id = "get_jobs",
    request_body = wire::Get,
    responses(
        (status = 200, body = wire::Jobs, description = "The jobs in order, `null` for those that do not exist."),
    ),
)]
pub(super) async fn get(State(app): State<App>, get: Json<wire::Get>) -> Reply {
    let reply = app.call(app.engine.get(get.value.into())).await?;
    Ok(stamped(reply.map(wire::Jobs::from)))
}

/// Look at one job
///
/// All parts unless named.
#[utoipa::path(
    get, path = paths::JOB, tag = tag::JOBS, operation_id = "get_job",
    params(("id" = wire::openapi::JobId, Path, description = "The job."), wire::GetOne),
    responses(
        (status = 200, body = wire::Job, description = "The job."),
        (status = 404, description = "There is no such job, or it is past its retention."),
    ),
)]
pub(super) async fn get_one(
    State(app): State<App>,
    Path(id): Path<String>,
    Query(query): Query<wire::GetOne>,
) -> Reply {
    let id = job_id(&id)?;
    let get = wire::Get { ids: vec![id], parts: query.parts()? };
    let reply = app.call(app.engine.get(get.into())).await?;
    let job = reply.value.into_iter().next().flatten().ok_or(Error::NotFound { id })?;
    let value = wire::Job::from(job);
    Ok(stamped(engine::Stamped { now: reply.now, epoch: reply.epoch, value }))
}

/// List jobs
///
/// Without parts, history and log. A page may be short, even empty; only an absent `next` is the end.
#[utoipa::path(
    get, path = paths::JOBS, tag = tag::JOBS, operation_id = "list_jobs",
    params(wire::List),
    responses(
        (status = 200, body = wire::Page, description = "A page."),
    ),
)]
pub(super) async fn list(State(app): State<App>, Query(list): Query<wire::List>) -> Reply {
    let reply = app.call(app.engine.list(list.into())).await?;
    Ok(stamped(reply.map(wire::Page::from)))
}

/// Lanes in numbers
#[utoipa::path(
    get, path = paths::STATS, tag = tag::SETTINGS, operation_id = "stats",
    params(wire::StatsQuery),
    responses(
        (status = 200, body = wire::Stats, description = "The lanes."),
    ),
)]
pub(super) async fn stats(State(app): State<App>, Query(query): Query<wire::StatsQuery>) -> Reply {
    if let Some(queue) = &query.queue {
        check_name("queue", queue)?;
    }
    let reply = app.call(app.engine.stats(query.into())).await?;
    Ok(stamped(reply.map(wire::Stats::from)))
}

/// Open sessions
#[utoipa::path(
    get, path = paths::WORKERS, tag = tag::SETTINGS, operation_id = "workers",
    responses(
        (status = 200, body = wire::Workers, description = "One for each."),
    ),
)]
pub(super) async fn workers(State(app): State<App>) -> Reply {
    let reply = app.call(app.engine.sessions()).await?;
    Ok(stamped(reply.map(wire::Workers::from)))
}

/// What the server and its engine can do
///
/// A client checks `protocol` once when it connects.
#[utoipa::path(
    get, path = paths::CAPABILITIES, tag = tag::SERVER, operation_id = "capabilities",
    responses(
        (status = 200, body = wire::Capabilities, description = "What they can do."),
    ),
)]
pub(super) async fn capabilities(State(app): State<App>) -> Reply {
    let mut capabilities = wire::Capabilities::from(app.engine.capabilities());
    capabilities.body_bytes_max = app.limits().body_bytes_max;
    Ok(json(StatusCode::OK, &capabilities))
}

/// Whether the store answers
#[utoipa::path(
    get, path = paths::HEALTH, tag = tag::SERVER, operation_id = "health",
    responses(
        (status = 200, body = wire::Empty, description = "It does."),
    ),
)]
pub(super) async fn health(State(app): State<App>) -> Reply {
    let reply = app.call(app.engine.health()).await?;
    Ok(stamped(reply.map(|()| wire::Empty {})))
}

/// Whether the process lives
///
/// Whatever the store does. What is known of the store is told to keys that may view; others learn whether
/// it answers.
#[utoipa::path(
    get, path = paths::HEALTHZ, tag = tag::SERVER, operation_id = "alive",
    responses(
        (status = 200, body = wire::Alive, description = "It does."),
    ),
)]
pub(super) async fn alive(State(app): State<App>, viewer: Viewer) -> Reply {
    let store = if viewer.0 { app.health.standing() } else { app.health.outline() };
    Ok(json(StatusCode::OK, &wire::Alive { store }))
}

/// Whether the server can serve
///
/// The store answers and takes new jobs, and the server does not stop.
#[utoipa::path(
    get, path = paths::READYZ, tag = tag::SERVER, operation_id = "ready",
    responses(
        (status = 200, body = wire::Alive, description = "It can."),
        (status = 503, description = "Its store is away or its disk is full, or it is stopping."),
    ),
)]
pub(super) async fn ready(State(app): State<App>, viewer: Viewer) -> Reply {
    if app.stopping.is_cancelled() {
        let (store, reason) = ("this server".to_owned(), "it is stopping".to_owned());
        return Err(Error::Unavailable { store, reason }.into());
    }
    match app.health.ask(&*app.engine).await {
        true => match app.health.full(viewer.0) {
            Some(full) => Err(full.into()),
            None => alive(State(app), viewer).await,
        },
        false if viewer.0 => Err(app.health.away().into()),
        false => Err(StoreHealth::away_untold().into()),
    }
}
