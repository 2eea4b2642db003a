//! `/schedules`: recurring jobs.

use super::failure::Failure;
use super::format::{Count, Time};
use super::links;
use super::page::{Page, Section};
use super::visit::Visit;
use crate::app::App;
use askama::Template;
use axum::extract::State;
use axum::response::Response;
use windlass_core::engine::Cursor;
use windlass_core::policy::Timing;
use windlass_core::time::rough_span;
use windlass_services::{ScheduleView, Schedules};

/// Schedules per page.
const ROWS_MAX: u32 = 100;

/// A schedule, as a table row.
struct Row {
    name: String,
    rhythm: String,
    kind: String,
    queue: String,
    queue_href: String,
    next: Option<Time>,
    /// The page of the job that must end before the next fire.
    awaits: Option<String>,
    last: Option<Time>,
    fired: Count,
    refused: Count,
    paused: bool,
    error: Option<String>,
}

impl Row {
    fn new(view: ScheduleView, clock: super::format::Clock) -> Self {
        let rhythm = match &view.schedule.timing {
            Timing::Cron { line, zone } => format!("{line} ({zone})"),
            Timing::Every { every_ms, .. } => format!("every {}", rough_span(*every_ms)),
            Timing::AfterCompletion { after_ms } => {
                format!("{} after completion", rough_span(*after_ms))
            }
            _ => "unknown".to_owned(),
        };
        Self {
            name: view.name,
            rhythm,
            kind: view.job.kind.to_string(),
            queue_href: links::queue(&view.job.queue),
            queue: view.job.queue.to_string(),
            next: view.next.map(|at| clock.ago(at)),
            awaits: view.awaits.map(links::job),
            last: view.last_fire.map(|at| clock.ago(at)),
            fired: Count(view.fired),
            refused: Count(view.refused),
            paused: view.paused,
            error: view.last_error.map(|error| error.message),
        }
    }
}

#[derive(Template)]
#[template(path = "schedules.html")]
struct Content {
    schedules: Vec<Row>,
    unreadable: Vec<String>,
    next: Option<String>,
}

/// `GET /schedules`
pub(super) async fn show(State(app): State<App>, visit: Visit) -> Result<Response, Failure> {
    let now = app.call(app.engine.health()).await?.now;
    let after = visit.param("after").map(Cursor::new);
    let page = Schedules::new(app.engine.clone()).list(after, ROWS_MAX).await;
    let page = page.map_err(|error| Failure::from(error).back("/schedules"))?;
    let clock = visit.clock(now);
    let content = Content {
        schedules: page.rows.into_iter().map(|view| Row::new(view, clock)).collect(),
        unreadable: page.unreadable,
        next: page.next.map(|at| links::with("/schedules", &[("after", Some(at.as_str()))])),
    };
    Ok(Page::new(&visit, Section::Schedules, "Schedules", now).respond(&content))
}
