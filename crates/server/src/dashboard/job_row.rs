//! Tables of jobs, and pagination.

use super::error_preview::error_preview;
use super::failure::Failure;
use super::format::{Clock, Count, Time};
use super::links;
use crate::app::App;
use windlass_core::engine::{Cursor, Filter, List, ListOrder, Stamped};
use windlass_core::limits::TOKEN_BYTES_MAX;
use windlass_core::model::{Job, Name, State};

/// A job, as a table row.
#[derive(Debug)]
pub(super) struct JobRow {
    pub(super) id: String,
    pub(super) href: String,
    pub(super) queue: Name,
    pub(super) queue_href: String,
    pub(super) kind: Name,
    pub(super) state: State,
    pub(super) attempt: u32,
    pub(super) failures: u32,
    pub(super) max_attempts: u32,
    /// Label of the most relevant time: the last or the next event.
    pub(super) what: &'static str,
    pub(super) when: Time,
    pub(super) error: Option<String>,
}

impl JobRow {
    pub(super) fn new(job: &Job, clock: Clock) -> Self {
        let header = &job.header;
        let ended = job.finished_at.unwrap_or(header.created_at);
        let (what, when) = match job.state {
            State::Scheduled => ("due", clock.ago(header.run_at)),
            State::Blocked | State::Available | State::Paused => {
                ("waits", clock.age(header.run_at))
            }
            State::Running => ("for", clock.age(job.started_at.unwrap_or(header.created_at))),
            State::Completed | State::Dead | State::Cancelled | State::Expired => {
                ("ended", clock.ago(ended))
            }
            _ => ("since", clock.ago(job.changed_at)),
        };
        // For a completed job, an earlier error is only history; the job's own page shows it.
        let error = job.error.as_ref().filter(|_| job.state != State::Completed);
        Self {
            id: header.id.to_string(),
            href: links::job(header.id),
            queue: header.queue.clone(),
            queue_href: links::queue(&header.queue),
            kind: header.kind.clone(),
            state: job.state,
            attempt: header.counters.attempt,
            failures: header.counters.failures,
            max_attempts: header.policy.max_attempts,
            what,
            when,
            error: error.map(error_preview),
        }
    }
}

/// A page of jobs.
#[derive(Debug)]
pub(super) struct JobRows {
    pub(super) rows: Vec<JobRow>,
    /// URL of the next page.
    pub(super) next: Option<String>,
    /// URL of the first page, unless this is it.
    pub(super) first: Option<String>,
    /// Number of jobs that were searched, if the page is not full because of that.
    pub(super) searched: Option<Count>,
    /// Label of the link to the next page.
    pub(super) more: &'static str,
}

/// Finds the first jobs that match the filter, after a cursor. `path` is the URL of the first
/// page.
pub(super) async fn find(
    app: &App,
    filter: Filter,
    after: Option<&str>,
    limit: u32,
    path: &str,
) -> Result<Stamped<(Vec<Job>, JobPlaces)>, Failure> {
    if after.is_some_and(|cursor| cursor.len() > TOKEN_BYTES_MAX) {
        return Err(Failure::not_here("Invalid position in the list of jobs.").back(path));
    }
    let list = List::new(filter).limit(limit).after(after.map(Cursor::new));
    let more = match list.order {
        ListOrder::Newest => "Older jobs",
        ListOrder::Oldest => "Later jobs",
    };
    let asked = app.call(app.engine.list(list)).await;
    let Stamped { now, epoch, value } = asked.map_err(|error| Failure::from(error).back(path))?;
    let searched = value.cut_short.then_some(Count(value.examined));
    let next = value.next.map(|cursor| links::with(path, &[("after", Some(cursor.as_str()))]));
    let first = after.map(|_| path.to_owned());
    let places = JobPlaces { next, first, searched, more };
    Ok(Stamped { now, epoch, value: (value.rows, places) })
}

/// URLs of the neighbouring pages.
#[derive(Debug)]
pub(super) struct JobPlaces {
    next: Option<String>,
    first: Option<String>,
    searched: Option<Count>,
    more: &'static str,
}

impl JobRows {
    pub(super) fn new(jobs: &[Job], places: JobPlaces, clock: Clock) -> Self {
        let rows = jobs.iter().map(|job| JobRow::new(job, clock)).collect();
        let JobPlaces { next, first, searched, more } = places;
        Self { rows, next, first, searched, more }
    }
}

/// A link that filters by state.
#[derive(Debug)]
pub(super) struct StateTab {
    pub(super) label: &'static str,
    pub(super) href: String,
    pub(super) chosen: bool,
}

/// Links for all states together and for each state; `href` returns the URL for a state.
pub(super) fn tabs(
    chosen: Option<State>,
    href: impl Fn(Option<&'static str>) -> String,
) -> Vec<StateTab> {
    let all = StateTab { label: "all", href: href(None), chosen: chosen.is_none() };
    let one = |state: State| StateTab {
        label: state.as_str(),
        href: href(Some(state.as_str())),
        chosen: chosen == Some(state),
    };
    std::iter::once(all).chain(State::ALL.map(one)).collect()
}

/// Parses the name of a state.
pub(super) fn state(name: Option<&str>) -> Result<Option<State>, Failure> {
    let Some(name) = name else { return Ok(None) };
    match State::ALL.into_iter().find(|state| state.as_str() == name) {
        Some(state) => Ok(Some(state)),
        None => Err(Failure::not_here(format!("There is no state {name:?}.")).back("/jobs")),
    }
}
