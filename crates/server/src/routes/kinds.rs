//! Kinds: their settings, statistics, rules and circuit breakers.

use crate::access::Who;
use crate::app::App;
use crate::body::{Json, Path, Query};
use crate::documents;
use crate::openapi::tag;
use crate::reply::{Reply, stamped};
use axum::extract::State;
use std::sync::Arc;
use windlass_core::engine::Stamped;
use windlass_core::{Error, check_name};
use windlass_services::Kinds;
use windlass_wire as wire;
use windlass_wire::routes as paths;

/// List kinds
///
/// All kinds with jobs, settings or rules, in pages; only an absent `next` marks the end.
#[utoipa::path(
    get, path = paths::KINDS, tag = tag::SETTINGS, operation_id = "list_kinds",
    params(wire::PageQuery),
    responses(
        (status = 200, body = wire::Kinds, description = "A page of kinds, by name."),
    ),
)]
pub(super) async fn list(State(app): State<App>, Query(page): Query<wire::PageQuery>) -> Reply {
    let Stamped { now, epoch, value } = app.in_time(documents::kinds(&app.engine), 0).await?;
    let (kinds, next) = page.cut(value, |kind| &kind.overview.name)?;
    Ok(stamped(Stamped { now, epoch, value: wire::Kinds { kinds, next } }))
}

/// Get a kind
///
/// Statistics cover all queues. An unused kind has zeros and default settings.
#[utoipa::path(
    get, path = paths::KIND, tag = tag::SETTINGS, operation_id = "get_kind",
    params(("kind" = wire::openapi::Name, Path, description = "The kind; a `/` is written `%2F`.")),
    responses(
        (status = 200, body = wire::openapi::KindOverview, description = "The kind."),
    ),
)]
pub(super) async fn get(
    State(app): State<App>,
    Path(kind): Path<String>,
    _: Query<wire::Nothing>,
) -> Reply {
    check_name("kind", &kind)?;
    Ok(stamped(app.in_time(documents::kind(&app.engine, kind.into()), 0).await?))
}

/// Register a kind
///
/// Replaces all rules of the kind. They apply here at once, and on other servers within about a
/// second.
#[utoipa::path(
    put, path = paths::KIND, tag = tag::SETTINGS, operation_id = "register_kind",
    request_body = wire::KindRules,
    params(("kind" = wire::openapi::Name, Path, description = "The kind; a `/` is written `%2F`.")),
    responses(
        (status = 200, body = wire::KindRules, description = "The current rules."),
    ),
)]
pub(super) async fn put(
    State(app): State<App>,
    who: Who,
    Path(kind): Path<String>,
    rules: Json<wire::KindRules>,
) -> Reply {
    let rules = rules.value.into_core();
    if let Some(schema) = &rules.schema {
        crate::check_schema(schema)?;
    }
    app.in_time(Kinds::new(Arc::new(app.acting(&who))).put(&kind, &rules), 0).await?;
    app.registry.forget();
    answer(&app, wire::KindRules::from(rules)).await
}

/// Unregister a kind
///
/// Removes its rules. Its jobs stay.
#[utoipa::path(
    delete, path = paths::KIND, tag = tag::SETTINGS, operation_id = "unregister_kind",
    params(("kind" = wire::openapi::Name, Path, description = "The kind; a `/` is written `%2F`.")),
    responses(
        (status = 200, body = wire::Empty, description = "The rules are removed."),
        (status = 404, description = "The kind is not registered."),
    ),
)]
pub(super) async fn remove(
    State(app): State<App>,
    who: Who,
    Path(kind): Path<String>,
    _: Query<wire::Nothing>,
) -> Reply {
    let was = app.in_time(Kinds::new(Arc::new(app.acting(&who))).remove(&kind), 0).await?;
    app.registry.forget();
    if !was {
        return Err(Error::missing("registered kind", kind, "GET /v1/kinds lists them").into());
    }
    answer(&app, wire::Empty {}).await
}

/// Adds the store's time and epoch to an answer.
async fn answer<T: serde::Serialize>(app: &App, value: T) -> Reply {
    let Stamped { now, epoch, .. } = app.call(app.engine.health()).await?;
    Ok(stamped(Stamped { now, epoch, value }))
}
