//! Changes of all jobs that match a filter. The services run them; see `windlass_services::Bulks`.

use crate::access::Who;
use crate::app::App;
use crate::body::{Json, Path, Query};
use crate::documents;
use crate::openapi::tag;
use crate::reply::{Refusal, Reply, stamped};
use axum::extract::State;
use std::sync::Arc;
use windlass_core::{Error, Result};
use windlass_services::{BulkChange, Bulks, NewBulk};
use windlass_wire as wire;
use windlass_wire::routes as paths;

/// Change all jobs that match a filter
///
/// Returns at once; the services of the store count the jobs and then change them in steps of 500. `GET /v1/bulk/{id}`
/// shows the progress. Jobs enqueued after the start are not changed.
#[utoipa::path(
    post, path = paths::BULKS, tag = tag::JOBS, operation_id = "start_bulk",
    request_body = wire::NewBulk,
    responses(
        (status = 200, body = wire::Bulk, description = "The operation."),
    ),
)]
pub(super) async fn start(State(app): State<App>, who: Who, request: Json<wire::NewBulk>) -> Reply {
    let new = new(request.value)?.by(who.0.name());
    let bulks = Bulks::new(Arc::new(app.acting(&who)));
    let bulk = app.in_time(bulks.start(new), 0).await?;
    answer(&app, documents::bulk(bulk)).await
}

/// List bulk operations
///
/// The last 100, the oldest first.
#[utoipa::path(
    get, path = paths::BULKS, tag = tag::JOBS, operation_id = "list_bulks",
    responses(
        (status = 200, body = wire::Bulks, description = "The operations."),
    ),
)]
pub(super) async fn list(State(app): State<App>, _: Query<wire::Nothing>) -> Reply {
    let bulks = app.in_time(Bulks::new(app.engine.clone()).all(), 0).await?;
    answer(&app, wire::Bulks { bulks: bulks.into_iter().map(documents::bulk).collect() }).await
}

/// Get a bulk operation with its progress
#[utoipa::path(
    get, path = paths::BULK, tag = tag::JOBS, operation_id = "get_bulk",
    params(("id" = wire::openapi::JobId, Path, description = "The operation.")),
    responses(
        (status = 200, body = wire::Bulk, description = "The operation."),
        (status = 404, description = "There is no such operation."),
    ),
)]
pub(super) async fn get(
    State(app): State<App>,
    Path(id): Path<String>,
    _: Query<wire::Nothing>,
) -> Reply {
    let found = app.in_time(Bulks::new(app.engine.clone()).get(&id), 0).await?;
    answer(&app, documents::bulk(found.ok_or_else(|| not_there(&id))?)).await
}

/// Cancel a bulk operation
///
/// It changes no further jobs; those changed until then stay changed.
#[utoipa::path(
    post, path = paths::BULK_CANCEL, tag = tag::JOBS, operation_id = "cancel_bulk",
    request_body = wire::Nothing,
    params(("id" = wire::openapi::JobId, Path, description = "The operation.")),
    responses(
        (status = 200, body = wire::Bulk, description = "The operation."),
        (status = 404, description = "There is no such operation."),
    ),
)]
pub(super) async fn cancel(
    State(app): State<App>,
    who: Who,
    Path(id): Path<String>,
    _: Json<wire::Nothing>,
) -> Reply {
    let bulks = Bulks::new(Arc::new(app.acting(&who)));
    let bulk = app.in_time(bulks.cancel(&id), 0).await?;
    answer(&app, documents::bulk(bulk)).await
}

async fn answer(app: &App, value: impl serde::Serialize) -> Reply {
    Ok(stamped(app.call(app.engine.health()).await?.map(|()| value)))
}

fn not_there(id: &str) -> Refusal {
    Error::missing("bulk operation", id, "GET /v1/bulk lists them").into()
}

/// Converts the request; refuses members that its change does not use.
fn new(request: wire::NewBulk) -> Result<NewBulk> {
    let wire::NewBulk { filter, change, priority, queue, run_at, start_over, confirm, dry_run } =
        request;
    let filter = filter.into_core().map_err(|error| error.within("filter"))?;
    only(change, wire::BulkChange::Reprioritise, "priority", priority.is_some())?;
    only(change, wire::BulkChange::Move, "queue", queue.is_some())?;
    only(change, wire::BulkChange::Reschedule, "run_at", run_at.is_some())?;
    only(change, wire::BulkChange::Replay, "start_over", start_over.is_some())?;
    let change = match change {
        wire::BulkChange::Cancel => BulkChange::Cancel,
        wire::BulkChange::Kill => BulkChange::Kill,
        wire::BulkChange::Promote => BulkChange::Promote,
        wire::BulkChange::Pause => BulkChange::Pause,
        wire::BulkChange::Resume => BulkChange::Resume,
        wire::BulkChange::Discard => BulkChange::Discard,
        wire::BulkChange::Reschedule => {
            BulkChange::Reschedule { run_at: needed("run_at", run_at)? }
        }
        wire::BulkChange::Reprioritise => {
            BulkChange::Reprioritise { priority: needed("priority", priority)? }
        }
        wire::BulkChange::Move => BulkChange::Move { queue: needed("queue", queue)? },
        wire::BulkChange::Replay => {
            let start_over = start_over.unwrap_or_default();
            return Ok(
                NewBulk::new(filter, BulkChange::Replay { start_over, confirm }).dry_run(dry_run)
            );
        }
        wire::BulkChange::Purge => {
            // The most destructive change must name its queue twice.
            if !dry_run && (confirm.is_none() || confirm != filter.queue) {
                let expected =
                    "a purge needs a queue in its filter, and the name of that queue here";
                let confirm = confirm.as_deref().unwrap_or("missing");
                return Err(Error::invalid("confirm", confirm, expected));
            }
            return Ok(NewBulk::new(filter, BulkChange::Purge).dry_run(dry_run));
        }
    };
    if let Some(confirm) = confirm {
        let expected = "only `replay` and `purge` have a confirmation: omit it";
        return Err(Error::invalid("confirm", confirm, expected));
    }
    Ok(NewBulk::new(filter, change).dry_run(dry_run))
}

fn needed<T>(field: &'static str, value: Option<T>) -> Result<T> {
    value.ok_or_else(|| Error::invalid(field, "missing", "the change needs it"))
}

fn only(
    change: wire::BulkChange,
    user: wire::BulkChange,
    field: &'static str,
    is_given: bool,
) -> Result<()> {
    match is_given && change != user {
        true => Err(Error::invalid(field, "given", "another change has it: omit it")),
        false => Ok(()),
    }
}
