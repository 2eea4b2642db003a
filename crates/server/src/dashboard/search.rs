//! `/jobs?find=…`: finds queues and kinds by a part of their name, and jobs by the start of their id, by a field of
//! their JSON (`payload.customer=42`) or by a text in their payload or error.

use super::failure::Failure;
use super::format::Count;
use super::job_row::JobRow;
use super::links;
use super::page::{Page, Section};
use super::visit::Visit;
use crate::app::App;
use askama::Template;
use axum::response::{IntoResponse as _, Redirect, Response};
use std::collections::BTreeMap;
use windlass_core::engine::{Filter, LaneStats, List, ListOrder, StatsRequest};
use windlass_core::limits::SEARCH_TEXT_BYTES_MAX;
use windlass_core::model::{Job, Name};
use windlass_core::{IdPrefix, JobId};

/// Maximum number of queues, of kinds and of jobs to list.
const FOUND_MAX: usize = 20;
/// Hex digits of an id that are enough to search for.
const ID_DIGITS_MIN: usize = 4;

/// A queue or a kind that was found.
struct Found {
    name: Name,
    href: String,
    waiting: Count,
}

#[derive(Template)]
#[template(path = "search.html")]
struct Content {
    text: String,
    queues: Vec<Found>,
    kinds: Vec<Found>,
    rows: Vec<JobRow>,
    most: usize,
    /// URL of all queues with the text in their names.
    all_queues: String,
    /// URL of all jobs with the text in their payload or error.
    all_jobs: String,
}

/// Redirects to the only match, or lists all.
pub(super) async fn show(app: &App, visit: &Visit, text: &str) -> Result<Response, Failure> {
    let to = |path: &str| Ok(Redirect::to(path).into_response());
    if let Ok(id) = text.parse::<JobId>() {
        return to(&links::job(id));
    }
    if ["payload.", "metadata."].iter().any(|part| text.starts_with(part)) && text.contains('=') {
        return to(&links::with("/jobs", &[("where", Some(text))]));
    }
    let lanes = app.call(app.engine.stats(StatsRequest::default())).await?;
    let (now, lanes) = (lanes.now, lanes.value);
    let queues = named(&lanes, |lane| &lane.queue, text, links::queue);
    let kinds = named(&lanes, |lane| &lane.kind, text, |kind| links::jobs(None, Some(kind), None));
    // A full name is what was meant, even if longer names contain it.
    let exact = queues.iter().chain(&kinds).find(|found| *found.name == *text);
    if let Some(found) = exact {
        return to(&found.href);
    }
    let mut jobs = by_id(app, text).await?;
    if jobs.is_empty() && queues.is_empty() && kinds.is_empty() {
        jobs = by_text(app, text).await?;
    }
    let hrefs = queues.iter().chain(&kinds).map(|found| found.href.clone());
    let mut hrefs = hrefs.chain(jobs.iter().map(|job| links::job(job.header.id)));
    match (hrefs.next(), hrefs.next()) {
        (None, _) => {
            let detail = format!(
                "No queue or kind has {text:?} in its name, no job has an id that starts with it, and none of the \
                 jobs that were searched has it in its payload or error."
            );
            Err(Failure::not_here(detail).back("/jobs"))
        }
        (Some(only), None) => to(&only),
        _ => {
            let clock = visit.clock(now);
            let content = Content {
                text: text.to_owned(),
                rows: jobs.iter().map(|job| JobRow::new(job, clock)).collect(),
                queues,
                kinds,
                most: FOUND_MAX,
                all_queues: links::with("/queues", &[("find", Some(text))]),
                all_jobs: links::with("/jobs", &[("text", Some(text))]),
            };
            Ok(Page::new(visit, Section::Jobs, "Search", now).respond(&content))
        }
    }
}

/// Queues or kinds with `text` in their name; those that start with it first.
fn named(
    lanes: &[LaneStats],
    name: fn(&LaneStats) -> &Name,
    text: &str,
    href: impl Fn(&str) -> String,
) -> Vec<Found> {
    let wanted = text.to_lowercase();
    let mut waiting: BTreeMap<(bool, &Name), u64> = BTreeMap::new();
    for lane in lanes {
        let (name, lower) = (name(lane), name(lane).to_lowercase());
        if lower.contains(&wanted) {
            *waiting.entry((!lower.starts_with(&wanted), name)).or_default() += lane.depth();
        }
    }
    let found = |((_, name), waiting): ((bool, &Name), u64)| Found {
        name: name.clone(),
        href: href(name),
        waiting: Count(waiting),
    };
    let mut all: Vec<_> = waiting.into_iter().collect();
    // An exact name must not be cut off.
    all.sort_by_key(|((later, name), _)| (***name != *text, *later));
    all.into_iter().take(FOUND_MAX).map(found).collect()
}

/// The first jobs whose ids start with these hex digits.
async fn by_id(app: &App, text: &str) -> Result<Vec<Job>, Failure> {
    let prefix = text.parse::<IdPrefix>().ok().filter(|prefix| prefix.digits() >= ID_DIGITS_MIN);
    match prefix {
        Some(prefix) => first(app, Filter::default().id(prefix), ListOrder::Oldest).await,
        None => Ok(Vec::new()),
    }
}

/// The newest jobs with this text in their payload or error.
async fn by_text(app: &App, text: &str) -> Result<Vec<Job>, Failure> {
    match text.len() <= SEARCH_TEXT_BYTES_MAX && !text.chars().any(char::is_control) {
        true => first(app, Filter::default().text(text), ListOrder::Newest).await,
        false => Ok(Vec::new()),
    }
}

/// The first jobs that match, on one page.
async fn first(app: &App, filter: Filter, order: ListOrder) -> Result<Vec<Job>, Failure> {
    let list = List::new(filter).order(order).limit(FOUND_MAX as u32);
    Ok(app.call(app.engine.list(list)).await?.value.rows)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_start_with_the_text_come_first_and_an_exact_one_before_them() {
        let lanes: Vec<_> = ["a-mail", "mail", "mail-a", "Mail-b", "web"]
            .map(|queue| LaneStats::empty(queue.into(), "k".into()))
            .into();
        let found = named(&lanes, |lane| &lane.queue, "mail", links::queue);
        let names: Vec<_> = found.iter().map(|found| &*found.name).collect();
        assert_eq!(names, ["mail", "Mail-b", "mail-a", "a-mail"]);
    }
}
