//! Routes for limits.

use super::only;
use crate::access::Who;
use crate::app::App;
use crate::body::{Json, Path, Query};
use crate::openapi::tag;
use crate::reply::{Reply, stamped};
use axum::extract::State;
use windlass_core::engine::{Admin as _, Configure, Stamped};
use windlass_core::{Error, Result};
use windlass_wire as wire;
use windlass_wire::routes as paths;

/// List limits
///
/// In pages; only an absent `next` marks the end.
#[utoipa::path(
    get, path = paths::LIMITS, tag = tag::SETTINGS, operation_id = "list_limits",
    params(wire::PageQuery),
    responses(
        (status = 200, body = wire::Limits, description = "A page of limits, by name, with their jobs."),
    ),
)]
pub(super) async fn list(State(app): State<App>, Query(page): Query<wire::PageQuery>) -> Reply {
    let Stamped { now, epoch, value } = views(&app).await?;
    let (limits, next) = page.cut(value, |limit| &limit.name)?;
    Ok(stamped(Stamped { now, epoch, value: wire::Limits { limits, next } }))
}

async fn views(app: &App) -> Result<Stamped<Vec<wire::LimitView>>> {
    let settings = app.call(app.engine.settings()).await?.value;
    let stats = app.call(app.engine.limits()).await?;
    Ok(stats.map(|stats| wire::LimitView::all(settings, stats)))
}

/// Return one limit
#[utoipa::path(
    get, path = paths::LIMIT, tag = tag::SETTINGS, operation_id = "get_limit",
    params(("limit" = wire::openapi::Name, Path, description = "The limit; a `/` is written `%2F`.")),
    responses(
        (status = 200, body = wire::LimitView, description = "The limit."),
    ),
)]
pub(super) async fn get(State(app): State<App>, Path(name): Path<String>) -> Reply {
    let Stamped { now, epoch, value } = views(&app).await?;
    let found = value.into_iter().find(|limit| *limit.name == *name);
    let value = found.ok_or_else(|| not_there(&name))?;
    Ok(stamped(Stamped { now, epoch, value }))
}

/// Create or replace a limit
///
/// In effect at once, in every process. Running jobs are never stopped.
#[utoipa::path(
    put, path = paths::LIMIT, tag = tag::SETTINGS, operation_id = "put_limit",
    request_body = wire::Limit,
    params(("limit" = wire::openapi::Name, Path, description = "The limit; a `/` is written `%2F`.")),
    responses(
        (status = 200, body = wire::Empty, description = "Done."),
    ),
)]
pub(super) async fn put(
    State(app): State<App>,
    who: Who,
    Path(name): Path<String>,
    limit: Json<wire::Limit>,
) -> Reply {
    configure(&app, &who, Configure::limit(name, limit.value.into())).await
}

/// Remove a limit
///
/// Refused while a queue or a kind lists it.
#[utoipa::path(
    delete, path = paths::LIMIT, tag = tag::SETTINGS, operation_id = "remove_limit",
    params(("limit" = wire::openapi::Name, Path, description = "The limit; a `/` is written `%2F`.")),
    responses(
        (status = 200, body = wire::Empty, description = "Done."),
    ),
)]
pub(super) async fn remove(State(app): State<App>, who: Who, Path(name): Path<String>) -> Reply {
    if !views(&app).await?.value.iter().any(|limit| *limit.name == *name) {
        return Err(not_there(&name).into());
    }
    configure(&app, &who, Configure::remove_limit(name)).await
}

fn not_there(name: &str) -> Error {
    Error::missing("limit", name, "GET /v1/limits lists them; PUT creates it")
}

async fn configure(app: &App, who: &Who, change: Configure) -> Reply {
    let mut reply = app.call(app.acting(who).configure(vec![change])).await?;
    only(std::mem::take(&mut reply.value))?;
    Ok(stamped(reply.map(|_| wire::Empty {})))
}

/// Take tokens of a limit
///
/// For programs that share the rate of a limit with jobs. Answers at once: with the tokens, or with the time at which
/// they will be there.
#[utoipa::path(
    post, path = paths::LIMIT_TAKE, tag = tag::WORK, operation_id = "take_tokens",
    request_body = wire::Take,
    params(("limit" = wire::openapi::Name, Path, description = "The limit; a `/` is written `%2F`.")),
    responses(
        (status = 200, body = wire::Took, description = "Whether the tokens were taken."),
    ),
)]
pub(super) async fn take(
    State(app): State<App>,
    Path(name): Path<String>,
    request: Json<wire::Take>,
) -> Reply {
    let request = request.value.into_core(name.into());
    let reply = app.call(app.engine.take(request)).await?;
    Ok(stamped(reply.map(wire::Took::from)))
}
