//! `/jobs?find=…`: finds queues and kinds by a part of their name, and jobs by the start of their
//! id.

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
use windlass_core::JobId;
use windlass_core::engine::{
    Filter, LaneStats, List, ListOrder, ListPlace, SortedBy, StatsRequest,
};
use windlass_core::model::{Job, Name};

/// Maximum number of queues, of kinds and of jobs to list.
const FOUND_MAX: usize = 20;
/// Hex digits of an id that are enough to search for.
const ID_DIGITS_MIN: usize = 4;
/// Hex digits of a whole id.
const ID_DIGITS: usize = 32;

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
}

/// Redirects to the only match, or lists all.
pub(super) async fn show(app: &App, visit: &Visit, text: &str) -> Result<Response, Failure> {
    let to = |path: &str| Ok(Redirect::to(path).into_response());
    if let Ok(id) = text.parse::<JobId>() {
        return to(&links::job(id));
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
    let jobs = by_id(app, text).await?;
    let hrefs = queues.iter().chain(&kinds).map(|found| found.href.clone());
    let mut hrefs = hrefs.chain(jobs.iter().map(|job| links::job(job.header.id)));
    match (hrefs.next(), hrefs.next()) {
        (None, _) => {
            let detail = format!(
                "No queue or kind has {text:?} in its name, and no job has an id that starts with it."
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
    let Some((lowest, highest)) = ids(text) else { return Ok(Vec::new()) };
    let before = u128::from_be_bytes(*lowest.as_bytes()).checked_sub(1);
    let before = before.map(|id| JobId::from_bytes(id.to_be_bytes()));
    let after = before.map(|id| ListPlace::enqueued(id).cursor(SortedBy::Enqueued));
    let list = List::new(Filter::default()).order(ListOrder::Oldest).after(after);
    let page = app.call(app.engine.list(list.limit(FOUND_MAX as u32))).await?.value;
    Ok(page.rows.into_iter().filter(|job| job.header.id <= highest).collect())
}

/// The lowest and the highest id that start with these hex digits; dashes are ignored.
fn ids(text: &str) -> Option<(JobId, JobId)> {
    let digits: String = text.chars().filter(|c| *c != '-').collect();
    let is_id = digits.chars().all(|c| c.is_ascii_hexdigit())
        && (ID_DIGITS_MIN..=ID_DIGITS).contains(&digits.len());
    let fill = |with: char| {
        let filled: String =
            digits.chars().chain(std::iter::repeat(with)).take(ID_DIGITS).collect();
        u128::from_str_radix(&filled, 16).ok().map(|id| JobId::from_bytes(id.to_be_bytes()))
    };
    is_id.then(|| fill('0').zip(fill('f')))?
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_start_of_an_id_is_a_range_of_ids() {
        let (lowest, highest) = ids("0199B2c8-00").unwrap();
        assert_eq!(lowest.to_string(), "0199b2c8-0000-0000-0000-000000000000");
        assert_eq!(highest.to_string(), "0199b2c8-00ff-ffff-ffff-ffffffffffff");
        for text in ["", "019", "mail", "0199x", "----", &"0".repeat(33)] {
            assert!(ids(text).is_none(), "{text}");
        }
    }

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
