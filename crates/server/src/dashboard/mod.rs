//! The dashboard: pages for people, rendered here, over the same engine as the JSON routes. It knows the
//! verbs that look and change; it must not know how a job is claimed or settled, nor keep anything.
//!
//! Every page has its own address and works without JavaScript; a script of our own only polls the same
//! address for the part that changes ([`page`]). Whatever comes from a job is escaped by the templates.
//! Who may ask at all is decided in one place ([`guard`]), before any page is looked at.

mod actions;
mod assets;
mod audit;
mod dead;
mod failure;
mod form;
mod format;
mod guard;
mod job;
mod job_row;
mod jobs;
mod links;
mod login;
mod overview;
mod page;
mod part_view;
mod queue;
mod queue_row;
mod queues;
mod schedules;
mod spark;
mod visit;
mod workers;

use crate::app::App;
use crate::budget;
use axum::Router;
use axum::middleware::from_fn_with_state;
use axum::routing::{get, post};

/// Routes, and the list of them for whoever must miss none.
macro_rules! pages {
    ($($method:ident $path:literal => $handler:path;)+) => {
        /// By method and path, as they are routed.
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
    get "/schedules" => schedules::show;
    get "/workers" => workers::show;
    get "/audit" => audit::show;
    get "/login" => login::show;
    post "/login" => login::sign_in;
    post "/logout" => login::sign_out;
    get "/assets/{file}" => assets::show;
}

/// All pages and actions, guarded.
pub(crate) fn router(app: &App) -> Router<App> {
    routes()
        .layer(from_fn_with_state(app.clone(), budget::account))
        .layer(from_fn_with_state(app.clone(), guard::check))
}
