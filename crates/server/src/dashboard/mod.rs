//! The dashboard: server-rendered HTML pages over the same engine as the JSON routes. It uses the
//! verbs that read and change jobs; it must not know how jobs are claimed or settled, and keeps no
//! state.
//!
//! Every page has its own URL and works without JavaScript; the dashboard's script only polls the
//! same URL for the part that changes ([`page`]). The templates escape all data from jobs. One
//! module authorizes all requests before they reach a page ([`guard`]).

mod actions;
mod assets;
mod audit;
mod bulk;
mod dead;
mod error_preview;
mod failure;
mod form;
mod format;
mod guard;
mod job;
mod job_row;
mod jobs;
mod links;
mod login;
mod notice;
mod nowhere;
mod overview;
mod page;
mod part_view;
mod queue;
mod queue_row;
mod queues;
mod schedules;
mod search;
mod spark;
mod throughput;
mod visit;
mod workers;

use crate::app::App;
use crate::budget;
use axum::Router;
use axum::middleware::from_fn_with_state;
use axum::routing::{get, post};

/// Declares the routes, and a list of them for tests that must cover all.
macro_rules! pages {
    ($($method:ident $path:literal => $handler:path;)+) => {
        /// All routes by method and path.
        pub(crate) const ROUTES: &[(&str, &str)] = &[$((stringify!($method), $path)),+];

        fn routes() -> Router<App> {
            Router::new()$(.route($path, $method($handler)))+
        }
    };
}

pages! {
    get "/" => overview::show;
    get "/queues" => queues::show;
    get "/queues/{queue}" => queue::show;
    post "/queues/{queue}/{change}" => actions::queue;
    post "/kinds/{kind}/{change}" => actions::kind;
    get "/jobs" => jobs::show;
    post "/jobs/change" => actions::jobs;
    get "/jobs/{id}" => job::show;
    post "/jobs/{id}/{change}" => actions::job;
    get "/dead" => dead::show;
    get "/bulk" => bulk::list;
    post "/bulk" => bulk::count;
    get "/bulk/{id}" => bulk::show;
    post "/bulk/{id}/{change}" => bulk::act;
    get "/schedules" => schedules::show;
    get "/workers" => workers::show;
    get "/audit" => audit::show;
    get "/login" => login::show;
    post "/login" => login::sign_in;
    post "/logout" => login::sign_out;
    get "/assets/{file}" => assets::show;
}

pub(crate) use nowhere::{is_for_a_browser, no_such_page};

/// All pages and actions, behind the guard.
pub(crate) fn router(app: &App) -> Router<App> {
    routes()
        .layer(from_fn_with_state(app.clone(), budget::account))
        .layer(from_fn_with_state(app.clone(), guard::check))
}
