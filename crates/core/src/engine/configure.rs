//! Settings of queues and kinds, and named limits.

use crate::error::Result;
use crate::model::{KindPatch, KindSettings, Limit, Name, QueuePatch, QueueSettings};
use crate::name::check_name;

/// One change of settings.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Configure {
    /// Changes the settings of a queue.
    Queue(Name, QueuePatch),
    /// Changes the settings of a kind.
    Kind(Name, KindPatch),
    /// Creates or replaces a limit; `None` removes it, unless a queue or a kind lists it.
    Limit(Name, Option<Box<Limit>>),
}

impl Configure {
    /// A change to the settings of a queue.
    pub fn queue(queue: impl Into<Name>, patch: QueuePatch) -> Self {
        Self::Queue(queue.into(), patch)
    }

    /// A change to the settings of a kind.
    pub fn kind(kind: impl Into<Name>, patch: KindPatch) -> Self {
        Self::Kind(kind.into(), patch)
    }

    /// Creates or replaces a limit. In effect at once; running jobs are never stopped.
    pub fn limit(name: impl Into<Name>, limit: Limit) -> Self {
        Self::Limit(name.into(), Some(Box::new(limit)))
    }

    /// Removes a limit that no queue and no kind lists.
    pub fn remove_limit(name: impl Into<Name>) -> Self {
        Self::Limit(name.into(), None)
    }

    /// Validates the change.
    pub fn check(&self) -> Result<()> {
        match self {
            Self::Queue(queue, patch) => check_name("queue", queue).and_then(|()| patch.check()),
            Self::Kind(kind, patch) => check_name("kind", kind).and_then(|()| patch.check()),
            Self::Limit(name, limit) => {
                check_name("limit", name)?;
                limit.as_ref().map_or(Ok(()), |limit| limit.check())
            }
        }
    }
}

/// All settings that differ from the defaults, by name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Settings {
    /// Settings of queues.
    pub queues: Vec<(Name, QueueSettings)>,
    /// Settings of kinds.
    pub kinds: Vec<(Name, KindSettings)>,
    /// Limits.
    pub limits: Vec<(Name, Limit)>,
}

impl Settings {
    /// Creates a set of settings.
    pub const fn new(queues: Vec<(Name, QueueSettings)>, kinds: Vec<(Name, KindSettings)>) -> Self {
        Self { queues, kinds, limits: Vec::new() }
    }

    /// Adds limits.
    #[must_use]
    pub fn limits(mut self, limits: Vec<(Name, Limit)>) -> Self {
        self.limits = limits;
        self
    }
}
