//! How a server is talked to: where it is, and the bound of every wait and buffer.

use http::Uri;
use windlass_core::{Error, Result};

/// For a connection to stand, unless set otherwise.
const CONNECT_TIMEOUT_DEFAULT_MS: u64 = 5_000;
/// For an answer, unless set otherwise: longer than the server gives its engine.
const ANSWER_TIMEOUT_DEFAULT_MS: u64 = 40_000;
/// For a queue to have room, or for our own turn, unless set otherwise.
const PATIENCE_DEFAULT_MS: u64 = 10_000;
/// Connections kept while nobody uses them, unless set otherwise.
const IDLE_CONNECTIONS_DEFAULT: usize = 64;
/// Bytes of one answer, unless set otherwise.
const ANSWER_BYTES_DEFAULT: usize = 512 * 1024 * 1024;

/// What a remote engine is told. Only the URL is needed.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Options {
    /// Where the server is, as `http://host:port`, with a path before `/v1` where a proxy adds one.
    pub url: String,
    /// How long a connection may take to stand.
    pub connect_timeout_ms: u64,
    /// How long an answer may take, waiting on purpose not counted.
    pub answer_timeout_ms: u64,
    /// How long an enqueue waits and tries again where the server says when to (`Retry-After`), because a
    /// queue is full or jobs come too fast; 0: not at all.
    pub patience_ms: u64,
    /// Connections kept while nobody uses them. More are opened under load, and closed after it.
    pub idle_connections_max: usize,
    /// Bytes of one answer.
    pub answer_bytes_max: usize,
}

impl Options {
    /// The server at `url`, with every default.
    pub fn new(url: impl Into<String>) -> Self {
        Self {
            url: url.into(),
            connect_timeout_ms: CONNECT_TIMEOUT_DEFAULT_MS,
            answer_timeout_ms: ANSWER_TIMEOUT_DEFAULT_MS,
            patience_ms: PATIENCE_DEFAULT_MS,
            idle_connections_max: IDLE_CONNECTIONS_DEFAULT,
            answer_bytes_max: ANSWER_BYTES_DEFAULT,
        }
    }

    /// Waits so long where the server says when to come again.
    #[must_use]
    pub const fn patience_ms(mut self, ms: u64) -> Self {
        self.patience_ms = ms;
        self
    }

    /// The URL before the paths of the API, checked.
    pub(crate) fn base(&self) -> Result<String> {
        let bad = |expected: &'static str| Error::invalid("url", &self.url, expected);
        let uri: Uri =
            self.url.parse().map_err(|_| bad("it must be a URL, as in http://127.0.0.1:7474"))?;
        match uri.scheme_str() {
            Some("http") => {}
            Some("https") => {
                return Err(bad("TLS is not supported yet; use http, or a tunnel"));
            }
            _ => return Err(bad("it must begin with http://")),
        }
        let authority = uri.authority().ok_or_else(|| bad("it must name a host"))?;
        if uri.query().is_some() || authority.as_str().contains('@') {
            return Err(bad("it must be a host, a port and perhaps a path, and nothing else"));
        }
        Ok(format!("http://{authority}{}", uri.path().trim_end_matches('/')))
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
        let bad = [
            "",
            "host:1",
            "https://host",
            "http://",
            "http://a:b@host",
            "http://host?x=1",
            "file:x",
        ];
        for url in bad {
            assert_eq!(base(url).unwrap_err().field(), Some("url"), "{url}");
        }
    }
}
