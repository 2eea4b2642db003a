//! Parses Redis URLs and extracts Windlass's own parameter, the name of the store. Never prints a secret; never
//! connects.

use std::fmt;

/// The name of the store if the URL names none.
const NAME_DEFAULT: &str = "default";
/// The query parameter that names the store. Windlass's own: it is removed before the driver sees the URL.
const NAME_PARAMETER: &str = "name=";

/// `redis://user:password@host:port/database?name=default`, or `rediss://` with TLS.
#[derive(Clone, PartialEq, Eq)]
pub struct RedisUrl {
    server: String,
    name: String,
}

impl RedisUrl {
    /// Parses the part of the URL after `redis://` or `rediss://`.
    pub(crate) fn parse(scheme: &str, rest: &str) -> Result<Self, String> {
        let (place, query) = rest.split_once('?').unwrap_or((rest, ""));
        if place.is_empty() {
            return Err("name a server, as in redis://127.0.0.1:6379".to_owned());
        }
        let mut name = NAME_DEFAULT.to_owned();
        for parameter in query.split('&').filter(|parameter| !parameter.is_empty()) {
            match parameter.strip_prefix(NAME_PARAMETER) {
                Some(given) => given.clone_into(&mut name),
                None => return Err("the only parameter is name, as in ?name=default".to_owned()),
            }
        }
        windlass_core::check_name("name", &name).map_err(|error| error.to_string())?;
        Ok(Self { server: format!("{scheme}://{place}"), name })
    }

    /// The URL without Windlass's own parameter. Contains the password.
    pub fn server(&self) -> &str {
        &self.server
    }

    /// The name of the store.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The same server, with another store.
    #[must_use]
    pub fn with_name(&self, name: impl Into<String>) -> Self {
        Self { server: self.server.clone(), name: name.into() }
    }

    /// The complete URL. Contains the password.
    pub(crate) fn whole(&self) -> String {
        match self.name.as_str() {
            NAME_DEFAULT => self.server.clone(),
            name => format!("{}?{NAME_PARAMETER}{name}", self.server),
        }
    }
}

impl fmt::Debug for RedisUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The URL may contain a password.
        write!(f, "RedisUrl({:?})", self.name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_of_the_store_is_taken_from_the_url_and_the_rest_is_kept() {
        let url = RedisUrl::parse("redis", "ada:x@db:6379/2?name=jobs").unwrap();
        assert_eq!((url.server(), url.name()), ("redis://ada:x@db:6379/2", "jobs"));
        assert_eq!(url.whole(), "redis://ada:x@db:6379/2?name=jobs");
        assert_eq!(RedisUrl::parse("rediss", "db").unwrap().whole(), "rediss://db");
        assert!(RedisUrl::parse("redis", "").unwrap_err().contains("127.0.0.1"));
        assert!(RedisUrl::parse("redis", "db?wait=1").unwrap_err().contains("name"));
        assert!(RedisUrl::parse("redis", "db?name=a b").unwrap_err().contains("letters"));
    }
}
