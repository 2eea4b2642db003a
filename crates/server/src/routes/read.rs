//! Reads jobs, lanes, workers and the state of the server.

use super::job_id;
use crate::access::{Viewer, Who};
use crate::app::App;
use crate::body::{Json, ListQuery, Path, Query};
use crate::health::StoreHealth;
use crate::long_poll;
use crate::openapi::tag;
use crate::reply::{Reply, json, stamped};
use axum::extract::State;
use http::StatusCode;
use windlass_core::{Error, check_name, engine};
use windlass_services::explain;
use windlass_wire as wire;
use windlass_wire::routes as paths;

/// Get jobs by id
///
/// Includes only the parts named in `parts`.
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

/// Get one job
///
/// Includes all parts unless `parts` names some. With `wait_ms`, waits for the end of the job.
///
/// A key that may enqueue the kind of the job, but not view, gets its status: no parts, result, error, history and log.
#[utoipa::path(
    get, path = paths::JOB, tag = tag::JOBS, operation_id = "get_job",
    params(("id" = wire::openapi::JobId, Path, description = "The job."), wire::GetOne),
    responses(
        (status = 200, body = wire::Job, description = "The job."),
        (status = 404, description = "There is no such job, or its retention has ended."),
    ),
)]
pub(super) async fn get_one(
    State(app): State<App>,
    who: Who,
    Path(id): Path<String>,
    Query(query): Query<wire::GetOne>,
) -> Reply {
    let id = job_id(&id)?;
    let views = who.0.may().may_view();
    let parts = match views {
        true => query.parts()?,
        false if query.parts.is_some() => return Err(who.may_not("view").into()),
        false => Vec::new(),
    };
    let get = wire::Get { ids: vec![id], parts, queue_hint: query.queue_hint };
    let read = async || {
        let reply = app.call(app.engine.get(get.clone().into())).await?;
        let job = reply.value.into_iter().next().flatten();
        // For a producer, jobs of other kinds do not exist.
        let job = job.filter(|job| who.may_follow(&job.header.kind));
        let value = job.ok_or(Error::NotFound { id })?;
        Ok::<_, Error>(engine::Stamped { now: reply.now, epoch: reply.epoch, value })
    };
    if query.wait_ms > 0 && !views {
        // Checked before the wait, whose length would show whether the job exists.
        read().await?;
    }
    long_poll::ended(&app, &who, id, query.wait_ms).await?;
    let job = read().await?.map(wire::Job::from);
    Ok(stamped(job.map(|job| if views { job } else { job.status() })))
}

/// Explain why one job is not running
///
/// All causes of its state, in the order in which they must end before the job starts.
#[utoipa::path(
    get, path = paths::JOB_WHY, tag = tag::JOBS, operation_id = "explain_job",
    params(("id" = wire::openapi::JobId, Path, description = "The job.")),
    responses(
        (status = 200, body = wire::Explanation, description = "The explanation."),
        (status = 404, description = "There is no such job, or its retention has ended."),
    ),
)]
pub(super) async fn why(
    State(app): State<App>,
    Path(id): Path<String>,
    _: Query<wire::Nothing>,
) -> Reply {
    let id = job_id(&id)?;
    let reply = app.in_time(explain(&app.engine, id), 0).await?;
    Ok(stamped(reply.map(wire::Explanation::from)))
}

/// List jobs
///
/// Without parts, history and log. Sorted by the time that the list is about: the due time of `scheduled` jobs, the
/// start of `running` ones, the end of `completed`, `dead`, `cancelled` and `expired` ones, otherwise the enqueue.
///
/// Fields of the JSON in payload and metadata are parameters, too: `payload.customer=42`, `metadata.order.items.0=a`; at most
/// 8, all of which must match. A string matches by its content; numbers, `true`, `false` and `null` by their JSON text.
///
/// A page is filled, unless the list ends, or 10000 jobs or 32 MiB of parts were compared with the query or 100000 jobs of
/// others passed over (`cut_short`); only an absent `next` marks the end. Beside changes, a job that stays where it is appears exactly once.
#[utoipa::path(
    get, path = paths::JOBS, tag = tag::JOBS, operation_id = "list_jobs",
    params(wire::List),
    responses(
        (status = 200, body = wire::Page, description = "A page."),
    ),
)]
pub(super) async fn list(State(app): State<App>, ListQuery(list): ListQuery) -> Reply {
    let reply = app.call(app.engine.list(list.into())).await?;
    Ok(stamped(reply.map(wire::Page::from)))
}

/// Get statistics of lanes
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

/// List open sessions
///
/// In pages; only an absent `next` marks the end.
#[utoipa::path(
    get, path = paths::WORKERS, tag = tag::SETTINGS, operation_id = "workers",
    params(wire::PageQuery),
    responses(
        (status = 200, body = wire::Workers, description = "A page with one entry for each session."),
    ),
)]
pub(super) async fn workers(State(app): State<App>, Query(page): Query<wire::PageQuery>) -> Reply {
    let engine::Stamped { now, epoch, value } = app.call(app.engine.sessions()).await?;
    let mut all = wire::Workers::from(value).workers;
    all.sort_by(|a, b| a.session.as_str().cmp(b.session.as_str()));
    let (workers, next) = page.cut(all, |worker| worker.session.as_str())?;
    Ok(stamped(engine::Stamped { now, epoch, value: wire::Workers { workers, next } }))
}

/// Get the capabilities of the server and its engine
///
/// Clients check `protocol` once when they connect.
#[utoipa::path(
    get, path = paths::CAPABILITIES, tag = tag::SERVER, operation_id = "capabilities",
    responses(
        (status = 200, body = wire::Capabilities, description = "The capabilities."),
    ),
)]
pub(super) async fn capabilities(State(app): State<App>) -> Reply {
    let mut capabilities = wire::Capabilities::from(app.engine.capabilities());
    capabilities.body_bytes_max = app.limits().body_bytes_max;
    Ok(json(StatusCode::OK, &capabilities))
}

/// Check that the store answers
#[utoipa::path(
    get, path = paths::HEALTH, tag = tag::SERVER, operation_id = "health",
    responses(
        (status = 200, body = wire::Empty, description = "The store answers."),
    ),
)]
pub(super) async fn health(State(app): State<App>) -> Reply {
    let reply = app.call(app.engine.health()).await?;
    Ok(stamped(reply.map(|()| wire::Empty {})))
}

/// Liveness probe
///
/// Succeeds while the process runs, regardless of the store. Keys with the view permission see
/// details of the store; others see only whether it answers.
#[utoipa::path(
    get, path = paths::HEALTHZ, tag = tag::SERVER, operation_id = "alive",
    responses(
        (status = 200, body = wire::Alive, description = "The process is alive."),
    ),
)]
pub(super) async fn alive(State(app): State<App>, viewer: Viewer) -> Reply {
    let store = if viewer.0 { app.health.standing() } else { app.health.outline() };
    Ok(json(StatusCode::OK, &wire::Alive { store }))
}

/// Readiness probe
///
/// Succeeds if the store answers and accepts new jobs, and the server is not stopping.
#[utoipa::path(
    get, path = paths::READYZ, tag = tag::SERVER, operation_id = "ready",
    responses(
        (status = 200, body = wire::Alive, description = "The server is ready."),
        (status = 503, description = "The store does not answer, its disk is full, or the server is stopping."),
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
        false => Err(StoreHealth::unavailable().into()),
    }
}
