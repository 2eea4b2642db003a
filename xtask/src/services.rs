//! The servers that tests need: started before the first test, stopped after the last, even if tests fail.

use crate::postgres::Postgres;
use crate::redis::Redis;
use crate::{axe, chromium, pgbouncer, promtool};
use anyhow::Result;

/// Held while tests run; dropping it stops what it started.
#[must_use = "dropping it stops the servers"]
pub(crate) struct Services {
    postgres: Option<Postgres>,
    redis: Option<Redis>,
    /// Variables with the programs of ignored tests.
    programs: Vec<(&'static str, String)>,
}

impl Services {
    /// Starts the servers that the engines under test need, and installs the programs that tests start
    /// themselves: a browser for the dashboard and a pooler for PostgreSQL. `long`: also those of ignored tests.
    pub(crate) fn start(long: bool) -> Result<Self> {
        chromium::ensure()?;
        pgbouncer::ensure()?;
        let programs = if long { vec![axe::ensure()?, promtool::ensure()?] } else { Vec::new() };
        Ok(Self { postgres: Postgres::start()?, redis: Redis::start()?, programs })
    }

    /// Environment variables for the tests.
    pub(crate) fn variables(&self) -> Vec<(&'static str, String)> {
        let postgres = self.postgres.iter().flat_map(Postgres::variables);
        let redis = self.redis.iter().map(Redis::variable);
        postgres.chain(redis).chain(self.programs.clone()).collect()
    }
}
