//! Parses PostgreSQL URLs and extracts Windlass's own parameters: the schema, and whether to migrate. Never
//! prints a secret; never connects.

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};
use std::fmt;

/// The schema if the URL names none.
const SCHEMA_DEFAULT: &str = "windlass";
/// The query parameter that names the schema. Windlass's own: it is removed before PostgreSQL sees the URL.
const SCHEMA_PARAMETER: &str = "schema=";
/// The query parameter that disables migrations on open. Windlass's own, as `schema=` is.
const MIGRATE_PARAMETER: &str = "migrate=";
/// Characters that must be percent-encoded in a URL.
const ENCODED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'_').remove(b'-').remove(b'.');

/// `postgres://user:password@host:port/database?schema=windlass&migrate=off`.
#[derive(Clone, PartialEq, Eq)]
pub struct PostgresUrl {
    server: String,
    schema: String,
    migrate: bool,
}

impl PostgresUrl {
    /// Parses the part of the URL after `postgres://`.
    pub(crate) fn parse(rest: &str) -> Result<Self, String> {
        if rest.is_empty() {
            return Err("name a database, as in postgres://user@host:5432/database".to_owned());
        }
        let (place, query) = rest.split_once('?').unwrap_or((rest, ""));
        let (mut schema, mut migrate) = (SCHEMA_DEFAULT.to_owned(), true);
        let mut others = Vec::new();
        for parameter in query.split('&').filter(|parameter| !parameter.is_empty()) {
            if let Some(name) = parameter.strip_prefix(SCHEMA_PARAMETER) {
                let name = percent_decode_str(name).decode_utf8();
                schema = name.map_err(|_| "schema must be UTF-8".to_owned())?.into_owned();
            } else if let Some(choice) = parameter.strip_prefix(MIGRATE_PARAMETER) {
                migrate = match choice {
                    "on" => true,
                    "off" => false,
                    _ => return Err("migrate must be \"on\" or \"off\"".to_owned()),
                };
            } else {
                others.push(parameter);
            }
        }
        let query =
            if others.is_empty() { String::new() } else { format!("?{}", others.join("&")) };
        Ok(Self { server: format!("postgres://{place}{query}"), schema, migrate })
    }

    /// The URL without Windlass's own parameters. Contains the password.
    pub fn server(&self) -> &str {
        &self.server
    }

    /// The name of the schema.
    pub fn schema(&self) -> &str {
        &self.schema
    }

    /// Whether opening the store creates and updates its tables.
    pub const fn migrates(&self) -> bool {
        self.migrate
    }

    /// The same database with another schema.
    #[must_use]
    pub fn with_schema(&self, schema: impl Into<String>) -> Self {
        Self { schema: schema.into(), ..self.clone() }
    }

    /// The same URL with migrations turned on or off.
    #[must_use]
    pub fn with_migrations(&self, migrate: bool) -> Self {
        Self { migrate, ..self.clone() }
    }

    /// The complete URL. Contains the password.
    pub(crate) fn whole(&self) -> String {
        let mut ours = Vec::new();
        if self.schema != SCHEMA_DEFAULT {
            ours.push(format!("{SCHEMA_PARAMETER}{}", utf8_percent_encode(&self.schema, ENCODED)));
        }
        if !self.migrate {
            ours.push(format!("{MIGRATE_PARAMETER}off"));
        }
        if ours.is_empty() {
            return self.server.clone();
        }
        let joint = if self.server.contains('?') { '&' } else { '?' };
        format!("{}{joint}{}", self.server, ours.join("&"))
    }
}

impl fmt::Debug for PostgresUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PostgresUrl({})", crate::url::shown(&self.whole()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn our_parameters_are_removed_from_the_url_for_postgresql() {
        let url = PostgresUrl::parse("ada:pw@db:5432/jobs?schema=mine&connect_timeout=3").unwrap();
        assert_eq!(url.server(), "postgres://ada:pw@db:5432/jobs?connect_timeout=3");
        assert_eq!((url.schema(), url.migrates()), ("mine", true));
        assert!(!format!("{url:?}").contains("pw"));
        let plain = PostgresUrl::parse("db/jobs").unwrap();
        assert_eq!((plain.server(), plain.schema()), ("postgres://db/jobs", "windlass"));
        assert_eq!(plain.with_schema("x").whole(), "postgres://db/jobs?schema=x");
        assert!(PostgresUrl::parse("").is_err());
    }

    #[test]
    fn a_url_is_written_as_it_can_be_read() {
        let url = PostgresUrl::parse("db/jobs?migrate=off&schema=my%20jobs%26").unwrap();
        assert_eq!((url.schema(), url.migrates()), ("my jobs&", false));
        let again = url.whole();
        let again = PostgresUrl::parse(again.strip_prefix("postgres://").unwrap()).unwrap();
        assert_eq!(again, url);
        assert!(again.with_migrations(true).migrates());
        assert!(PostgresUrl::parse("db/jobs?migrate=perhaps").unwrap_err().contains("migrate"));
    }
}
