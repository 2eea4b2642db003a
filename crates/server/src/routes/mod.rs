//! The routes: each turns a request of the wire into a verb of the engine and its answer into a reply.

mod admin;
mod dead;
mod described;
mod history;
mod jobs;
mod kinds;
mod look;
pub(crate) mod metrics;
mod parts;
mod queues;
mod scale;
mod schedules;
mod series;
mod work;

use crate::admit::merged;
use crate::app::App;
use crate::dashboard;
use crate::names;
use crate::reply::{Refusal, Reply};
use axum::Router;
use axum::extract::{MatchedPath, Request};
use axum::middleware::{self, Next};
use axum::response::Response;
use http::{Method, StatusCode, Uri};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;
use windlass_core::{Error, JobId, Result};

/// All routes, with what describes them: a route that is not described cannot be registered here.
pub(crate) fn all() -> OpenApiRouter<App> {
    OpenApiRouter::default()
        .routes(routes!(jobs::enqueue_one, look::list))
        .routes(routes!(jobs::enqueue))
        .routes(routes!(look::get))
        .routes(routes!(jobs::change))
        .routes(routes!(look::get_one))
        .routes(routes!(jobs::change_one))
        .routes(routes!(parts::get, parts::put))
        .routes(routes!(dead::list))
        .routes(routes!(dead::replay))
        .routes(routes!(dead::discard))
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
        .routes(routes!(look::stats))
        .routes(routes!(series::show))
        .routes(routes!(scale::show))
        .routes(routes!(look::workers))
        .routes(routes!(admin::settings, admin::configure))
        .routes(routes!(queues::queues))
        .routes(routes!(queues::queue, admin::configure_queue))
        .routes(routes!(kinds::list))
        .routes(routes!(kinds::get, admin::configure_kind, kinds::put, kinds::remove))
        .routes(routes!(history::read))
        .routes(routes!(admin::records))
        .routes(routes!(admin::maintain))
        .routes(routes!(admin::check))
        .routes(routes!(look::capabilities))
        .routes(routes!(look::health))
        .routes(routes!(look::alive))
        .routes(routes!(look::ready))
        .routes(routes!(metrics::show))
        .routes(routes!(described::openapi))
}

/// The routes as they are served.
pub(crate) fn router(app: App) -> Router {
    let (router, _) = all().split_for_parts();
    router
        .layer(middleware::from_fn_with_state(app.clone(), names::check))
        .merge(dashboard::router(&app))
        .method_not_allowed_fallback(not_allowed)
        .fallback(not_here)
        .layer(middleware::from_fn(count))
        .with_state(app)
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

async fn not_here(uri: Uri) -> Reply {
    let expected = "there is nothing here; the routes are under /v1";
    Err(Refusal::with(StatusCode::NOT_FOUND, Error::invalid("path", uri.path(), expected)))
}

async fn not_allowed(method: Method, uri: Uri) -> Reply {
    let expected = format!("{} does not take it", uri.path());
    let error = Error::invalid("method", method, expected);
    Err(Refusal::with(StatusCode::METHOD_NOT_ALLOWED, error))
}

/// The job that a path names.
fn job_id(text: &str) -> Result<JobId, Refusal> {
    text.parse().map_err(Refusal::from)
}

/// The only answer of a batch of one.
fn only<T>(answers: Vec<Result<T>>) -> Result<T> {
    let none = || Error::Unavailable {
        store: "the engine".to_owned(),
        reason: "it gave no answer to the item".to_owned(),
    };
    answers.into_iter().next().ok_or_else(none)?
}
