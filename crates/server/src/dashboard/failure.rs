//! Error pages: a description of the problem and its solution.

use super::page::Shell;
use askama::Template;
use axum::response::{IntoResponse, Response};
use http::StatusCode;
use windlass_core::model::{Name, State};
use windlass_core::{Error, JobId};
use windlass_wire::Problem;

/// A replay of jobs of sensitive kinds.
#[derive(Debug)]
pub(super) struct Confirm {
    /// The jobs.
    pub(super) ids: Vec<JobId>,
    /// Their kinds, each once.
    pub(super) kinds: Vec<Name>,
    /// The state that the page displayed.
    pub(super) if_state: Option<State>,
}

/// A failed request to the dashboard.
#[derive(Debug)]
pub(super) struct Failure {
    status: StatusCode,
    title: String,
    detail: String,
    /// Additional lines of the description.
    lines: Vec<String>,
    /// URL of the page to continue at.
    back: String,
    /// The replay to confirm, if only the names of sensitive kinds are missing.
    confirm: Option<Box<Confirm>>,
}

impl Failure {
    pub(super) fn new(
        status: StatusCode,
        title: impl Into<String>,
        detail: impl Into<String>,
    ) -> Self {
        let (title, detail) = (title.into(), detail.into());
        let (lines, back) = (Vec::new(), "/".to_owned());
        Self { status, title, detail, lines, back, confirm: None }
    }

    /// A 404 page.
    pub(super) fn not_here(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::NOT_FOUND, "Not found", detail)
    }

    #[must_use]
    pub(super) fn lines(mut self, lines: Vec<String>) -> Self {
        self.lines = lines;
        self
    }

    /// Adds a form that asks for the names of the kinds and replays the jobs.
    #[must_use]
    pub(super) fn confirm(mut self, confirm: Confirm) -> Self {
        self.confirm = Some(Box::new(confirm));
        self
    }

    #[must_use]
    pub(super) fn back(mut self, back: impl Into<String>) -> Self {
        self.back = back.into();
        self
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        let title = match &error {
            Error::NotFound { .. } => "No such job",
            Error::Unavailable { .. } => "The store does not answer",
            Error::StoreFull { .. } => "The disk of the store is full",
            Error::Refused { .. } | Error::Duplicate { .. } | Error::Busy { .. } => {
                "Not possible now"
            }
            Error::StateConflict { .. } => "The job has changed",
            _ => "The request failed",
        };
        let detail = error.to_string();
        let status = StatusCode::from_u16(Problem::new(error).status);
        Self::new(status.unwrap_or(StatusCode::INTERNAL_SERVER_ERROR), title, detail)
    }
}

#[derive(Template)]
#[template(path = "failure.html")]
struct FailureContent<'a> {
    failure: &'a Failure,
    status: u16,
}

impl IntoResponse for Failure {
    fn into_response(self) -> Response {
        let content = FailureContent { failure: &self, status: self.status.as_u16() };
        let mut response = Shell::still(&self.title).respond(&content);
        *response.status_mut() = self.status;
        response
    }
}
