//! By which names a server may be called. It knows the `Host` header and nothing of routes.
//!
//! There are no keys yet: whoever reaches the port may do anything, and a browser on this machine reaches
//! it on behalf of every page it shows. A foreign site can make its own name point to 127.0.0.1 (DNS
//! rebinding); to the browser it is then the same origin as we are. So a server that listens on this
//! machine only answers only to names that nobody else can own: addresses of this machine, `localhost`,
//! and those it was told. A server that listens for others has names that it cannot know, and takes any.

use crate::app::App;
use crate::options::Options;
use crate::reply::Refusal;
use axum::extract::{Request, State};
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Response};
use http::header::HOST;
use http::{HeaderMap, StatusCode};
use std::net::IpAddr;
use windlass_core::Error;

/// What to do about a name that is not ours.
pub(crate) const WAY_OUT: &str = "this server listens on its own machine only and answers to 127.0.0.1, \
     [::1] and localhost, which keeps other sites from reaching it through a name of theirs; call it by \
     its address, or tell it the name of the proxy in front of it with --host";

/// Lets a request through that calls the server by a name of its own.
pub(crate) async fn check(State(app): State<App>, request: Request, next: Next) -> Response {
    match stranger(request.headers(), &app.options) {
        None => next.run(request).await,
        Some(name) => {
            let error = Error::invalid("host", name, WAY_OUT);
            Refusal::with(StatusCode::FORBIDDEN, error).into_response()
        }
    }
}

/// The name that a request calls us by, if it is not ours. One that gives none is not from a browser.
pub(crate) fn stranger(headers: &HeaderMap, options: &Options) -> Option<String> {
    let host = headers.get(HOST).filter(|_| options.listen.ip().is_loopback())?;
    match host.to_str() {
        Ok(host) if is_ours(host, &options.hosts) => None,
        _ => Some(String::from_utf8_lossy(host.as_bytes()).into_owned()),
    }
}

/// Whether a name, perhaps with a port, is one of `told` or means this machine.
fn is_ours(host: &str, told: &[String]) -> bool {
    let name = match host.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        Some((address, _port)) => address,
        None => host.split(':').next().unwrap_or_default(),
    };
    let name = name.to_ascii_lowercase();
    name == "localhost"
        || name.ends_with(".localhost")
        || name.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
        || told.iter().any(|told| told.eq_ignore_ascii_case(&name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_on_this_machine_answers_to_names_nobody_else_can_own() {
        let ours = [
            "127.0.0.1:7474",
            "localhost",
            "LOCALHOST:80",
            "[::1]:7474",
            "127.9.9.9",
            "a.localhost:1",
            "Jobs.example:443",
        ];
        let told = ["jobs.example".to_owned()];
        assert!(ours.iter().all(|host| is_ours(host, &told)));
        let others = [
            "evil.example:7474",
            "localhost.evil.example",
            "10.0.0.1",
            "127.0.0.1.evil.example",
            "evil.jobs.example",
            "",
        ];
        assert!(others.iter().all(|host| !is_ours(host, &told)));
    }

    #[test]
    fn a_server_for_others_answers_to_any_name() {
        let headers = HeaderMap::from_iter([(HOST, http::HeaderValue::from_static("a.example"))]);
        let stranger = |ip: [u8; 4]| stranger(&headers, &Options::new((ip, 0).into()));
        assert_eq!(stranger([10, 0, 0, 1]), None);
        assert_eq!(stranger([127, 0, 0, 1]).as_deref(), Some("a.example"));
    }
}
