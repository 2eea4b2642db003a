//! Routes for settings, records and maintenance.

use super::{merged, only};
use crate::access::Who;
use crate::app::App;
use crate::body::{Json, Path};
use crate::openapi::tag;
use crate::reply::{Reply, stamped};
use axum::extract::State;
use windlass_core::engine::{Admin as _, Configure, Maintain as _};
use windlass_wire as wire;
use windlass_wire::routes as paths;

/// Additional time for a check of the whole store, beyond the call timeout.
const CHECK_MS_MAX: u64 = 60 * 60 * 1_000;

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

/// Read and write records
///
/// Records are small versioned documents and bounded logs. Operations run in order.
#[utoipa::path(
    post, path = paths::RECORDS, tag = tag::STORE, operation_id = "records",
    request_body = wire::RecordBatch,
    responses(
        (status = 200, body = wire::openapi::RecordAnswerItems, description = "The result of each item."),
    ),
)]
pub(super) async fn records(
    State(app): State<App>,
    who: Who,
    batch: Json<wire::RecordBatch>,
) -> Reply {
    batch.value.check()?;
    let (mut items, mut bad) = (Vec::new(), Vec::new());
    for (index, item) in batch.value.items.into_iter().enumerate() {
        match item.into_core() {
            Ok(item) => items.push(item),
            Err(error) => bad.push((index, error)),
        }
    }
    let reply = app.call(app.acting(&who).records(items)).await?;
    let reply = reply.map(|answers| {
        let answers = answers.into_iter().map(|answer| answer.and_then(TryInto::try_into));
        wire::Items::new(merged(answers.collect(), bad), |reply| wire::RecordAnswer { reply })
    });
    Ok(stamped(reply))
}

/// Run one bounded step of maintenance
///
/// Usually unnecessary: the server hosts services that do this.
#[utoipa::path(
    post, path = paths::MAINTAIN, tag = tag::STORE, operation_id = "maintain",
    request_body = wire::Maintain,
    responses(
        (status = 200, body = wire::MaintainReply, description = "The work done."),
    ),
)]
pub(super) async fn maintain(
    State(app): State<App>,
    who: Who,
    step: Json<wire::Maintain>,
) -> Reply {
    let reply = app.call(app.acting(&who).maintain(step.value.into_core()?)).await?;
    Ok(stamped(reply.map(wire::MaintainReply::from)))
}

/// Check the whole store
///
/// Reads all data and may take long.
#[utoipa::path(
    post, path = paths::CHECK, tag = tag::STORE, operation_id = "check",
    request_body = wire::Check,
    responses(
        (status = 200, body = wire::CheckReport, description = "The problems found; empty if the store is consistent."),
    ),
)]
pub(super) async fn check(State(app): State<App>, who: Who, check: Json<wire::Check>) -> Reply {
    let reply = app.call_within(app.acting(&who).check(check.value.repair), CHECK_MS_MAX).await?;
    Ok(stamped(reply.map(wire::CheckReport::from)))
}
