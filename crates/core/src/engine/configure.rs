//! Settings of queues and kinds.

use crate::error::Result;
use crate::model::{KindPatch, KindSettings, Name, QueuePatch, QueueSettings};
use crate::name::check_name;

/// One change of settings.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Configure {
    /// Changes the settings of a queue.
    Queue(Name, QueuePatch),
    /// Changes the settings of a kind.
    Kind(Name, KindPatch),
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

    /// Validates the change.
    pub fn check(&self) -> Result<()> {
        match self {
            Self::Queue(queue, patch) => check_name("queue", queue).and_then(|()| patch.check()),
            Self::Kind(kind, _) => check_name("kind", kind),
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
}

impl Settings {
    /// Creates a set of settings.
    pub const fn new(queues: Vec<(Name, QueueSettings)>, kinds: Vec<(Name, KindSettings)>) -> Self {
        Self { queues, kinds }
    }
}
