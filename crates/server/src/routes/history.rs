//! The history of removed and expired jobs.

use crate::app::App;
use crate::body::Query;
use crate::openapi::tag;
use crate::reply::{Reply, stamped};
use axum::extract::State;
use windlass_core::Timestamp;
use windlass_core::limits::PAGE_MAX;
use windlass_core::within_range;
use windlass_services::{History, HistoryPlace};
use windlass_wire as wire;
use windlass_wire::routes as paths;

/// List removed and expired jobs
///
/// Counts per queue, oldest first. A page may be short or even empty; only an absent `next` marks
/// the end.
#[utoipa::path(
    get, path = paths::HISTORY, tag = tag::STORE, operation_id = "history",
    params(wire::HistoryQuery),
    responses(
        (status = 200, body = wire::HistoryPage, description = "A page."),
    ),
)]
pub(super) async fn read(State(app): State<App>, Query(query): Query<wire::HistoryQuery>) -> Reply {
    let limit = query.limit();
    within_range("limit", limit.into(), 1..=PAGE_MAX.into())?;
    let history = History::new(app.engine.clone());
    let page = async {
        let place = match &query.after {
            Some(cursor) => HistoryPlace::at(cursor)?,
            None => history.since(query.from.unwrap_or(Timestamp::EPOCH)).await?,
        };
        history.read(place, limit).await
    };
    let page = app.in_time(page, 0).await?;
    let passes = |queue: &str| query.queue.as_ref().is_none_or(|wanted| **wanted == *queue);
    let rows = page.rows.into_iter().filter(|row| passes(&row.queue));
    let rows = rows.map(|row| wire::HistoryRow {
        at: row.at,
        queue: row.queue,
        from: row.from,
        to: row.to,
        count: row.count,
    });
    let page =
        wire::HistoryPage { rows: rows.collect(), next: page.next.map(|place| place.cursor()) };
    Ok(stamped(app.call(app.engine.health()).await?.map(|()| page)))
}
