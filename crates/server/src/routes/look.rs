//! Looking at jobs, lanes, workers and the server itself.

use super::job_id;
use crate::app::App;
use crate::body::{Json, Path, Query};
use crate::reply::{Reply, json, stamped};
use axum::extract::State;
use http::StatusCode;
use std::time::Duration;
use windlass_core::Error;
use windlass_core::engine;
use windlass_wire as wire;

/// How long the store may take to prove that it is there.
const READY_WITHIN: Duration = Duration::from_secs(2);

/// `POST /v1/jobs/get`
pub(super) async fn get(State(app): State<App>, get: Json<wire::Get>) -> Reply {
    let reply = app.call(app.engine.get(get.value.into())).await?;
    Ok(stamped(reply.map(wire::Jobs::from)))
}

/// `GET /v1/jobs/{id}`
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

/// `GET /v1/jobs`
pub(super) async fn list(State(app): State<App>, Query(list): Query<wire::List>) -> Reply {
    let reply = app.call(app.engine.list(list.into())).await?;
    Ok(stamped(reply.map(wire::Page::from)))
}

/// `GET /v1/stats`
pub(super) async fn stats(State(app): State<App>, Query(query): Query<wire::StatsQuery>) -> Reply {
    let reply = app.call(app.engine.stats(query.into())).await?;
    Ok(stamped(reply.map(wire::Stats::from)))
}

/// `GET /v1/workers`
pub(super) async fn workers(State(app): State<App>) -> Reply {
    let reply = app.call(app.engine.sessions()).await?;
    Ok(stamped(reply.map(wire::Workers::from)))
}

/// `GET /v1/capabilities`
pub(super) async fn capabilities(State(app): State<App>) -> Reply {
    let mut capabilities = wire::Capabilities::from(app.engine.capabilities());
    capabilities.body_bytes_max = app.options.body_bytes_max;
    Ok(json(StatusCode::OK, &capabilities))
}

/// `GET /v1/health`
pub(super) async fn health(State(app): State<App>) -> Reply {
    let reply = app.call(app.engine.health()).await?;
    Ok(stamped(reply.map(|()| wire::Empty {})))
}

/// `GET /healthz`: the process lives, whatever the store does.
pub(super) async fn alive() -> Reply {
    Ok(json(StatusCode::OK, &wire::Empty {}))
}

/// `GET /readyz`: the store answers, and the server does not stop.
pub(super) async fn ready(State(app): State<App>) -> Reply {
    let unready = |reason: &str| Error::Unavailable {
        store: "this server".to_owned(),
        reason: reason.to_owned(),
    };
    if app.stopping.is_cancelled() {
        return Err(unready("it is stopping").into());
    }
    let health = tokio::time::timeout(READY_WITHIN, app.engine.health()).await;
    health.map_err(|_| unready("its store does not answer"))??;
    Ok(json(StatusCode::OK, &wire::Empty {}))
}
