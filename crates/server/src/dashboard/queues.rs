//! `/queues`: all queues, sorted by name.

use super::failure::Failure;
use super::links;
use super::page::{Page, Section};
use super::queue_row::{QueueRow, queues};
use super::throughput::Throughput;
use super::visit::Visit;
use crate::app::App;
use askama::Template;
use axum::extract::State;
use axum::response::Response;
use windlass_core::engine::StatsRequest;

/// Queues per page.
const ROWS_MAX: usize = 100;

#[derive(Template)]
#[template(path = "queues.html")]
struct Queues {
    queues: Vec<QueueRow>,
    /// Number of all queues.
    count: usize,
    /// Number of queues that match the filter.
    found: usize,
    find: String,
    /// Number of the first displayed queue, from 1.
    from: usize,
    to: usize,
    previous: Option<String>,
    next: Option<String>,
}

/// `GET /queues`
pub(super) async fn show(State(app): State<App>, visit: Visit) -> Result<Response, Failure> {
    let stats = app.call(app.engine.stats(StatsRequest::default())).await?;
    let settings = app.call(app.engine.settings()).await?.value;
    let clock = visit.clock(stats.now);
    let find = visit.param("find").unwrap_or_default().to_owned();
    let all = queues(&stats.value, &settings);
    let count = all.len();
    let wanted = find.to_lowercase();
    let passing: Vec<_> =
        all.into_iter().filter(|(name, _)| name.to_lowercase().contains(&wanted)).collect();

    let found = passing.len();
    let last = found.saturating_sub(1) / ROWS_MAX;
    let page = visit.param("page").and_then(|page| page.parse().ok()).unwrap_or(0).min(last);
    let link = |page: usize| {
        let number = page.to_string();
        let number = (page > 0).then_some(&*number);
        links::with("/queues", &[("find", visit.param("find")), ("page", number)])
    };
    let shown = passing.iter().skip(page * ROWS_MAX).take(ROWS_MAX);
    let flow = Throughput::read(&app, stats.now).await;
    let rows: Vec<_> =
        shown.map(|(name, queue)| QueueRow::new(name, *queue, &flow, clock)).collect();
    let content = Queues {
        count,
        found,
        find,
        from: page * ROWS_MAX + 1,
        to: page * ROWS_MAX + rows.len(),
        previous: (page > 0).then(|| link(page - 1)),
        next: (page < last).then(|| link(page + 1)),
        queues: rows,
    };
    Ok(Page::new(&visit, Section::Queues, "Queues", stats.now).respond(&content))
}
