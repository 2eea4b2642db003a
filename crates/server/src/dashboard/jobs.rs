//! `/jobs`: jobs by all filters of the API, which are parameters of the address with the names that the API has.

use super::bulk::{self, Offer};
use super::failure::Failure;
use super::job_row::{self, JobRows, StateTab};
use super::links;
use super::page::{Page, Section};
use super::search;
use super::visit::Visit;
use crate::app::App;
use askama::Template;
use axum::extract::State;
use axum::response::{IntoResponse as _, Redirect, Response};
use windlass_core::engine::{Field, List};
use windlass_wire as wire;

/// Jobs per page.
const JOBS_MAX: u32 = 50;
/// Filters that have no input of their own on the page; the form keeps them.
const KEPT: [&str; 11] = [
    "tenant",
    "key",
    "tag",
    "parent",
    "flow",
    "created_from",
    "created_until",
    "due_from",
    "due_until",
    "ended_from",
    "ended_until",
];

/// A filter of the list: name and value of its parameter.
type Param = (String, String);

#[derive(Template)]
#[template(path = "jobs.html")]
struct Jobs {
    queue: String,
    kind: String,
    text: String,
    /// Conditions on fields, as people write them.
    conditions: String,
    state: &'static str,
    /// Filters without an input.
    kept: Vec<Param>,
    tabs: Vec<StateTab>,
    jobs: JobRows,
    is_filtered: bool,
    /// Changes of all jobs that match; empty without a filter, or without the permission.
    offers: Vec<Offer>,
    /// The filters as a query.
    query: String,
    host: String,
}

/// The filters of a request, in the order of the API.
fn filters(visit: &Visit) -> Vec<Param> {
    let named = |name: &str| visit.param(name).map(|value| (name.to_owned(), value.to_owned()));
    let own = ["queue", "kind", "state", "id", "text"];
    let mut params: Vec<Param> = own.into_iter().chain(KEPT).filter_map(named).collect();
    params.extend(visit.fields());
    params
}

/// The address of a list with these filters, and another state.
fn address(params: &[Param], state: Option<&str>) -> String {
    let others = params.iter().filter(|(name, _)| name != "state");
    let others = others.map(|(name, value)| (name.as_str(), Some(value.as_str())));
    let all: Vec<_> = others.chain([("state", state)]).collect();
    links::with("/jobs", &all)
}

/// The parameters of conditions that a person wrote into the form: `payload.customer=42 metadata.source=import`.
pub(super) fn conditions(text: &str) -> Result<Vec<Param>, Failure> {
    let condition = |text: &str| {
        let (field, value) = text.split_once('=').unwrap_or((text, ""));
        let field: Field = field.parse().map_err(|error| Failure::from(error).back("/jobs"))?;
        Ok((field.to_string(), value.to_owned()))
    };
    text.split_whitespace().map(condition).collect()
}

/// `GET /jobs`
pub(super) async fn show(State(app): State<App>, visit: Visit) -> Result<Response, Failure> {
    if let Some(text) = visit.param("find") {
        return search::show(&app, &visit, text).await;
    }
    let mut params = filters(&visit);
    if let Some(text) = visit.param("where") {
        params.extend(conditions(text)?);
        return Ok(Redirect::to(&address(&params, visit.param("state"))).into_response());
    }
    let state = job_row::state(visit.param("state"))?;
    let name = state.map(windlass_core::model::State::as_str);
    let first = address(&params, name);
    let query = first.split_once('?').map_or("", |(_, query)| query);
    let list: List = wire::read_list(query)
        .map_err(|error| Failure::not_here(error.to_string()).back("/jobs"))?
        .into();
    let checked = list.filter.check();
    checked.map_err(|error| Failure::not_here(error.to_string()).back("/jobs"))?;
    let fields: Vec<_> =
        list.filter.fields.iter().map(|(field, value)| format!("{field}={value}")).collect();
    let found = job_row::find(&app, list.filter, visit.param("after"), JOBS_MAX, &first).await?;
    let (jobs, places) = found.value;
    let value = |name: &str| visit.param(name).unwrap_or_default().to_owned();
    // Values with spaces cannot be written into the input, and are kept as they are.
    let is_written = !fields.iter().any(|field| field.contains(char::is_whitespace));
    let is_kept = |(name, _): &Param| {
        KEPT.contains(&&**name) || name == "id" || (!is_written && name.contains('.'))
    };
    let is_filtered = !params.is_empty();
    let content = Jobs {
        queue: value("queue"),
        kind: value("kind"),
        text: value("text"),
        conditions: if is_written { fields.join(" ") } else { String::new() },
        state: name.unwrap_or_default(),
        kept: params.iter().filter(|param| is_kept(param)).cloned().collect(),
        tabs: job_row::tabs(state, |state| address(&params, state)),
        jobs: JobRows::new(&jobs, places, visit.clock(found.now)),
        is_filtered,
        offers: if is_filtered && visit.may_act() { bulk::offers(state) } else { Vec::new() },
        query: query.to_owned(),
        host: visit.host.clone(),
    };
    Ok(Page::new(&visit, Section::Jobs, "Jobs", found.now).respond(&content))
}
