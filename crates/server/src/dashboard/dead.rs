//! `/dead`: dead letters, with buttons to replay or discard them.

use super::failure::Failure;
use super::job_row::{self, JobRows};
use super::links;
use super::page::{Page, Section};
use super::visit::Visit;
use crate::app::App;
use askama::Template;
use axum::extract::State;
use axum::response::Response;
use windlass_core::check_name;
use windlass_core::engine::{Filter, StatsRequest};
use windlass_core::model::State as JobState;

/// Jobs per page; all of them can be selected at once.
const JOBS_MAX: u32 = 50;

/// A queue with dead letters, as a filter.
struct Choice {
    name: String,
    count: super::format::Count,
    href: String,
    chosen: bool,
}

/// Maximum number of queues to choose from; those with the most dead letters.
const CHOICES_MAX: usize = 20;

#[derive(Template)]
#[template(path = "dead.html")]
struct Dead {
    jobs: JobRows,
    choices: Vec<Choice>,
    here: String,
    /// The dead letters of the page's queue, or of all queues, as a query.
    query: String,
    /// Their number.
    total: super::format::Count,
    /// Whether to show buttons.
    may_act: bool,
}

/// `GET /dead`
pub(super) async fn show(State(app): State<App>, visit: Visit) -> Result<Response, Failure> {
    let queue = visit.param("queue");
    let checked = queue.map_or(Ok(()), |name| check_name("queue", name));
    checked.map_err(|error| Failure::not_here(error.to_string()).back("/dead"))?;
    let mut filter = Filter::state(JobState::Dead);
    filter.queue = queue.map(Into::into);
    let first = links::with("/dead", &[("queue", queue)]);
    let found = job_row::find(&app, filter, visit.param("after"), JOBS_MAX, &first).await?;
    let lanes = app.call(app.engine.stats(StatsRequest::default())).await?.value;

    let mut counts = std::collections::BTreeMap::<&str, u64>::new();
    for lane in lanes.iter().filter(|lane| lane.dead > 0) {
        *counts.entry(&lane.queue).or_default() += lane.dead;
    }
    let choice = |name: Option<&str>, count: u64| Choice {
        name: name.unwrap_or("all").to_owned(),
        count: super::format::Count(count),
        href: links::with("/dead", &[("queue", name)]),
        chosen: queue == name,
    };
    let all = choice(None, counts.values().sum());
    let total = match queue {
        Some(name) => counts.get(name).copied().unwrap_or_default(),
        None => counts.values().sum(),
    };
    let mut by_count: Vec<_> = counts.into_iter().collect();
    by_count.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    let each = by_count.iter().take(CHOICES_MAX).map(|(name, count)| choice(Some(name), *count));
    let choices = std::iter::once(all).chain(each).collect();

    let (jobs, places) = found.value;
    let jobs = JobRows::new(&jobs, places, visit.clock(found.now));
    let query = links::jobs(queue, None, Some("dead"));
    let content = Dead {
        jobs,
        choices,
        here: visit.here.clone(),
        query: query.trim_start_matches("/jobs?").to_owned(),
        total: super::format::Count(total),
        may_act: visit.may_act(),
    };
    Ok(Page::new(&visit, Section::Dead, "Dead letters", found.now).respond(&content))
}
