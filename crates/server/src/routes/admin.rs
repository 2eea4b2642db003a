//! Routes for settings.

use super::only;
use crate::access::Who;
use crate::app::App;
use crate::body::{Json, Path};
use crate::openapi::tag;
use crate::reply::{Reply, stamped};
use axum::extract::State;
use windlass_core::engine::{Admin as _, Configure};
use windlass_wire as wire;
use windlass_wire::routes as paths;

/// Settings that differ from the defaults
#[utoipa::path(
    get, path = paths::SETTINGS, tag = tag::SETTINGS, operation_id = "settings",
    responses(
        (status = 200, body = wire::Settings, description = "The settings."),
    ),
)]
pub(super) async fn settings(State(app): State<App>) -> Reply {
    let reply = app.call(app.engine.settings()).await?;
    Ok(stamped(reply.map(wire::Settings::from)))
}

/// Change many settings
#[utoipa::path(
    post, path = paths::SETTINGS, tag = tag::SETTINGS, operation_id = "configure",
    request_body = wire::ConfigureBatch,
    responses(
        (status = 200, body = wire::openapi::EmptyItems, description = "The result of each item."),
    ),
)]
pub(super) async fn configure(
    State(app): State<App>,
    who: Who,
    batch: Json<wire::ConfigureBatch>,
) -> Reply {
    let items = batch.value.items.into_iter().map(Into::into).collect();
    let reply = app.call(app.acting(&who).configure(items)).await?;
    Ok(stamped(reply.map(|answers| wire::Items::new(answers, |()| wire::Empty {}))))
}

/// Change the settings of a queue
///
/// Absent fields stay unchanged; `null` removes a limit.
#[utoipa::path(
    patch, path = paths::QUEUE, tag = tag::SETTINGS, operation_id = "configure_queue",
    request_body = wire::QueuePatch,
    params(("queue" = wire::openapi::Name, Path, description = "The queue; a `/` is written `%2F`.")),
    responses(
        (status = 200, body = wire::Empty, description = "Done."),
    ),
)]
pub(super) async fn configure_queue(
    State(app): State<App>,
    who: Who,
    Path(queue): Path<String>,
    patch: Json<wire::QueuePatch>,
) -> Reply {
    configure_one(&app, &who, Configure::queue(queue, patch.value.into())).await
}

/// Change the settings of a kind
///
/// Absent fields stay unchanged; `null` removes a limit.
#[utoipa::path(
    patch, path = paths::KIND, tag = tag::SETTINGS, operation_id = "configure_kind",
    request_body = wire::KindPatch,
    params(("kind" = wire::openapi::Name, Path, description = "The kind; a `/` is written `%2F`.")),
    responses(
        (status = 200, body = wire::Empty, description = "Done."),
    ),
)]
pub(super) async fn configure_kind(
    State(app): State<App>,
    who: Who,
    Path(kind): Path<String>,
    patch: Json<wire::KindPatch>,
) -> Reply {
    configure_one(&app, &who, Configure::kind(kind, patch.value.into())).await
}

async fn configure_one(app: &App, who: &Who, change: Configure) -> Reply {
    let mut reply = app.call(app.acting(who).configure(vec![change])).await?;
    only(std::mem::take(&mut reply.value))?;
    Ok(stamped(reply.map(|_| wire::Empty {})))
}
