//! The routes: each converts a wire request to an engine call and the engine's answer to a reply.

mod actions;
mod admin;
mod audit;
mod bulk;
mod dead;
mod described;
mod events;
mod flows;
mod history;
mod internal;
mod jobs;
mod keys;
mod kinds;
mod limits;
pub(crate) mod metrics;
mod parts;
mod queues;
mod read;
mod scale;
mod schedules;
mod series;
mod work;

use crate::access;
use crate::admit::merged;
use crate::app::App;
use crate::budget;
use crate::connections::Restricted;
use crate::dashboard;
use crate::names;
use crate::reply::Refusal;
use axum::Router;
use axum::extract::{MatchedPath, Request};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse as _, Response};
use http::header::CONNECTION;
use http::{HeaderMap, HeaderValue, Method, StatusCode, Uri};
use std::collections::BTreeSet;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;
use windlass_core::{Error, JobId, Result};
use windlass_wire::routes as paths;

/// Health probes.
const PROBES: [&str; 2] = [paths::HEALTHZ, paths::READYZ];
/// Requests that extend or release leases.
const REPORTS: [&str; 5] =
    [paths::SESSIONS, paths::SESSION, paths::HEARTBEAT, paths::SETTLE, paths::UPDATE];

/// All routes with their OpenAPI descriptions. A route without a description cannot be registered
/// here.
pub(crate) fn all() -> OpenApiRouter<App> {
    OpenApiRouter::default()
        .routes(routes!(jobs::enqueue_one, read::list))
        .routes(routes!(jobs::enqueue))
        .routes(routes!(read::get))
        .routes(routes!(jobs::import))
        .routes(routes!(jobs::change))
        .routes(routes!(read::get_one))
        .routes(routes!(read::why))
        .routes(routes!(actions::cancel))
        .routes(routes!(actions::promote))
        .routes(routes!(actions::kill))
        .routes(routes!(actions::pause))
        .routes(routes!(actions::resume))
        .routes(routes!(actions::discard))
        .routes(routes!(actions::reschedule))
        .routes(routes!(actions::reprioritise))
        .routes(routes!(actions::move_to))
        .routes(routes!(actions::replay))
        .routes(routes!(jobs::signal))
        .routes(routes!(parts::get, parts::put))
        .routes(routes!(flows::store))
        .routes(routes!(flows::get))
        .routes(routes!(flows::cancel))
        .routes(routes!(flows::replay))
        .routes(routes!(dead::list))
        .routes(routes!(dead::replay))
        .routes(routes!(dead::discard))
        .routes(routes!(bulk::start, bulk::list))
        .routes(routes!(bulk::get))
        .routes(routes!(bulk::cancel))
        .routes(routes!(schedules::list))
        .routes(routes!(schedules::get, schedules::put, schedules::patch, schedules::remove))
        .routes(routes!(schedules::trigger))
        .routes(routes!(work::open_session))
        .routes(routes!(work::close_session))
        .routes(routes!(work::heartbeat))
        .routes(routes!(work::claim))
        .routes(routes!(work::wait))
        .routes(routes!(work::settle))
        .routes(routes!(work::update))
        .routes(routes!(read::stats))
        .routes(routes!(series::show))
        .routes(routes!(scale::show))
        .routes(routes!(read::workers))
        .routes(routes!(admin::settings, admin::configure))
        .routes(routes!(queues::queues))
        .routes(routes!(queues::queue, admin::configure_queue))
        .routes(routes!(kinds::list))
        .routes(routes!(kinds::get, admin::configure_kind, kinds::put, kinds::remove))
        .routes(routes!(limits::list))
        .routes(routes!(limits::get, limits::put, limits::remove))
        .routes(routes!(limits::take))
        .routes(routes!(history::read))
        .routes(routes!(events::list))
        .routes(routes!(events::stream))
        .routes(routes!(audit::list))
        .routes(routes!(keys::list, keys::create))
        .routes(routes!(keys::revoke))
        .routes(routes!(read::capabilities))
        .routes(routes!(read::health))
        .routes(routes!(read::alive))
        .routes(routes!(read::ready))
        .routes(routes!(metrics::show))
        .routes(routes!(described::openapi))
}

/// Every method and path that a server serves, including internal ones and the dashboard. For tests that must cover
/// all routes.
pub fn served() -> Vec<(String, String)> {
    let described = serde_json::to_value(all().into_openapi().paths).unwrap_or_default();
    let paths = described.as_object().into_iter().flatten();
    let methods = ["get", "put", "post", "patch", "delete"];
    let described = paths.flat_map(|(path, item)| {
        methods
            .into_iter()
            .filter(|method| item.get(*method).is_some())
            .map(move |it| (it, &**path))
    });
    let others = internal::ROUTES.iter().chain(dashboard::ROUTES).copied();
    described.chain(others).map(|(method, path)| (method.to_uppercase(), path.to_owned())).collect()
}

/// The router with all middleware.
pub(crate) fn router(app: App) -> Router {
    let (router, _) = all().split_for_parts();
    router
        .merge(internal::router())
        .layer(middleware::from_fn_with_state(app.clone(), budget::account))
        .layer(middleware::from_fn_with_state(app.clone(), access::check))
        .layer(middleware::from_fn_with_state(app.clone(), names::check))
        .merge(dashboard::router(&app))
        .method_not_allowed_fallback(not_allowed)
        .fallback(not_here)
        .layer(middleware::from_fn(restrict))
        .layer(middleware::from_fn(count))
        .with_state(app)
}

/// On connections beyond the limit, serves health probes and worker reports, and refuses other
/// requests.
async fn restrict(path: Option<MatchedPath>, request: Request, next: Next) -> Response {
    let path = path.as_ref().map_or("", MatchedPath::as_str);
    let is_answered = match request.extensions().get() {
        None => true,
        Some(Restricted::ToReports) => PROBES.contains(&path) || REPORTS.contains(&path),
        Some(Restricted::ToProbes) => PROBES.contains(&path),
    };
    if is_answered {
        return next.run(request).await;
    }
    let reason =
        "it has reached its connection limit; close idle connections, or raise connections_max";
    let error = Error::Unavailable { store: "this server".to_owned(), reason: reason.to_owned() };
    let mut response = Refusal::from(error).into_response();
    response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
    response
}

/// Counts requests by route and status.
async fn count(path: Option<MatchedPath>, request: Request, next: Next) -> Response {
    let route = path.map_or_else(|| "none".to_owned(), |path| path.as_str().to_owned());
    let response = next.run(request).await;
    let status = response.status().as_str().to_owned();
    ::metrics::counter!("windlass_server_requests_total", "route" => route, "status" => status)
        .increment(1);
    response
}

async fn not_here(headers: HeaderMap, uri: Uri) -> Response {
    if dashboard::is_for_a_browser(&headers, &uri) {
        return dashboard::no_such_page(StatusCode::NOT_FOUND, &uri);
    }
    let error =
        Error::missing("route", uri.path(), "the API is under /v1; GET /openapi.json lists it");
    Refusal::from(error).into_response()
}

async fn not_allowed(headers: HeaderMap, method: Method, uri: Uri) -> Response {
    if dashboard::is_for_a_browser(&headers, &uri) {
        return dashboard::no_such_page(StatusCode::METHOD_NOT_ALLOWED, &uri);
    }
    let expected = format!("{} does not support this method", uri.path());
    let error = Error::invalid("method", method, expected);
    Refusal::with(StatusCode::METHOD_NOT_ALLOWED, error).into_response()
}

/// Parses the job id of a path.
fn job_id(text: &str) -> Result<JobId, Refusal> {
    text.parse().map_err(Refusal::from)
}

/// The answer to a batch of one item.
fn only<T>(answers: Vec<Result<T>>) -> Result<T> {
    let none = || Error::Unavailable {
        store: "the engine".to_owned(),
        reason: "it returned no result for the item".to_owned(),
    };
    answers.into_iter().next().ok_or_else(none)?
}

/// Removes items that fail `check` and adds them to `bad` with their position in the original
/// batch, so that each bad item fails alone. `bad` already contains items that were removed
/// earlier.
fn take_out<T>(
    items: Vec<T>,
    bad: &mut Vec<(usize, Error)>,
    check: impl Fn(usize, &mut T) -> Result<()>,
) -> Vec<T> {
    let taken: BTreeSet<usize> = bad.iter().map(|(place, _)| *place).collect();
    let places = (0..).filter(|place| !taken.contains(place));
    let mut kept = Vec::with_capacity(items.len());
    for (place, mut item) in places.zip(items) {
        match check(place, &mut item) {
            Ok(()) => kept.push(item),
            Err(error) => bad.push((place, error)),
        }
    }
    bad.sort_by_key(|(place, _)| *place);
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_item_that_is_taken_out_keeps_its_place() {
        let error = |n: u32| Error::invalid("item", n, "better");
        let mut bad = vec![(1, error(1))];
        let odd = |_, n: &mut u32| if n.is_multiple_of(2) { Ok(()) } else { Err(error(*n)) };
        let kept = take_out(vec![0, 2, 3, 4, 5], &mut bad, odd);
        assert_eq!(kept, [0, 2, 4]);
        assert_eq!(bad, [(1, error(1)), (3, error(3)), (5, error(5))]);
    }

    #[test]
    fn every_item_is_answered_in_its_place() {
        let error = |n: u32| Error::invalid("item", n, "better");
        let all = merged(vec![Ok(1), Ok(3)], vec![(0, error(0)), (2, error(2)), (4, error(4))]);
        assert_eq!(all, [Err(error(0)), Ok(1), Err(error(2)), Ok(3), Err(error(4))]);
    }
}
