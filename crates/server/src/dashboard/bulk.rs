//! `/bulk`: changes of all jobs that match a filter. The jobs are counted first; the page of that count asks
//! whether to change them, and the page of the change shows its progress. The services run both.

use super::failure::Failure;
use super::form::Form;
use super::format::{Count, Time};
use super::links;
use super::notice::Notice;
use super::page::{Page, Section};
use super::visit::Visit;
use crate::access::Who;
use crate::app::App;
use askama::Template;
use axum::extract::{Path, State};
use axum::response::{IntoResponse as _, Redirect, Response};
use serde_json::Value;
use std::sync::Arc;
use windlass_core::JobId;
use windlass_core::engine::{Filter, List};
use windlass_core::machine::EventKind;
use windlass_core::machine::table;
use windlass_core::model::{Name, State as JobState};
use windlass_services::{Bulk, BulkChange, BulkState, Bulks, NewBulk};
use windlass_wire as wire;

/// A change that a page offers for all jobs of a list.
#[derive(Debug)]
pub(super) struct Offer {
    /// Its name in the API.
    pub(super) name: &'static str,
    /// Its label.
    pub(super) label: &'static str,
}

/// The changes on offer, with the event of the state machine that decides whether a state allows them.
const OFFERS: [(&str, &str, EventKind); 7] = [
    ("replay", "Replay", EventKind::Replay),
    ("promote", "Run now", EventKind::Promote),
    ("pause", "Pause", EventKind::Pause),
    ("resume", "Resume", EventKind::Resume),
    ("cancel", "Cancel", EventKind::Cancel),
    ("kill", "Kill", EventKind::Kill),
    ("discard", "Discard", EventKind::Discard),
];

/// The changes that are possible for jobs in this state, or in any state.
pub(super) fn offers(state: Option<JobState>) -> Vec<Offer> {
    let fits = |event| state.is_none_or(|state| table::is_possible(state, event));
    let fitting = OFFERS.into_iter().filter(|(_, _, event)| fits(*event));
    fitting.map(|(name, label, _)| Offer { name, label }).collect()
}

fn change_of(name: &str) -> Result<BulkChange, Failure> {
    Ok(match name {
        "replay" => BulkChange::Replay { start_over: false, confirm: None },
        "promote" => BulkChange::Promote,
        "pause" => BulkChange::Pause,
        "resume" => BulkChange::Resume,
        "cancel" => BulkChange::Cancel,
        "kill" => BulkChange::Kill,
        "discard" => BulkChange::Discard,
        _ => {
            let detail = format!("Nothing was changed: {name:?} is not a known action.");
            return Err(Failure::not_here(detail));
        }
    })
}

/// `POST /bulk`: counts the jobs of a list, and leads to the page that asks for the change.
pub(super) async fn count(
    State(app): State<App>,
    who: Who,
    form: Form,
) -> Result<Response, Failure> {
    let back = form.back().unwrap_or("/jobs").to_owned();
    let field = |name: &'static str| form.all(name).next().unwrap_or_default();
    let change = change_of(field("change")).map_err(|failure| failure.back(&*back))?;
    let filter = filter_of(field("filter")).map_err(|failure| failure.back(&*back))?;
    let new = NewBulk::new(filter, change).dry_run(true);
    let started = start(&app, &who, new).await.map_err(|failure| failure.back(&*back))?;
    Ok(Redirect::to(&links::bulk(&started.id)).into_response())
}

/// Reads the query of a list, which has the names of the API.
fn filter_of(query: &str) -> Result<Filter, Failure> {
    let list = wire::read_list(query).map_err(|error| Failure::not_here(error.to_string()))?;
    let list: List = list.into();
    Ok(list.filter)
}

async fn start(app: &App, who: &Who, new: NewBulk) -> Result<Bulk, Failure> {
    let bulks = Bulks::new(Arc::new(app.acting(who)));
    Ok(app.in_time(bulks.start(new.by(who.0.name())), 0).await?)
}

async fn find(app: &App, id: &str) -> Result<Bulk, Failure> {
    let missing = || Failure::not_here("There is no such bulk operation.").back("/bulk");
    id.parse::<JobId>().map_err(|_| missing())?;
    let found = app.in_time(Bulks::new(app.engine.clone()).get(id), 0).await?;
    found.ok_or_else(missing)
}

/// `POST /bulk/{id}/{change}`: makes a counted change, or cancels an operation.
pub(super) async fn act(
    State(app): State<App>,
    who: Who,
    Path((id, change)): Path<(String, String)>,
    form: Form,
) -> Result<Response, Failure> {
    let counted = find(&app, &id).await?;
    let page = links::bulk(&counted.id);
    match &*change {
        "start" => {
            let mut change = counted.change;
            if let BulkChange::Replay { confirm, .. } = &mut change {
                let named = form.all("confirm").map(str::trim).find(|kind| !kind.is_empty());
                *confirm = named.map(Name::from);
            }
            let new = NewBulk::new(counted.filter, change);
            let started = start(&app, &who, new).await.map_err(|failure| failure.back(&*page))?;
            Ok(Notice::BulkStarted.redirect(&links::bulk(&started.id), 0))
        }
        "cancel" => {
            let bulks = Bulks::new(Arc::new(app.acting(&who)));
            let cancelled = app.in_time(bulks.cancel(&counted.id), 0).await;
            cancelled.map_err(|error| Failure::from(error).back(&*page))?;
            Ok(Notice::BulkCancelled.redirect(&page, 0))
        }
        _ => {
            let detail = format!("Nothing was changed: {change:?} is not a known action.");
            Err(Failure::not_here(detail).back(page))
        }
    }
}

/// An operation, as a page or a table row shows it.
struct BulkView {
    href: String,
    label: &'static str,
    is_replay: bool,
    /// The filter, as names and values.
    filter: Vec<(String, String)>,
    by: String,
    begun: Time,
    ended: Option<Time>,
    state: &'static str,
    /// Name of the job state with the colour of this one.
    tone: &'static str,
    is_over: bool,
    dry_run: bool,
    is_counted: bool,
    examined: Count,
    total: Count,
    changed: Count,
    refused: Count,
    error: Option<String>,
}

impl BulkView {
    fn new(bulk: Bulk, clock: super::format::Clock) -> Self {
        let is_replay = matches!(bulk.change, BulkChange::Replay { .. });
        let known = OFFERS.into_iter().find(|(name, _, _)| *name == bulk.change.as_str());
        Self {
            href: links::bulk(&bulk.id),
            label: known.map_or_else(|| bulk.change.as_str(), |(_, label, _)| label),
            is_replay,
            filter: filter_rows(bulk.filter),
            by: bulk.by,
            begun: clock.ago(bulk.begun),
            ended: bulk.ended.map(|at| clock.ago(at)),
            state: bulk.state.as_str(),
            tone: match bulk.state {
                BulkState::Running => "running",
                BulkState::Done => "completed",
                BulkState::Cancelled => "cancelled",
                _ => "scheduled",
            },
            is_over: bulk.state.is_over(),
            dry_run: bulk.dry_run,
            is_counted: bulk.state == BulkState::Done && bulk.dry_run,
            examined: Count(bulk.examined),
            total: Count(bulk.total),
            changed: Count(bulk.changed),
            refused: Count(bulk.refused),
            error: bulk.error,
        }
    }
}

/// A filter as the API names it, one row per condition.
fn filter_rows(filter: Filter) -> Vec<(String, String)> {
    let Ok(Value::Object(members)) = serde_json::to_value(wire::JobFilter::from(filter)) else {
        return Vec::new();
    };
    let text = |value: Value| match value {
        Value::String(text) => text,
        other => other.to_string(),
    };
    let row = |(name, value): (String, Value)| match value {
        Value::Null => Vec::new(),
        Value::Object(fields) => fields.into_iter().map(|(name, it)| (name, text(it))).collect(),
        value => vec![(name, text(value))],
    };
    members.into_iter().flat_map(row).collect()
}

#[derive(Template)]
#[template(path = "bulk.html")]
struct OneBulk {
    bulk: BulkView,
    may_act: bool,
}

/// `GET /bulk/{id}`
pub(super) async fn show(
    State(app): State<App>,
    visit: Visit,
    Path(id): Path<String>,
) -> Result<Response, Failure> {
    let bulk = find(&app, &id).await?;
    let now = app.call(app.engine.health()).await?.now;
    let content = OneBulk { bulk: BulkView::new(bulk, visit.clock(now)), may_act: visit.may_act() };
    Ok(Page::new(&visit, Section::Jobs, "Bulk operation", now).respond(&content))
}

#[derive(Template)]
#[template(path = "bulks.html")]
struct AllBulks {
    bulks: Vec<BulkView>,
}

/// `GET /bulk`
pub(super) async fn list(State(app): State<App>, visit: Visit) -> Result<Response, Failure> {
    let bulks = app.in_time(Bulks::new(app.engine.clone()).all(), 0).await?;
    let now = app.call(app.engine.health()).await?.now;
    let clock = visit.clock(now);
    // The newest first.
    let bulks = bulks.into_iter().rev().map(|bulk| BulkView::new(bulk, clock)).collect();
    Ok(Page::new(&visit, Section::Jobs, "Bulk operations", now).respond(&AllBulks { bulks }))
}
