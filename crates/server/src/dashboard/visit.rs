//! A request for a page: what it asks for, and whether our script asks for the changing part only.

use super::format::Clock;
use crate::app::App;
use axum::extract::FromRequestParts;
use http::header::{HOST, HeaderName, IF_NONE_MATCH};
use http::request::Parts;
use std::convert::Infallible;
use std::sync::Arc;
use windlass_core::Timestamp;
use windlass_services::Principal;

/// Our script sends it, to get only what changes.
pub(super) const LIVE_HEADER: HeaderName = HeaderName::from_static("windlass-live");

/// Somebody looks at a page.
#[derive(Debug)]
pub(super) struct Visit {
    /// Whether only the changing part is wanted.
    pub(super) live: bool,
    /// What the script has already.
    pub(super) has: Option<String>,
    /// The address, to come back to after an action.
    pub(super) here: String,
    /// The address of the server as the visitor sees it.
    pub(super) host: String,
    /// Who looks, where people are asked.
    pub(super) who: Option<Arc<Principal>>,
    params: Vec<(String, String)>,
}

impl Visit {
    /// A parameter of the query; empty is absent, because forms send what was left empty.
    pub(super) fn param(&self, name: &str) -> Option<&str> {
        let mut found = self.params.iter().filter(|(known, _)| known == name);
        found.next().map(|(_, value)| value.trim()).filter(|value| !value.is_empty())
    }

    /// How times are said: seen from `now`, or as they are where the script says them, so that the
    /// passing of time alone does not make a page another one.
    pub(super) fn clock(&self, now: Timestamp) -> Clock {
        Clock::new((!self.live).then_some(now))
    }
}

impl FromRequestParts<App> for Visit {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, _: &App) -> Result<Self, Infallible> {
        let header = |name: HeaderName| parts.headers.get(name).and_then(|it| it.to_str().ok());
        let query = parts.uri.query().unwrap_or_default();
        let here = parts.uri.path_and_query().map_or("/", |it| it.as_str());
        Ok(Self {
            live: header(LIVE_HEADER).is_some(),
            has: header(IF_NONE_MATCH).map(str::to_owned),
            here: here.to_owned(),
            host: header(HOST).unwrap_or("127.0.0.1:7474").to_owned(),
            who: parts.extensions.get::<Arc<Principal>>().filter(|it| it.id().is_some()).cloned(),
            params: serde_urlencoded::from_str(query).unwrap_or_default(),
        })
    }
}
