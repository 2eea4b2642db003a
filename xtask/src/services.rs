//! The servers that tests need: started before the first test, stopped however the tests end.

use crate::postgres::Postgres;
use crate::{chromium, pgbouncer};
use anyhow::Result;

/// Held while tests run; dropping it stops what it started.
#[must_use = "dropping it stops the servers"]
pub(crate) struct Services {
    postgres: Option<Postgres>,
}

impl Services {
    /// Starts what the engines under test need. Most need nothing; the dashboard's test needs a browser,
    /// and those of PostgreSQL a pooler, which they start themselves.
    pub(crate) fn start() -> Result<Self> {
        chromium::ensure()?;
        pgbouncer::ensure()?;
        Ok(Self { postgres: Postgres::start()? })
    }

    /// What tests must find in their environment.
    pub(crate) fn variables(&self) -> Vec<(&'static str, String)> {
        self.postgres.iter().flat_map(Postgres::variables).collect()
    }
}
