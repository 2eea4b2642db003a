//! Who may see the dashboard and press its buttons: whoever signed in and may, and no other site, by
//! whatever name it calls us. It knows requests and their headers, and nothing of pages.
//!
//! A store without keys asks nobody who he is, and a browser on this machine reaches the port on behalf of
//! every page it shows. So the server must be called by a name of its own ([`crate::names`]), and **actions** must
//! come from our own pages: browsers say where a request comes from, in `Sec-Fetch-Site` or at least in
//! `Origin`, and no page can forge either.

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

/// Only what we serve ourselves; nothing inline, nothing framed, no forms to elsewhere.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; \
     connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'";

/// Sent with every page. The referrer stays within this site, because `no-referrer` would make browsers
/// hide the origin of our own forms too.
const HEADERS: [(HeaderName, &str); 6] = [
    (CONTENT_SECURITY_POLICY, POLICY),
    (X_CONTENT_TYPE_OPTIONS, "nosniff"),
    (X_FRAME_OPTIONS, "DENY"),
    (REFERRER_POLICY, "same-origin"),
    (HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
    (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
];

/// Lets a request through to the dashboard, or answers why not.
pub(super) async fn check(State(app): State<App>, request: Request, next: Next) -> Response {
    let (headers, needs) = (request.headers(), access::needs_of(&request));
    let mut response = if let Some(name) = names::stranger(headers, &app.options) {
        strange_name(&name).into_response()
    } else if is_action(request.method()) && !is_from_our_pages(headers) {
        from_elsewhere().into_response()
    } else if needs == Needs::Nothing {
        next.run(request).await
    } else {
        let_in(&app, needs, request, next).await
    };
    for (name, value) in HEADERS {
        response.headers_mut().insert(name, HeaderValue::from_static(value));
    }
    response
}

/// Lets a request through if whoever signed in may make it.
async fn let_in(app: &App, needs: Needs, mut request: Request, next: Next) -> Response {
    // By the cookie too: the guard has seen to it that an action comes from our own pages.
    let peer = request.extensions().get::<PeerNames>();
    let who = match app.access.admit(request.headers(), peer, true).await {
        Ok(who) => who,
        Err(Error::Unauthenticated { .. }) => return login::unknown(request.uri()),
        Err(error) => return Failure::from(error).into_response(),
    };
    if let Err(error) = access::meets(who.clone(), needs) {
        let title =
            if needs == Needs::Admin { "You may look, not act" } else { "Not with this key" };
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

/// Whether a browser says that a page of ours sent this.
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
