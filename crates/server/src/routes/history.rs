//! The history of removed jobs.

use crate::app::App;
use crate::body::Query;
use crate::openapi::tag;
use crate::reply::{Reply, stamped};
use axum::extract::State;
use windlass_wire as wire;
use windlass_wire::routes as paths;

/// List removed jobs
///
/// Counts by hour of removal, queue, kind, tenant and outcome, oldest hour first. Every removal is
/// counted in the same atomic step, whether by retention or by an operator. Only an absent `next` marks
/// the end.
#[utoipa::path(
    get, path = paths::HISTORY, tag = tag::STORE, operation_id = "history",
    params(wire::HistoryQuery),
    responses(
        (status = 200, body = wire::HistoryPage, description = "A page."),
    ),
)]
pub(super) async fn read(State(app): State<App>, Query(query): Query<wire::HistoryQuery>) -> Reply {
    let reply = app.call(app.engine.removed(query.into())).await?;
    Ok(stamped(reply.map(wire::HistoryPage::from)))
}
