//! Options of a remote engine: the server's URL, credentials, timeouts and buffer limits.

use http::Uri;
use http::uri::Authority;
use std::fmt;
use std::path::PathBuf;
use std::time::Duration;
use windlass_core::{Error, Result};

/// Default for `connect_timeout`.
const CONNECT_TIMEOUT_DEFAULT: Duration = Duration::from_secs(5);
/// Default for `answer_timeout`: longer than the server's own timeout for its engine.
const ANSWER_TIMEOUT_DEFAULT: Duration = Duration::from_secs(40);
/// Default for `patience`.
const PATIENCE_DEFAULT: Duration = Duration::from_secs(10);
/// Default for `idle_connections_max`.
const IDLE_CONNECTIONS_DEFAULT: usize = 64;
/// Default for `answer_bytes_max`.
const ANSWER_BYTES_DEFAULT: usize = 512 * 1024 * 1024;

/// Environment variable with the key, if neither the options nor the URL contain one.
const KEY_VARIABLE: &str = "WINDLASS_KEY";
/// Environment variable with the servers that the key is for: `host` or `host:port`, separated by
/// commas.
const KEY_HOST_VARIABLE: &str = "WINDLASS_KEY_HOST";
/// Environment variables with the TLS files, if the options contain none.
const CA_VARIABLE: &str = "WINDLASS_TLS_CA";
const CERT_VARIABLE: &str = "WINDLASS_TLS_CERT";
const CERT_KEY_VARIABLE: &str = "WINDLASS_TLS_KEY";
/// Placeholder for secrets.
const HIDDEN: &str = "***";

/// Configuration of a remote engine. Only the URL is required. Its `Debug` output hides the key.
#[derive(Clone)]
#[non_exhaustive]
pub struct Options {
    /// URL of the server, as `http://host:port`, with a path if a proxy adds one before `/v1`, and
    /// optionally with a key: `http://wl_…@host:port`.
    pub url: String,
    /// The key for authentication. Defaults to the key in the URL, or to the environment variable
    /// `WINDLASS_KEY`. If `WINDLASS_KEY_HOST` is set, the latter is sent only to the servers it
    /// names (`host` or `host:port`, separated by commas).
    pub key: Option<String>,
    /// PEM file with the CA certificates that are trusted. Defaults to the environment variable
    /// `WINDLASS_TLS_CA`, or to the system's certificates.
    pub tls_ca: Option<PathBuf>,
    /// PEM file with the client certificate. Defaults to `WINDLASS_TLS_CERT`.
    pub tls_cert: Option<PathBuf>,
    /// PEM file with the private key of the client certificate. Defaults to `WINDLASS_TLS_KEY`.
    pub tls_key: Option<PathBuf>,
    /// Timeout for establishing a connection.
    pub connect_timeout: Duration,
    /// Timeout for a reply, excluding a requested wait.
    pub answer_timeout: Duration,
    /// Maximum time that an enqueue waits and retries while the server asks for it (`Retry-After`),
    /// because a queue is full or a rate limit is exceeded; zero disables retries.
    pub patience: Duration,
    /// Maximum number of idle connections to keep. More are opened under load and closed
    /// afterwards.
    pub idle_connections_max: usize,
    /// Maximum bytes of one reply.
    pub answer_bytes_max: usize,
}

impl Options {
    /// Default options for the server at `url`.
    pub fn new(url: impl Into<String>) -> Self {
        Self {
            url: url.into(),
            key: None,
            tls_ca: None,
            tls_cert: None,
            tls_key: None,
            connect_timeout: CONNECT_TIMEOUT_DEFAULT,
            answer_timeout: ANSWER_TIMEOUT_DEFAULT,
            patience: PATIENCE_DEFAULT,
            idle_connections_max: IDLE_CONNECTIONS_DEFAULT,
            answer_bytes_max: ANSWER_BYTES_DEFAULT,
        }
    }

    /// Sets the maximum time that an enqueue waits and retries.
    #[must_use]
    pub const fn patience(mut self, time: Duration) -> Self {
        self.patience = time;
        self
    }

    /// Sets the key for authentication.
    #[must_use]
    pub fn key(mut self, key: impl Into<String>) -> Self {
        self.key = Some(key.into());
        self
    }

    /// The key to send: from the options, the URL, or the environment if it is for this server.
    pub(crate) fn shown_key(&self) -> Result<Option<String>> {
        let in_url = self.parts().0.filter(|key| !key.is_empty()).map(str::to_owned);
        if let Some(key) = self.key.clone().or(in_url) {
            return Ok(Some(key));
        }
        let set = |name| std::env::var(name).ok().filter(|value| !value.is_empty());
        match set(KEY_VARIABLE) {
            Some(key) => self.key_for(key, set(KEY_HOST_VARIABLE)).map(Some),
            None => Ok(None),
        }
    }

    /// Returns the key of the environment if `hosts` contains this server or is `None`.
    fn key_for(&self, key: String, hosts: Option<String>) -> Result<String> {
        let url: Uri = self.base()?.parse().unwrap_or_default();
        let (server, host) = (url.authority().map_or("", Authority::as_str), url.host());
        let is_this = |it: &str| {
            it.eq_ignore_ascii_case(server)
                || host.is_some_and(|host| it.eq_ignore_ascii_case(host))
        };
        match hosts {
            Some(hosts) if !hosts.split(',').map(str::trim).any(is_this) => {
                let expected = format!(
                    "{KEY_VARIABLE} is not for {server:?}: add that server here, or unset both variables"
                );
                Err(Error::invalid(KEY_HOST_VARIABLE, hosts, expected))
            }
            _ => Ok(key),
        }
    }

    /// The file of trusted CA certificates.
    pub(crate) fn tls_ca(&self) -> Option<PathBuf> {
        self.tls_ca.clone().or_else(|| file(CA_VARIABLE))
    }

    /// The files of the client certificate and its private key.
    pub(crate) fn tls_identity(&self) -> Result<Option<(PathBuf, PathBuf)>> {
        let cert = self.tls_cert.clone().or_else(|| file(CERT_VARIABLE));
        let key = self.tls_key.clone().or_else(|| file(CERT_KEY_VARIABLE));
        match (cert, key) {
            (Some(cert), Some(key)) => Ok(Some((cert, key))),
            (None, None) => Ok(None),
            (Some(_), None) => {
                let expected =
                    format!("a certificate needs its private key: set {CERT_KEY_VARIABLE}");
                Err(Error::invalid("tls_key", "missing", expected))
            }
            (None, Some(_)) => {
                let expected = format!("a private key needs its certificate: set {CERT_VARIABLE}");
                Err(Error::invalid("tls_cert", "missing", expected))
            }
        }
    }

    /// The key in the URL, and the URL without it. The key may be in the place of the user or the
    /// password, as some programs write it.
    fn parts(&self) -> (Option<&str>, String) {
        let Some((scheme, rest)) = self.url.split_once("://") else {
            return (None, self.url.clone());
        };
        let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
        match rest[..end].rsplit_once('@') {
            Some((user, _)) => {
                let key = user.rsplit(':').find(|part| !part.is_empty());
                (key, format!("{scheme}://{}", &rest[user.len() + 1..]))
            }
            None => (None, self.url.clone()),
        }
    }

    /// The base URL of the API, validated and without a key.
    pub(crate) fn base(&self) -> Result<String> {
        let url = self.parts().1;
        let bad = |expected: &'static str| Error::invalid("url", &url, expected);
        let uri: Uri =
            url.parse().map_err(|_| bad("it must be a URL, as in http://127.0.0.1:7474"))?;
        match uri.scheme_str() {
            Some("http" | "https") => {}
            _ => return Err(bad("it must begin with http:// or https://")),
        }
        let scheme = uri.scheme_str().unwrap_or_default();
        let authority = uri.authority().ok_or_else(|| bad("it must name a host"))?;
        if uri.query().is_some() || authority.as_str().contains('@') {
            return Err(bad("use only an optional key@, a host, a port and an optional path"));
        }
        Ok(format!("{scheme}://{authority}{}", uri.path().trim_end_matches('/')))
    }
}

/// A file path from the environment.
fn file(variable: &str) -> Option<PathBuf> {
    std::env::var_os(variable).filter(|path| !path.is_empty()).map(PathBuf::from)
}

impl fmt::Debug for Options {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Options")
            .field("url", &self.parts().1)
            .field("key", &self.key.as_ref().map(|_| HIDDEN))
            .field("tls_ca", &self.tls_ca)
            .field("tls_cert", &self.tls_cert)
            .field("tls_key", &self.tls_key)
            .field("connect_timeout", &self.connect_timeout)
            .field("answer_timeout", &self.answer_timeout)
            .field("patience", &self.patience)
            .field("idle_connections_max", &self.idle_connections_max)
            .field("answer_bytes_max", &self.answer_bytes_max)
            .finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_is_taken_apart_or_refused_with_the_way_out() {
        let base = |url: &str| Options::new(url).base();
        assert_eq!(base("http://127.0.0.1:7474").unwrap(), "http://127.0.0.1:7474");
        assert_eq!(base("http://host/jobs/").unwrap(), "http://host/jobs");
        assert_eq!(base("https://wl_1@host").unwrap(), "https://host");
        let bad = ["", "host:1", "http://", "http://host?x=1", "file:x"];
        for url in bad {
            assert_eq!(base(url).unwrap_err().field(), Some("url"), "{url}");
        }
    }

    #[test]
    fn a_key_in_the_url_is_taken_out_and_never_shown() {
        for url in
            ["http://wl_s3cr3t@host:1", "http://:wl_s3cr3t@host:1", "http://key:wl_s3cr3t@host:1"]
        {
            let options = Options::new(url);
            assert_eq!(options.shown_key().unwrap().as_deref(), Some("wl_s3cr3t"), "{url}");
            assert_eq!(options.base().unwrap(), "http://host:1");
            assert!(!format!("{options:?}").contains("s3cr3t"), "{options:?}");
        }
        let error = Options::new("ftp://wl_s3cr3t@host").base().unwrap_err().to_string();
        assert!(!error.contains("s3cr3t"), "{error}");
        let reported = Options::new("http://wl_1@host").key("wl_2");
        assert_eq!(reported.shown_key().unwrap().as_deref(), Some("wl_2"));
        assert!(!format!("{reported:?}").contains("wl_2"));
    }

    #[test]
    fn a_key_of_the_environment_is_for_the_servers_it_was_given_for() {
        let key_for = |url: &str, hosts: Option<&str>| {
            Options::new(url).key_for("wl_s3cr3t".into(), hosts.map(str::to_owned))
        };
        let jobs = "https://jobs.example.org:7474/v";
        for hosts in [None, Some("jobs.example.org"), Some("a, JOBS.example.org:7474")] {
            assert_eq!(key_for(jobs, hosts).unwrap(), "wl_s3cr3t", "{hosts:?}");
        }
        assert!(key_for("http://[::1]:7474", Some("[::1]:7474")).is_ok());
        for hosts in ["example.org", "jobs.example.org:7475", ",", "jobs.example.org.evil"] {
            let error = key_for(jobs, Some(hosts)).unwrap_err().to_string();
            assert!(error.contains("jobs.example.org:7474") && error.contains(hosts), "{error}");
            assert!(!error.contains("s3cr3t"), "{error}");
        }
    }
}
