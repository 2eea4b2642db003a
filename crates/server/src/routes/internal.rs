//! Routes between parts of Windlass: the remote engine, its services and the command line. They may change with any
//! version, and the OpenAPI document does not contain them.

use super::merged;
use crate::access::Who;
use crate::app::App;
use crate::body::Json;
use crate::reply::{Reply, stamped};
use axum::Router;
use axum::extract::State;
use axum::routing::post;
use windlass_core::engine::{Admin as _, Maintain as _};
use windlass_wire as wire;
use windlass_wire::routes as paths;

/// Additional time for a check of the whole store, beyond the call timeout.
const CHECK_MS_MAX: u64 = 60 * 60 * 1_000;

/// All routes by method and path.
pub(crate) const ROUTES: &[(&str, &str)] =
    &[("post", paths::RECORDS), ("post", paths::MAINTAIN), ("post", paths::CHECK)];

/// The routes.
pub(super) fn router() -> Router<App> {
    Router::new()
        .route(paths::RECORDS, post(records))
        .route(paths::MAINTAIN, post(maintain))
        .route(paths::CHECK, post(check))
}

/// Reads and writes records.
///
/// Records are small versioned documents and bounded logs. Operations run in order.
async fn records(State(app): State<App>, who: Who, batch: Json<wire::RecordBatch>) -> Reply {
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

/// Runs one bounded step of maintenance.
async fn maintain(State(app): State<App>, who: Who, step: Json<wire::Maintain>) -> Reply {
    let reply = app.call(app.acting(&who).maintain(step.value.into_core()?)).await?;
    Ok(stamped(reply.map(wire::MaintainReply::from)))
}

/// Checks the whole store. Reads all data and may take long.
async fn check(State(app): State<App>, who: Who, check: Json<wire::Check>) -> Reply {
    let reply = app.call_within(app.acting(&who).check(check.value.repair), CHECK_MS_MAX).await?;
    Ok(stamped(reply.map(wire::CheckReport::from)))
}
