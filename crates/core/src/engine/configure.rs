//! Settings of queues and kinds.

use crate::error::Result;
use crate::model::{KindPatch, KindSettings, Name, QueuePatch, QueueSettings};
use crate::name::check_name;

/// One change of settings.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Configure {
    /// Of a queue.
    Queue(Name, QueuePatch),
    /// Of a kind.
    Kind(Name, KindPatch),
}

impl Configure {
    /// Of a queue.
    pub fn queue(queue: impl Into<Name>, patch: QueuePatch) -> Self {
        Self::Queue(queue.into(), patch)
    }

    /// Of a kind.
    pub fn kind(kind: impl Into<Name>, patch: KindPatch) -> Self {
        Self::Kind(kind.into(), patch)
    }

    /// Whether it is acceptable.
    pub fn check(&self) -> Result<()> {
        match self {
            Self::Queue(queue, patch) => check_name("queue", queue).and_then(|()| patch.check()),
            Self::Kind(kind, _) => check_name("kind", kind),
        }
    }
}

/// Settings that differ from the defaults, by name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Settings {
    /// Of queues.
    pub queues: Vec<(Name, QueueSettings)>,
    /// Of kinds.
    pub kinds: Vec<(Name, KindSettings)>,
}

impl Settings {
    /// These.
    pub const fn new(queues: Vec<(Name, QueueSettings)>, kinds: Vec<(Name, KindSettings)>) -> Self {
        Self { queues, kinds }
    }
}
