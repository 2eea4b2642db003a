//! `/jobs/{id}`: all details of one job, the reason for its state, and the available actions.

mod actions;
mod facts;
mod why;

use super::failure::Failure;
use super::format::Time;
use super::job_row::JobRow;
use super::page::{Page, Section};
use super::part_view::PartView;
use super::visit::Visit;
use crate::app::App;
use actions::{Action, actions};
use askama::Template;
use axum::extract::{Path, State};
use axum::response::Response;
use facts::{AttemptRow, Fact, attempt_row, facts, policy, times};
use why::{WhyRow, why_rows};
use windlass_core::engine::{CauseCode, Get};
use windlass_core::model::{JobError, PartName, PartSet, Progress};
use windlass_core::{Error, JobId};
use windlass_services::explain;

#[derive(Template)]
#[template(path = "job.html")]
struct JobContent {
    row: JobRow,
    /// The end of a job that has ended.
    end: Option<String>,
    /// Why a job that has not ended is not running.
    why: Vec<WhyRow>,
    /// Timestamps of the job, in order.
    times: Vec<(&'static str, Time)>,
    facts: Vec<Fact>,
    policy: Vec<Fact>,
    progress: Option<Progress>,
    error: Option<JobError>,
    attempts: Vec<AttemptRow>,
    log: Vec<(Time, String)>,
    result: Option<PartView>,
    actions: Vec<Action>,
}

/// The parts as of the time the page was opened. Not refreshed: they may be large, and the payload
/// never changes.
#[derive(Template)]
#[template(path = "parts.html")]
struct Parts {
    parts: Vec<PartView>,
    opened: Time,
}

/// `GET /jobs/{id}`
pub(super) async fn show(
    State(app): State<App>,
    visit: Visit,
    Path(id): Path<String>,
) -> Result<Response, Failure> {
    let id: JobId =
        id.parse().map_err(|error: Error| Failure::not_here(error.to_string()).back("/jobs"))?;
    let parts = if visit.live { PartSet::NONE } else { PartSet::ALL };
    let reply = app.call(app.engine.get(Get::new([id]).parts(parts))).await?;
    let (now, clock) = (reply.now, visit.clock(reply.now));
    let found = reply.value.into_iter().next().flatten();
    let job = found.ok_or_else(|| Failure::from(Error::NotFound { id }).back("/jobs"))?;
    // A job that was removed since it was read above has no explanation any more.
    let explained = app.in_time(explain(&app.engine, id), 0).await;
    let explained = explained.map_err(|error| Failure::from(error).back("/jobs"))?.value;
    let ended = explained.cause(CauseCode::Ended);
    let end = ended.map(|cause| explained.message(cause));
    let why = if end.is_some() { Vec::new() } else { why_rows(&explained, clock) };

    let shown = PartName::ALL
        .into_iter()
        .filter_map(|name| job.parts.get(name).map(|part| PartView::new(id, name.as_str(), part)));
    let parts = Parts { parts: shown.collect(), opened: clock.ago(now) };
    let content = JobContent {
        row: JobRow::new(&job, clock),
        end,
        why,
        times: times(&job, clock),
        facts: facts(&job),
        policy: policy(&job),
        attempts: job.history.iter().rev().map(|attempt| attempt_row(attempt, clock)).collect(),
        log: job.log.iter().map(|line| (clock.ago(line.at), line.text.clone())).collect(),
        result: job.result.as_ref().map(|part| PartView::new(id, "result", part)),
        actions: if visit.may_act() { actions(&job) } else { Vec::new() },
        progress: job.progress,
        error: job.error,
    };
    let title = format!("{} {id}", job.header.kind);
    Ok(Page::new(&visit, Section::Jobs, &title, now).still(&parts).respond(&content))
}
