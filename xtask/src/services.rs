//! The servers that tests need: started before the first test, stopped however the tests end.

use crate::chromium;
use anyhow::Result;

/// Held while tests run; dropping it stops what it started.
#[must_use = "dropping it stops the servers"]
pub(crate) struct Services;

impl Services {
    /// Starts what the engines under test need. The memory engine needs nothing; the dashboard's test
    /// needs a browser, which it starts itself.
    pub(crate) fn start() -> Result<Self> {
        chromium::ensure()?;
        Ok(Self)
    }
}
