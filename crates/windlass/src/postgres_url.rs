//! A PostgreSQL database as people write it, and the schema in it. Shows no secret; connects to nothing.

use std::fmt;

/// The schema unless the URL names another.
const SCHEMA_DEFAULT: &str = "windlass";
/// The parameter that names one. It is ours: PostgreSQL does not know it.
const SCHEMA_PARAMETER: &str = "schema=";

/// `postgres://user:password@host:port/database?schema=windlass`.
#[derive(Clone, PartialEq, Eq)]
pub struct PostgresUrl {
    server: String,
    schema: String,
}

impl PostgresUrl {
    /// Reads what stands behind `postgres://`.
    pub(crate) fn parse(rest: &str) -> Result<Self, String> {
        if rest.is_empty() {
            return Err("name a database, as in postgres://user@host:5432/database".to_owned());
        }
        let (place, query) = rest.split_once('?').unwrap_or((rest, ""));
        let (mut schema, mut others) = (SCHEMA_DEFAULT, Vec::new());
        for parameter in query.split('&').filter(|parameter| !parameter.is_empty()) {
            match parameter.strip_prefix(SCHEMA_PARAMETER) {
                Some(name) => schema = name,
                None => others.push(parameter),
            }
        }
        let query =
            if others.is_empty() { String::new() } else { format!("?{}", others.join("&")) };
        Ok(Self { server: format!("postgres://{place}{query}"), schema: schema.to_owned() })
    }

    /// The URL as PostgreSQL understands it, its password included.
    pub fn server(&self) -> &str {
        &self.server
    }

    /// The schema.
    pub fn schema(&self) -> &str {
        &self.schema
    }

    /// The same database, another schema.
    #[must_use]
    pub fn with_schema(&self, schema: impl Into<String>) -> Self {
        Self { server: self.server.clone(), schema: schema.into() }
    }

    /// All of it, its password included.
    pub(crate) fn whole(&self) -> String {
        if self.schema == SCHEMA_DEFAULT {
            return self.server.clone();
        }
        let joint = if self.server.contains('?') { '&' } else { '?' };
        format!("{}{joint}{SCHEMA_PARAMETER}{}", self.server, self.schema)
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
    fn the_schema_is_taken_out_of_what_postgresql_reads() {
        let url = PostgresUrl::parse("ada:pw@db:5432/jobs?schema=mine&connect_timeout=3").unwrap();
        assert_eq!(url.server(), "postgres://ada:pw@db:5432/jobs?connect_timeout=3");
        assert_eq!(url.schema(), "mine");
        assert!(!format!("{url:?}").contains("pw"));
        let plain = PostgresUrl::parse("db/jobs").unwrap();
        assert_eq!((plain.server(), plain.schema()), ("postgres://db/jobs", "windlass"));
        assert_eq!(plain.with_schema("x").whole(), "postgres://db/jobs?schema=x");
        assert!(PostgresUrl::parse("").is_err());
    }
}
