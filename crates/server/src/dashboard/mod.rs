//! The dashboard: pages for people, rendered here, over the same engine as the JSON routes. It knows the
//! verbs that look and change; it must not know how a job is claimed or settled, nor keep anything.
//!
//! Every page has its own address and works without JavaScript; a script of our own only polls the same
//! address for the part that changes ([`page`]). Whatever comes from a job is escaped by the templates.
//! Who may ask at all is decided in one place ([`guard`]), before any page is looked at.

mod actions;
mod assets;
mod dead;
mod failure;
mod form;
mod format;
mod guard;
mod job;
mod job_row;
mod jobs;
mod links;
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
use axum::Router;
use axum::middleware::from_fn_with_state;
use axum::routing::{get, post};

/// All pages and actions, guarded.
pub(crate) fn router(app: &App) -> Router<App> {
    Router::new()
        .route("/", get(overview::show))
        .route("/queues", get(queues::show))
        .route("/queues/{queue}", get(queue::show))
        .route("/queues/{queue}/{change}", post(actions::queue))
        .route("/kinds/{kind}/{change}", post(actions::kind))
        .route("/jobs", get(jobs::show))
        .route("/jobs/change", post(actions::jobs))
        .route("/jobs/{id}", get(job::show))
        .route("/jobs/{id}/{change}", post(actions::job))
        .route("/dead", get(dead::show))
        .route("/schedules", get(schedules::show))
        .route("/workers", get(workers::show))
        .route("/assets/{file}", get(assets::show))
        .layer(from_fn_with_state(app.clone(), guard::check))
}
