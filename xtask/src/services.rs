//! The servers that tests need: started before the first test, stopped after the last, even if tests fail.

use crate::postgres::Postgres;
use crate::{chromium, pgbouncer};
use anyhow::Result;

/// Held while tests run; dropping it stops what it started.
#[must_use = "dropping it stops the servers"]
pub(crate) struct Services {
    postgres: Option<Postgres>,
}

impl Services {
    /// Starts the servers that the engines under test need, and installs the programs that tests start
    /// themselves: a browser for the dashboard and a pooler for PostgreSQL.
    pub(crate) fn start() -> Result<Self> {
        chromium::ensure()?;
        pgbouncer::ensure()?;
        Ok(Self { postgres: Postgres::start()? })
    }

    /// Environment variables for the tests.
    pub(crate) fn variables(&self) -> Vec<(&'static str, String)> {
        self.postgres.iter().flat_map(Postgres::variables).collect()
    }
}
