//! Parses and prints store URLs. Does not open stores.

use crate::error::Error;
use crate::postgres_url::PostgresUrl;
use crate::redis_url::RedisUrl;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

/// The supported schemes, for error messages.
const KNOWN: &str = "memory: (in this process, nothing kept), file:DIR (durable, in one directory), \
    postgres://USER@HOST/DATABASE (shared by any number of processes), redis://HOST:PORT (likewise), \
    http://HOST:PORT or https://HOST:PORT (a server)";
/// Schemes reserved for future engines.
const NOT_YET: &[&str] = &["redis+cluster", "rediss+cluster", "rediss+sentinel"];
/// Replaces anything that may be a secret.
const HIDDEN: &str = "***";

/// The location of a store.
///
/// ```
/// let url: windlass::Url = "file:./jobs".parse()?;
/// assert_eq!(url, windlass::Url::File("./jobs".into()));
/// # Ok::<(), windlass::Error>(())
/// ```
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
#[non_exhaustive]
pub enum Url {
    /// `memory:`, in this process; nothing is persisted.
    Memory,
    /// `file:DIR`, durable in one directory, owned by one process at a time.
    File(PathBuf),
    /// `postgres://USER@HOST/DATABASE`, PostgreSQL.
    Postgres(PostgresUrl),
    /// `redis://HOST:PORT`, Redis or Valkey; `rediss://` with TLS; `redis+sentinel://HOST:PORT/PRIMARY` by sentinels.
    Redis(RedisUrl),
    /// `http://HOST:PORT`, a Windlass server. If the server requires a key, it is part of the URL
    /// (`http://wl_…@HOST:PORT`) or in the environment variable `WINDLASS_KEY`.
    Http(String),
}

impl FromStr for Url {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        parse(text).map_err(|reason| Error::Connect { url: shown(text), reason })
    }
}

fn parse(text: &str) -> Result<Url, String> {
    let Some((scheme, rest)) = text.split_once(':') else {
        return Err(format!("it has no scheme; the known ones: {KNOWN}"));
    };
    // Other tools write `file:/var/jobs` as `file:///var/jobs`.
    let rest = rest.strip_prefix("//").unwrap_or(rest);
    match scheme {
        "memory" if rest.is_empty() => Ok(Url::Memory),
        "memory" => Err("memory: takes nothing after the colon".to_owned()),
        "file" if rest.is_empty() => Err("name a directory, as in file:./jobs".to_owned()),
        "file" => Ok(Url::File(rest.into())),
        "postgres" | "postgresql" => PostgresUrl::parse(rest).map(Url::Postgres),
        "redis" | "rediss" | "redis+sentinel" => RedisUrl::parse(scheme, rest).map(Url::Redis),
        "http" | "https" if rest.is_empty() => {
            Err("name a server, as in http://127.0.0.1:7474".to_owned())
        }
        "http" | "https" => Ok(Url::Http(format!("{scheme}://{rest}"))),
        _ if NOT_YET.contains(&scheme) => {
            Err(format!("{scheme}: is not available in this version; use one of: {KNOWN}"))
        }
        _ if is_scheme(scheme) => {
            Err(format!("scheme {scheme:?} is not known; the known ones: {KNOWN}"))
        }
        _ => Err(format!("it is not a URL; the known ones: {KNOWN}")),
    }
}

fn is_scheme(text: &str) -> bool {
    let fits = |c: char| c.is_ascii_alphanumeric() || "+-.".contains(c);
    text.starts_with(|c: char| c.is_ascii_alphabetic()) && text.chars().all(fits)
}

/// A URL for messages: without user, password and query. Passwords may contain any character, so this hides
/// too much rather than too little.
pub(crate) fn shown(text: &str) -> String {
    let Some((scheme, rest)) = text.split_once(':').filter(|(scheme, _)| is_scheme(scheme)) else {
        let is_plain = text.chars().all(|c| c.is_ascii_alphanumeric() || "_-./\\".contains(c));
        return if is_plain { format!("{text:?}") } else { HIDDEN.to_owned() };
    };
    if scheme == "file" || scheme == "memory" {
        return text.to_owned();
    }
    let (slashes, rest) = match rest.strip_prefix("//") {
        Some(rest) => ("//", rest),
        None => ("", rest),
    };
    let (user, rest) = match rest.rsplit_once('@') {
        Some((_, rest)) => (format!("{HIDDEN}@"), rest),
        None => (String::new(), rest),
    };
    let place = rest.split(['?', '#']).next().unwrap_or_default();
    let query = if place.len() < rest.len() { format!("?{HIDDEN}") } else { String::new() };
    format!("{scheme}:{slashes}{user}{place}{query}")
}

impl fmt::Display for Url {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Memory => f.write_str("memory:"),
            Self::File(dir) => write!(f, "file:{}", dir.display()),
            Self::Postgres(url) => f.write_str(&shown(&url.whole())),
            Self::Redis(url) => f.write_str(&shown(&url.whole())),
            Self::Http(url) => f.write_str(&shown(url)),
        }
    }
}

/// Same as `Display`: without secrets.
impl fmt::Debug for Url {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Url({self})")
    }
}

impl TryFrom<String> for Url {
    type Error = Error;

    fn try_from(text: String) -> Result<Self, Error> {
        text.parse()
    }
}

impl From<Url> for String {
    /// The complete URL, secrets included; use `Display` for anything that people see.
    fn from(url: Url) -> Self {
        match url {
            Url::Postgres(url) => url.whole(),
            Url::Redis(url) => url.whole(),
            Url::Http(url) => url,
            url => url.to_string(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(text: &str) -> String {
        text.parse::<Url>().unwrap_err().to_string()
    }

    #[test]
    fn known_urls_are_read_and_written_alike() {
        for text in ["memory:", "file:jobs", "file:/var/jobs"] {
            assert_eq!(text.parse::<Url>().unwrap().to_string(), text);
        }
        assert_eq!("file:///var/jobs".parse::<Url>().unwrap(), Url::File("/var/jobs".into()));
    }

    #[test]
    fn an_unknown_scheme_names_the_known_ones() {
        for text in ["sqs://host", "jobs", "redis+cluster://host"] {
            let error = refusal(text);
            assert!(error.contains("memory:") && error.contains("file:DIR"), "{error}");
        }
        assert!(refusal("file:").contains("directory"));
        assert!(refusal("memory:x").contains("memory:x"));
    }

    #[test]
    fn a_planned_engine_is_refused_by_its_url() {
        let text = "redis+cluster://db:6379";
        let error = refusal(text);
        assert!(error.contains(text) && error.contains("not available in this version"));
    }

    #[test]
    fn no_secret_is_ever_shown() {
        let secret = "s3cr3t";
        for text in [
            "redis+cluster://:s3cr3t@db",
            "redis+cluster://ada:pa/s3cr3t@x@db/0",
            "redis://db/0?user=ada&password=s3cr3t",
            "host=db password=s3cr3t",
            "host=db password=s3cr3t:x",
            "db password s3cr3t",
        ] {
            let error = refusal(text);
            assert!(!error.contains(secret), "{error}");
        }
        let text = "http://wl_s3cr3t@jobs.example.org:7474";
        let url: Url = text.parse().unwrap();
        assert_eq!(url.to_string(), "http://***@jobs.example.org:7474");
        assert!(!format!("{url:?}").contains(secret));
        assert_eq!(String::from(url), text, "connecting needs it");
        let url: Url = "redis://ada:s3cr3t@db:6379/0?name=jobs".parse().unwrap();
        assert_eq!(url.to_string(), "redis://***@db:6379/0?***");
        for text in [
            "postgres://ada:s3cr3t@db:5432/jobs?sslmode=require",
            "postgres://ada:pa/s3cr3t@x@db:5432/jobs?password=s3cr3t",
        ] {
            let url: Url = text.parse().unwrap();
            assert_eq!(url.to_string(), "postgres://***@db:5432/jobs?***");
            assert!(!format!("{url:?}").contains(secret));
            assert_eq!(String::from(url), text, "connecting needs it");
        }
    }
}
