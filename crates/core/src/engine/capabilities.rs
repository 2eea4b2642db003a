//! Capabilities of an engine beyond the contract, and its durability.

use crate::error::{Result, within_range};
use crate::limits;
use std::fmt;

/// The scope of one atomic step.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Atomicity {
    /// Items of one queue; follow-ups and dependents in other queues are reached through an outbox, exactly once.
    Queue,
    /// The whole store.
    Store,
}

/// The failures that an acknowledged write survives. Each level includes the previous ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Durability {
    /// None: data lives in this process.
    Volatile,
    /// The death of Windlass processes; a crash of the store may lose the last seconds.
    Relaxed,
    /// The death of any process, including the store's.
    Process,
    /// Power loss.
    Host,
    /// Loss of the host.
    Replica,
}

/// A feature that not every engine has. The conformance kit tests it on engines that announce it, and tests
/// that other engines refuse it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Capability {
    /// Unique keys across queues ([`UniqueScope::Kind`](crate::policy::UniqueScope) and `Global`).
    GlobalUnique,
    /// Queues that share capacity fairly among tenants ([`Order::Fair`](crate::model::Order)).
    FairOrder,
    /// Moving jobs to another queue ([`Change::Move`](super::Change::Move), [`SettleItem::queue`](super::SettleItem),
    /// [`Edits::queue`](super::Edits)).
    Move,
    /// Named limits ([`Limit`](crate::model::Limit)), and jobs with a group or a cost.
    Limits,
    /// Jobs that run after others ([`NewJob::after`](crate::model::NewJob::after)), and flows.
    Flows,
    /// Streams of the transitions of a queue's jobs
    /// ([`QueueSettings::events`](crate::model::QueueSettings::events), [`Admin::events`](super::Admin::events)).
    Events,
    /// Queues that pass new jobs on to others ([`QueueSettings::subscriptions`](crate::model::QueueSettings::subscriptions)).
    Topics,
}

impl Capability {
    /// All capabilities.
    pub const ALL: [Self; 7] = [
        Self::GlobalUnique,
        Self::FairOrder,
        Self::Move,
        Self::Limits,
        Self::Flows,
        Self::Events,
        Self::Topics,
    ];
}

impl fmt::Display for Capability {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::GlobalUnique => "unique keys across queues",
            Self::FairOrder => "fair order",
            Self::Move => "moves between queues",
            Self::Limits => "limits",
            Self::Flows => "dependencies and flows",
            Self::Events => "events",
            Self::Topics => "topics",
        })
    }
}

/// The capabilities of an engine.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Capabilities {
    /// The engine's name for messages.
    pub engine: &'static str,
    /// The scope of one atomic step.
    pub atomicity: Atomicity,
    /// The failures that an acknowledged write survives.
    pub durability: Durability,
    /// Maximum payload size in bytes, of every job of the store.
    pub payload_bytes_max: usize,
    has: u32,
}

impl Capabilities {
    /// An engine with the plain contract.
    pub const fn new(engine: &'static str, atomicity: Atomicity, durability: Durability) -> Self {
        let payload_bytes_max = limits::PAYLOAD_BYTES_DEFAULT;
        Self { engine, atomicity, durability, payload_bytes_max, has: 0 }
    }

    /// Sets the maximum payload size, up to [`limits::PAYLOAD_BYTES_MAX`].
    pub fn limit_payloads(mut self, bytes_max: usize) -> Result<Self> {
        within_range("payload_bytes_max", bytes_max as u64, 1..=limits::PAYLOAD_BYTES_MAX as u64)?;
        self.payload_bytes_max = bytes_max;
        Ok(self)
    }

    /// Adds a capability.
    #[must_use]
    pub const fn with(mut self, capability: Capability) -> Self {
        self.has |= 1 << capability as u32;
        self
    }

    /// Whether the engine has this capability.
    pub const fn has(&self, capability: Capability) -> bool {
        self.has & (1 << capability as u32) != 0
    }
}
