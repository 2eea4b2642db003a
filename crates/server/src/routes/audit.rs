//! The audit log route.

use crate::app::App;
use crate::body::Query;
use crate::documents::action;
use crate::openapi::tag;
use crate::reply::{Reply, stamped};
use axum::extract::State;
use windlass_core::engine::Cursor;
use windlass_services::AuditQuery;
use windlass_wire as wire;
use windlass_wire::routes as paths;

/// List audit entries
///
/// Newest first. A page may be short or even empty; only an absent `next` marks the end.
#[utoipa::path(
    get, path = paths::AUDIT, tag = tag::STORE, operation_id = "audit",
    params(wire::AuditList),
    responses(
        (status = 200, body = wire::AuditPage, description = "A page."),
    ),
)]
pub(super) async fn list(State(app): State<App>, Query(list): Query<wire::AuditList>) -> Reply {
    let query = query(list);
    let reply = app.in_time(app.audit.read(&query), 0).await?;
    Ok(stamped(reply.map(|page| wire::AuditPage {
        actions: page.rows.into_iter().map(action).collect(),
        next: page.next.map(Cursor::new),
    })))
}

fn query(list: wire::AuditList) -> AuditQuery {
    let mut query = AuditQuery::default();
    query.limit = list.limit();
    query.after = list.after.map(|after| after.as_str().to_owned());
    (query.who, query.action, query.target) = (list.who, list.action, list.target);
    (query.from, query.until) = (list.from, list.until);
    query
}
