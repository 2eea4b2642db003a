//! Parses Redis URLs and extracts Windlass's own parameter, the name of the store. Never prints a secret; never
//! connects.

use std::fmt;

/// The name of the store if the URL names none.
const NAME_DEFAULT: &str = "default";
/// The query parameter that names the store. Windlass's own: it is removed before the driver sees the URL.
const NAME_PARAMETER: &str = "name=";
/// The query parameter that sets the watermark of memory; Windlass's own, too.
const WATERMARK_PARAMETER: &str = "memory_watermark=";

/// `redis://user:password@host:port/database?name=default&memory_watermark=90`, `rediss://` with TLS, or
/// `redis+sentinel://user:password@host:port,host:port/primary/database`.
#[derive(Clone, PartialEq, Eq)]
pub struct RedisUrl {
    server: String,
    name: String,
    memory_watermark: Option<u8>,
}

impl RedisUrl {
    /// Parses the part of the URL after `redis://` or `rediss://`.
    pub(crate) fn parse(scheme: &str, rest: &str) -> Result<Self, String> {
        let (place, query) = rest.split_once('?').unwrap_or((rest, ""));
        if place.is_empty() {
            return Err("name a server, as in redis://127.0.0.1:6379".to_owned());
        }
        let (mut name, mut memory_watermark) = (NAME_DEFAULT.to_owned(), None);
        for parameter in query.split('&').filter(|parameter| !parameter.is_empty()) {
            if let Some(given) = parameter.strip_prefix(NAME_PARAMETER) {
                given.clone_into(&mut name);
            } else if let Some(given) = parameter.strip_prefix(WATERMARK_PARAMETER) {
                let percent = given.parse().ok().filter(|percent| (1..=100).contains(percent));
                let error = "memory_watermark is a percentage from 1 to 100";
                memory_watermark = Some(percent.ok_or_else(|| error.to_owned())?);
            } else {
                let known = "the parameters are name and memory_watermark, as in ?name=default";
                return Err(known.to_owned());
            }
        }
        windlass_core::check_name("name", &name).map_err(|error| error.to_string())?;
        Ok(Self { server: format!("{scheme}://{place}"), name, memory_watermark })
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
        Self { name: name.into(), ..self.clone() }
    }

    /// The options of an engine there.
    #[cfg(feature = "redis")]
    pub fn options(&self) -> windlass_redis::Options {
        let options = windlass_redis::Options::new(&self.server).name(&self.name);
        match self.memory_watermark {
            Some(percent) => options.memory_watermark(percent),
            None => options,
        }
    }

    /// The complete URL. Contains the password.
    pub(crate) fn whole(&self) -> String {
        let name = Some(&self.name).filter(|name| *name != NAME_DEFAULT);
        let name = name.map(|name| format!("{NAME_PARAMETER}{name}"));
        let watermark = self.memory_watermark.map(|it| format!("{WATERMARK_PARAMETER}{it}"));
        let query: Vec<String> = name.into_iter().chain(watermark).collect();
        match query.is_empty() {
            true => self.server.clone(),
            false => format!("{}?{}", self.server, query.join("&")),
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
        let url = RedisUrl::parse("redis+sentinel", "a:1,b:2/main?memory_watermark=80").unwrap();
        assert_eq!(url.whole(), "redis+sentinel://a:1,b:2/main?memory_watermark=80");
        let error = RedisUrl::parse("redis", "db?memory_watermark=0").unwrap_err();
        assert!(error.contains("from 1 to 100"), "{error}");
        assert!(RedisUrl::parse("redis", "").unwrap_err().contains("127.0.0.1"));
        assert!(RedisUrl::parse("redis", "db?wait=1").unwrap_err().contains("name"));
        assert!(RedisUrl::parse("redis", "db?name=a b").unwrap_err().contains("letters"));
    }
}
