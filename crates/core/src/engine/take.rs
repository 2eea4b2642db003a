//! Taking tokens of a limit for work that is not a job.

use crate::error::{Result, within_range};
use crate::limits::{GROUP_BYTES_MAX, LIMIT_AMOUNT_MAX};
use crate::model::Name;
use crate::name::{check_name, check_text};
use crate::time::Timestamp;

/// A request for tokens of a limit with a rate, for programs that share it with jobs. Slots are not counted: only
/// leases hold them.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Take {
    /// The limit.
    pub limit: Name,
    /// The group, for a limit by group.
    pub group: Option<String>,
    /// Number of tokens.
    pub cost: u32,
}

impl Take {
    /// Takes one token.
    pub fn new(limit: impl Into<Name>) -> Self {
        Self { limit: limit.into(), group: None, cost: 1 }
    }

    /// Sets the group.
    #[must_use]
    pub fn group(mut self, group: impl Into<String>) -> Self {
        self.group = Some(group.into());
        self
    }

    /// Sets the number of tokens.
    #[must_use]
    pub const fn cost(mut self, cost: u32) -> Self {
        self.cost = cost;
        self
    }

    /// Validates the request.
    pub fn check(&self) -> Result<()> {
        check_name("limit", &self.limit)?;
        if let Some(group) = &self.group {
            check_text("group", group, GROUP_BYTES_MAX)?;
        }
        within_range("cost", self.cost.into(), 1..=LIMIT_AMOUNT_MAX.into())
    }
}

/// The reply to a request for tokens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Took {
    /// The tokens were taken.
    Granted,
    /// Nothing was taken. The tokens will be there at this time, unless others take them first.
    At(Timestamp),
}
