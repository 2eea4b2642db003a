//! Authorizes requests to the dashboard: the user must be signed in with sufficient permission, and
//! requests from other sites are refused. It knows requests and their headers, but no pages.
//!
//! While the store has no keys, the server accepts unauthenticated requests, and a browser on the
//! same machine can send them on behalf of any page. The host name must therefore be one of the
//! server's own ([`crate::names`]), and **actions** must be sent by the dashboard's own pages:
//! browsers state the origin of a request in `Sec-Fetch-Site` or at least in `Origin`, and pages
//! cannot forge either.

use super::failure::Failure;
use super::login;
use crate::access::table::Needs;
use crate::access::{self, PeerNames};
use crate::app::App;
use crate::names::{self, WAY_OUT};
use axum::extract::{Request, State};
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Response};
use http::header::{
    CONTENT_SECURITY_POLICY, HOST, HeaderName, ORIGIN, REFERRER_POLICY, X_CONTENT_TYPE_OPTIONS,
    X_FRAME_OPTIONS,
};
use http::{HeaderMap, HeaderValue, Method, StatusCode};
use windlass_core::Error;

/// Allows only resources from this server; no inline scripts, no framing, no forms to other sites.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; \
     connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'";

/// Headers of every page. The referrer policy is `same-origin`, because `no-referrer` would make
/// browsers hide the origin of the dashboard's own forms too.
const HEADERS: [(HeaderName, &str); 6] = [
    (CONTENT_SECURITY_POLICY, POLICY),
    (X_CONTENT_TYPE_OPTIONS, "nosniff"),
    (X_FRAME_OPTIONS, "DENY"),
    (REFERRER_POLICY, "same-origin"),
    (HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
    (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
];

/// Middleware that authorizes a request to the dashboard, or answers with an error page.
pub(super) async fn check(State(app): State<App>, request: Request, next: Next) -> Response {
    let (headers, needs) = (request.headers(), access::needs_of(&request));
    let response = if let Some(name) = names::stranger(headers, &app.options) {
        strange_name(&name).into_response()
    } else if is_action(request.method()) && !is_from_our_pages(headers) {
        from_elsewhere().into_response()
    } else if needs == Needs::Nothing {
        next.run(request).await
    } else {
        let_in(&app, needs, request, next).await
    };
    with_headers(response)
}

/// Adds the headers of every page.
pub(super) fn with_headers(mut response: Response) -> Response {
    for (name, value) in HEADERS {
        response.headers_mut().insert(name, HeaderValue::from_static(value));
    }
    response
}

/// Runs a request if the signed-in user has the required permission.
async fn let_in(app: &App, needs: Needs, mut request: Request, next: Next) -> Response {
    // The cookie is sufficient: the guard has verified that actions are sent by the dashboard's own
    // pages.
    let peer = request.extensions().get::<PeerNames>();
    let who = match app.access.admit(request.headers(), peer, true).await {
        Ok(who) => who,
        Err(Error::Unauthenticated { .. }) => return login::unknown(request.uri()),
        Err(error) => return Failure::from(error).into_response(),
    };
    if let Err(error) = access::meets(who.clone(), needs) {
        let title = if needs == Needs::Admin { "Read-only access" } else { "Missing permission" };
        return Failure::new(StatusCode::FORBIDDEN, title, error.to_string()).into_response();
    }
    access::let_through(&mut request, who);
    next.run(request).await
}

fn header(headers: &HeaderMap, name: HeaderName) -> Option<&str> {
    headers.get(name).and_then(|value| value.to_str().ok())
}

fn is_action(method: &Method) -> bool {
    !matches!(*method, Method::GET | Method::HEAD)
}

/// Whether the browser states that a dashboard page sent this request.
fn is_from_our_pages(headers: &HeaderMap) -> bool {
    if let Some(site) = header(headers, HeaderName::from_static("sec-fetch-site")) {
        return site == "same-origin";
    }
    let origin = header(headers, ORIGIN).and_then(|origin| {
        origin.strip_prefix("http://").or_else(|| origin.strip_prefix("https://"))
    });
    match (origin, header(headers, HOST)) {
        (Some(origin), Some(host)) => origin.eq_ignore_ascii_case(host),
        _ => false,
    }
}

fn strange_name(name: &str) -> Failure {
    let text = format!("The request was addressed to {name}, but {WAY_OUT}.");
    Failure::new(StatusCode::FORBIDDEN, "Not by this name", text)
}

fn from_elsewhere() -> Failure {
    Failure::new(
        StatusCode::FORBIDDEN,
        "Not from here",
        "Nothing was changed: the request did not come from a page of this dashboard. Open the page and \
         use its button; scripts use the JSON routes under /v1.",
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_our_own_pages_may_act() {
        let from = |pairs: &[(&'static str, &'static str)]| {
            let headers = pairs.iter().map(|(name, value)| {
                (HeaderName::from_static(name), HeaderValue::from_static(value))
            });
            is_from_our_pages(&headers.collect())
        };
        let host = ("host", "127.0.0.1:7474");
        assert!(from(&[host, ("sec-fetch-site", "same-origin")]));
        assert!(from(&[host, ("origin", "http://127.0.0.1:7474")]));
        assert!(!from(&[host, ("sec-fetch-site", "cross-site")]));
        assert!(!from(&[host, ("sec-fetch-site", "same-site")]));
        assert!(!from(&[host, ("sec-fetch-site", "none"), ("origin", "http://127.0.0.1:7474")]));
        assert!(!from(&[host, ("origin", "http://127.0.0.1:8080")]));
        assert!(!from(&[host, ("origin", "null")]));
        assert!(!from(&[host]));
    }
}
