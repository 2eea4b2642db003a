//! `/workers`: open sessions.

use super::failure::Failure;
use super::format::{Clock, Count, Time};
use super::page::{Page, Section};
use super::visit::Visit;
use crate::app::App;
use askama::Template;
use axum::extract::State;
use axum::response::Response;
use std::cmp::Reverse;
use windlass_core::engine::SessionInfo;
use windlass_core::model::Name;

/// Maximum number of workers, busiest first.
const ROWS_MAX: usize = 200;
/// Maximum number of queues or kinds that a row lists.
const NAMES_MAX: usize = 5;

/// A session, as a table row.
#[derive(Debug)]
pub(super) struct WorkerRow {
    pub(super) worker: String,
    pub(super) host: String,
    pub(super) queues: String,
    pub(super) kinds: String,
    pub(super) version: String,
    pub(super) concurrency: Option<u32>,
    pub(super) running: Count,
    pub(super) opened: Time,
    pub(super) expires: Time,
}

impl WorkerRow {
    pub(super) fn new(session: &SessionInfo, clock: Clock) -> Self {
        let info = &session.info;
        Self {
            worker: session.worker.clone(),
            host: info.host.clone().unwrap_or_default(),
            queues: names(&info.queues),
            kinds: names(&info.kinds),
            version: info.version.clone().unwrap_or_default(),
            concurrency: info.concurrency,
            running: Count(session.running),
            opened: clock.ago(session.opened_at),
            expires: clock.ago(session.expires_at),
        }
    }
}

/// The first names of a list, and the number of the others.
fn names(names: &[Name]) -> String {
    let shown: Vec<&str> = names.iter().take(NAMES_MAX).map(|name| &**name).collect();
    let others = names.len() - shown.len();
    let more = if others > 0 { format!(" and {others} more") } else { String::new() };
    format!("{}{more}", shown.join(", "))
}

#[derive(Template)]
#[template(path = "workers.html")]
struct Workers {
    workers: Vec<WorkerRow>,
    count: usize,
}

/// `GET /workers`
pub(super) async fn show(State(app): State<App>, visit: Visit) -> Result<Response, Failure> {
    let sessions = app.call(app.engine.sessions()).await?;
    let (now, mut sessions) = (sessions.now, sessions.value);
    let clock = visit.clock(now);
    sessions.sort_by(|a, b| (Reverse(a.running), &a.worker).cmp(&(Reverse(b.running), &b.worker)));
    let count = sessions.len();
    let workers = sessions.iter().take(ROWS_MAX).map(|it| WorkerRow::new(it, clock)).collect();
    Ok(Page::new(&visit, Section::Workers, "Workers", now).respond(&Workers { workers, count }))
}
