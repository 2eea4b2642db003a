//! A request for a page: its parameters, and whether the script requests only the changing part.

use super::format::Clock;
use super::notice;
use crate::app::App;
use axum::extract::FromRequestParts;
use http::header::{HOST, HeaderName, IF_NONE_MATCH};
use http::request::Parts;
use std::convert::Infallible;
use std::sync::Arc;
use windlass_core::Timestamp;
use windlass_services::Principal;

/// Header with which the script requests only the changing part.
pub(super) const LIVE_HEADER: HeaderName = HeaderName::from_static("windlass-live");

/// A request for a page.
#[derive(Debug)]
pub(super) struct Visit {
    /// Whether only the changing part is requested.
    pub(super) live: bool,
    /// The `ETag` of the part that the script already has.
    pub(super) has: Option<String>,
    /// The requested URL, to return to after an action.
    pub(super) here: String,
    /// The host name of the server as the client sees it.
    pub(super) host: String,
    /// The signed-in principal, if authentication is required.
    pub(super) who: Option<Arc<Principal>>,
    params: Vec<(String, String)>,
}

impl Visit {
    /// A query parameter. An empty value counts as absent, because forms send empty fields.
    pub(super) fn param(&self, name: &str) -> Option<&str> {
        let mut found = self.params.iter().filter(|(known, _)| known == name);
        found.next().map(|(_, value)| value.trim()).filter(|value| !value.is_empty())
    }

    /// The parameters that name fields of payload or metadata.
    pub(super) fn fields(&self) -> impl Iterator<Item = (String, String)> {
        let is_field = |name: &str| ["payload.", "metadata."].iter().any(|it| name.starts_with(it));
        self.params.iter().filter(move |(name, _)| is_field(name)).cloned()
    }

    /// Whether the user may act, and not only read. Pages show no buttons otherwise.
    pub(super) fn may_act(&self) -> bool {
        self.who.as_ref().is_none_or(|who| who.may().is_admin())
    }

    /// The format of times: relative to `now` in a whole page, absolute in the changing part. There
    /// the script formats times, so that passing time alone does not change the `ETag`.
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
            here: notice::without(here),
            host: header(HOST).unwrap_or("127.0.0.1:7474").to_owned(),
            who: parts.extensions.get::<Arc<Principal>>().filter(|it| it.id().is_some()).cloned(),
            params: serde_urlencoded::from_str(query).unwrap_or_default(),
        })
    }
}
