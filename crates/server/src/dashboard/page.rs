//! Renders replies: the whole page for a browser, or only the changing part for the script, or 304
//! if the script already has it.

use super::assets;
use super::notice::Notice;
use super::visit::{LIVE_HEADER, Visit};
use askama::Template;
use axum::body::Body;
use axum::response::Response;
use http::header::{CACHE_CONTROL, CONTENT_TYPE, ETAG, VARY};
use http::{HeaderValue, StatusCode};
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use windlass_core::Timestamp;
use windlass_wire::NOW_HEADER;

/// The section of the navigation that a page belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Section {
    Overview,
    Queues,
    Jobs,
    Dead,
    Schedules,
    Workers,
    Audit,
}

impl Section {
    const ALL: [Self; 7] = [
        Self::Overview,
        Self::Queues,
        Self::Jobs,
        Self::Dead,
        Self::Schedules,
        Self::Workers,
        Self::Audit,
    ];

    const fn name(self) -> &'static str {
        match self {
            Self::Overview => "Overview",
            Self::Queues => "Queues",
            Self::Jobs => "Jobs",
            Self::Dead => "Dead",
            Self::Schedules => "Schedules",
            Self::Workers => "Workers",
            Self::Audit => "Audit",
        }
    }

    const fn path(self) -> &'static str {
        match self {
            Self::Overview => "/",
            Self::Queues => "/queues",
            Self::Jobs => "/jobs",
            Self::Dead => "/dead",
            Self::Schedules => "/schedules",
            Self::Workers => "/workers",
            Self::Audit => "/audit",
        }
    }

    /// The key that opens it after `g`.
    const fn key(self) -> &'static str {
        match self {
            Self::Overview => "o",
            Self::Queues => "q",
            Self::Jobs => "j",
            Self::Dead => "d",
            Self::Schedules => "s",
            Self::Workers => "w",
            Self::Audit => "a",
        }
    }
}

/// The layout around the content of every page.
#[derive(Template)]
#[template(path = "shell.html")]
pub(super) struct Shell<'a> {
    title: &'a str,
    section: Option<Section>,
    /// Empty before sign-in.
    sections: Vec<Section>,
    /// Name of the signed-in principal.
    who: Option<String>,
    /// What the last action did.
    notice: Option<String>,
    /// The store's time, for relative times in the script; `None` for static pages.
    now: Option<i64>,
    content: String,
    /// Content that does not change while the page is open.
    still: String,
    css: String,
    js: String,
    icon: String,
}

impl<'a> Shell<'a> {
    fn new(title: &'a str) -> Self {
        Self {
            title,
            section: None,
            sections: Section::ALL.to_vec(),
            who: None,
            notice: None,
            now: None,
            content: String::new(),
            still: String::new(),
            css: assets::url("dashboard.css"),
            js: assets::url("dashboard.js"),
            icon: assets::url("icon.svg"),
        }
    }

    /// The layout for a static page.
    pub(super) fn still(title: &'a str) -> Self {
        Self::new(title)
    }

    /// The layout without navigation.
    pub(super) fn bare(title: &'a str) -> Self {
        Self { sections: Vec::new(), ..Self::new(title) }
    }

    pub(super) fn respond(mut self, content: &impl Template) -> Response {
        match content.render() {
            Ok(content) => self.content = content,
            Err(error) => return unrendered(&error),
        }
        match self.render() {
            Ok(page) => html(page),
            Err(error) => unrendered(&error),
        }
    }
}

/// A page that the script keeps up to date.
pub(super) struct Page<'a> {
    visit: &'a Visit,
    section: Section,
    title: &'a str,
    now: Timestamp,
    still: String,
}

impl<'a> Page<'a> {
    pub(super) fn new(visit: &'a Visit, section: Section, title: &'a str, now: Timestamp) -> Self {
        Self { visit, section, title, now, still: String::new() }
    }

    /// Adds content below that does not change while the page is open.
    #[must_use]
    pub(super) fn still(mut self, content: &impl Template) -> Self {
        self.still = content.render().unwrap_or_default();
        self
    }

    pub(super) fn respond(self, content: &impl Template) -> Response {
        let mut response = if self.visit.live {
            self.fragment(content)
        } else {
            let mut shell = Shell::new(self.title);
            (shell.section, shell.now) = (Some(self.section), Some(self.now.as_millis()));
            shell.still = self.still;
            shell.notice = Notice::of(self.visit);
            shell.who = self.visit.who.as_ref().map(|who| who.name().to_owned());
            shell.respond(content)
        };
        let headers = response.headers_mut();
        headers.insert(NOW_HEADER, HeaderValue::from(self.now.as_millis()));
        headers.insert(VARY, HeaderValue::from_name(LIVE_HEADER));
        response
    }

    /// Renders only the changing part, or 304 if the script already has it.
    fn fragment(&self, content: &impl Template) -> Response {
        let content = match content.render() {
            Ok(content) => content,
            Err(error) => return unrendered(&error),
        };
        let mut hasher = DefaultHasher::new();
        content.hash(&mut hasher);
        let tag = format!("\"{:016x}\"", hasher.finish());
        let mut response = match self.visit.has.as_deref() == Some(&tag) {
            true => {
                let mut response = Response::new(Body::empty());
                *response.status_mut() = StatusCode::NOT_MODIFIED;
                response
            }
            false => html(content),
        };
        if let Ok(tag) = HeaderValue::from_str(&tag) {
            response.headers_mut().insert(ETAG, tag);
        }
        response
    }
}

fn html(text: String) -> Response {
    let mut response = Response::new(Body::from(text));
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/html; charset=utf-8"));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    response
}

/// Templates render to memory, so this happens only if a template is broken.
fn unrendered(error: &askama::Error) -> Response {
    tracing::error!(%error, "cannot render a page");
    let mut response = Response::new(Body::from("this page cannot be shown; see the server's log"));
    *response.status_mut() = StatusCode::INTERNAL_SERVER_ERROR;
    response
}
