//! The page for addresses that do not exist, for browsers only: programs get JSON.

use super::failure::Failure;
use super::guard;
use axum::response::{IntoResponse as _, Response};
use http::header::ACCEPT;
use http::{HeaderMap, StatusCode, Uri};

/// Whether a browser asks for a page: it accepts HTML, and the address is not of the JSON routes.
pub(crate) fn is_for_a_browser(headers: &HeaderMap, uri: &Uri) -> bool {
    let mut accepted = headers.get_all(ACCEPT).iter().filter_map(|value| value.to_str().ok());
    accepted.any(|value| value.contains("text/html")) && !uri.path().starts_with("/v1/")
}

/// An error page for an address or a method that is not served.
pub(crate) fn no_such_page(status: StatusCode, uri: &Uri) -> Response {
    let detail = format!("{:?} is not a page of this dashboard.", uri.path());
    let title = match status {
        StatusCode::METHOD_NOT_ALLOWED => "Not a page",
        _ => "No such page",
    };
    guard::with_headers(Failure::new(status, title, detail).into_response())
}
