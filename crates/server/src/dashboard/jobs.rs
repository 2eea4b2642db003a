//! `/jobs`: jobs by queue, kind and state.

use super::failure::Failure;
use super::job_row::{self, JobRows, StateTab};
use super::links;
use super::page::{Page, Section};
use super::search;
use super::visit::Visit;
use crate::app::App;
use askama::Template;
use axum::extract::State;
use axum::response::Response;
use windlass_core::check_name;
use windlass_core::engine::Filter;

/// Jobs per page.
const JOBS_MAX: u32 = 50;

#[derive(Template)]
#[template(path = "jobs.html")]
struct Jobs {
    queue: String,
    kind: String,
    state: &'static str,
    tabs: Vec<StateTab>,
    jobs: JobRows,
    is_filtered: bool,
    host: String,
}

/// `GET /jobs`
pub(super) async fn show(State(app): State<App>, visit: Visit) -> Result<Response, Failure> {
    if let Some(text) = visit.param("find") {
        return search::show(&app, &visit, text).await;
    }
    let (queue, kind) = (visit.param("queue"), visit.param("kind"));
    let state = job_row::state(visit.param("state"))?;
    for (field, name) in [("queue", queue), ("kind", kind)] {
        let checked = name.map_or(Ok(()), |name| check_name(field, name));
        checked.map_err(|error| Failure::not_here(error.to_string()).back("/jobs"))?;
    }
    let mut filter = Filter::default();
    (filter.queue, filter.kind, filter.state) =
        (queue.map(Into::into), kind.map(Into::into), state);
    let name = state.map(windlass_core::model::State::as_str);
    let first = links::jobs(queue, kind, name);
    let found = job_row::find(&app, filter, visit.param("after"), JOBS_MAX, &first).await?;
    let (jobs, places) = found.value;
    let content = Jobs {
        queue: queue.unwrap_or_default().to_owned(),
        kind: kind.unwrap_or_default().to_owned(),
        state: name.unwrap_or_default(),
        tabs: job_row::tabs(state, |state| links::jobs(queue, kind, state)),
        jobs: JobRows::new(&jobs, places, visit.clock(found.now)),
        is_filtered: queue.is_some() || kind.is_some() || state.is_some(),
        host: visit.host.clone(),
    };
    Ok(Page::new(&visit, Section::Jobs, "Jobs", found.now).respond(&content))
}
