//! What an engine can do beyond the contract, and how durable it is.

use std::fmt;

/// How much is done in one atomic step.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Atomicity {
    /// Items of one queue; follow-ups to another go through an outbox, once.
    Queue,
    /// The whole store.
    Store,
}

/// What an acknowledged write survives. Each grade includes the ones before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Durability {
    /// Nothing: it lives in this process.
    Volatile,
    /// The death of our processes; a crash of the store may take the last seconds with it.
    Relaxed,
    /// The death of any process, the store's included.
    Process,
    /// Loss of power.
    Host,
    /// Loss of the host.
    Replica,
}

/// A behaviour that not every engine has. The kit runs its checks where it is announced, and checks
/// that it is refused where it is not.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Capability {
    /// Unique keys across all queues ([`UniqueScope::Global`](crate::policy::UniqueScope)).
    GlobalUnique,
    /// Queues in which tenants take turns ([`Order::Fair`](crate::model::Order)).
    FairOrder,
}

impl Capability {
    /// All of them.
    pub const ALL: [Self; 2] = [Self::GlobalUnique, Self::FairOrder];
}

impl fmt::Display for Capability {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::GlobalUnique => "unique keys across queues",
            Self::FairOrder => "fair order",
        })
    }
}

/// What an engine can do.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Capabilities {
    /// The engine's name, as it stands in messages.
    pub engine: &'static str,
    /// How much is done in one atomic step.
    pub atomicity: Atomicity,
    /// What an acknowledged write survives.
    pub durability: Durability,
    /// Bytes of payload it takes.
    pub payload_bytes_max: usize,
    has: u32,
}

impl Capabilities {
    /// An engine with the bare contract.
    pub const fn new(engine: &'static str, atomicity: Atomicity, durability: Durability) -> Self {
        let payload_bytes_max = crate::limits::PAYLOAD_BYTES_DEFAULT;
        Self { engine, atomicity, durability, payload_bytes_max, has: 0 }
    }

    /// And with this.
    #[must_use]
    pub const fn with(mut self, capability: Capability) -> Self {
        self.has |= 1 << capability as u32;
        self
    }

    /// Whether it has this.
    pub const fn has(&self, capability: Capability) -> bool {
        self.has & (1 << capability as u32) != 0
    }
}
