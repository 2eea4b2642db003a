//! Validates the `Host` header against DNS rebinding. It knows nothing of routes.
//!
//! A server on a loopback address may have no keys, and then accepts every request that reaches its
//! port. A browser on the same machine can send such requests on behalf of any page. A malicious
//! site can resolve its own name to 127.0.0.1 (DNS rebinding), which makes the server same-origin
//! to that site. A server on a loopback address therefore accepts only names that no other site can
//! own: loopback addresses, `localhost` and configured names. A server on any other address cannot
//! know its names and accepts all.

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

/// The solution in the error for an unknown host name.
pub(crate) const WAY_OUT: &str = "this server listens on a loopback address and accepts only the names 127.0.0.1, \
     [::1] and localhost, as protection against DNS rebinding; call it by \
     its address, or allow the name of your proxy with --host";

/// Middleware that refuses requests with an unknown host name.
pub(crate) async fn check(State(app): State<App>, request: Request, next: Next) -> Response {
    match stranger(request.headers(), &app.options) {
        None => next.run(request).await,
        Some(name) => {
            let error = Error::invalid("host", name, WAY_OUT);
            Refusal::with(StatusCode::FORBIDDEN, error).into_response()
        }
    }
}

/// The host name of a request, if it is not accepted. A request without one is not from a browser.
pub(crate) fn stranger(headers: &HeaderMap, options: &Options) -> Option<String> {
    let host = headers.get(HOST).filter(|_| options.listen.ip().is_loopback())?;
    match host.to_str() {
        Ok(host) if is_ours(host, &options.hosts) => None,
        _ => Some(String::from_utf8_lossy(host.as_bytes()).into_owned()),
    }
}

/// Whether a name, with or without a port, is one of `allowed` or refers to this machine.
fn is_ours(host: &str, allowed: &[String]) -> bool {
    let name = match host.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        Some((address, _port)) => address,
        None => host.split(':').next().unwrap_or_default(),
    };
    let name = name.to_ascii_lowercase();
    name == "localhost"
        || name.ends_with(".localhost")
        || name.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
        || allowed.iter().any(|allowed| allowed.eq_ignore_ascii_case(&name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_loopback_server_answers_only_to_names_of_this_machine() {
        let ours = [
            "127.0.0.1:7474",
            "localhost",
            "LOCALHOST:80",
            "[::1]:7474",
            "127.9.9.9",
            "a.localhost:1",
            "Jobs.example:443",
        ];
        let allowed = ["jobs.example".to_owned()];
        assert!(ours.iter().all(|host| is_ours(host, &allowed)));
        let others = [
            "evil.example:7474",
            "localhost.evil.example",
            "10.0.0.1",
            "127.0.0.1.evil.example",
            "evil.jobs.example",
            "",
        ];
        assert!(others.iter().all(|host| !is_ours(host, &allowed)));
    }

    #[test]
    fn a_server_for_others_answers_to_any_name() {
        let headers = HeaderMap::from_iter([(HOST, http::HeaderValue::from_static("a.example"))]);
        let stranger = |ip: [u8; 4]| stranger(&headers, &Options::new((ip, 0).into()));
        assert_eq!(stranger([10, 0, 0, 1]), None);
        assert_eq!(stranger([127, 0, 0, 1]).as_deref(), Some("a.example"));
    }
}
