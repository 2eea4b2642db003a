//! `/jobs`: jobs by queue, kind and state, and search by id.

use super::failure::Failure;
use super::job_row::{self, JobRows, StateTab};
use super::links;
use super::page::{Page, Section};
use super::visit::Visit;
use crate::app::App;
use askama::Template;
use axum::extract::State;
use axum::response::{IntoResponse as _, Redirect, Response};
use windlass_core::engine::{Filter, StatsRequest};
use windlass_core::{JobId, check_name};

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
        return find(&app, text).await;
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

/// Redirects to the job, the queue, or the jobs of the kind with this name.
async fn find(app: &App, text: &str) -> Result<Response, Failure> {
    let to = |path: &str| Redirect::to(path).into_response();
    if let Ok(id) = text.parse::<JobId>() {
        return Ok(to(&links::job(id)));
    }
    let lanes = app.call(app.engine.stats(StatsRequest::default())).await?.value;
    if lanes.iter().any(|lane| &*lane.queue == text) {
        return Ok(to(&links::queue(text)));
    }
    if lanes.iter().any(|lane| &*lane.kind == text) {
        return Ok(to(&links::jobs(None, Some(text), None)));
    }
    if lanes.iter().any(|lane| lane.queue.contains(text)) {
        return Ok(to(&links::with("/queues", &[("find", Some(text))])));
    }
    let detail =
        format!("No job, queue or kind is named {text:?}. Jobs are found by their full id.");
    Err(Failure::not_here(detail).back("/jobs"))
}
