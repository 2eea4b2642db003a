//! What operators set per queue and per kind.

use crate::error::{Error, Result, within_range};
use crate::limits::AGE_MAX_MS;
use crate::policy::Retention;
use serde::{Deserialize, Serialize};

/// How ready jobs of a queue are ordered within a lane. See [`crate::policy::rank`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Order {
    /// By priority, then by entry.
    #[default]
    Strict,
    /// By the time a job became ready, each step of priority worth `quantum_ms`: nothing starves.
    Ageing {
        /// How much waiting one step of priority is worth.
        quantum_ms: u64,
    },
    /// The newest first, to the millisecond; priority is ignored.
    Lifo,
    /// Tenants take turns, whoever floods the queue; priority is ignored.
    Fair,
}

/// The settings of a queue.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct QueueSettings {
    /// Nothing of it is claimed while set.
    pub paused: bool,
    /// Enqueues are refused when this many jobs wait.
    pub max_depth: Option<u64>,
    /// How its ready jobs are ordered. A change applies to jobs that become ready after it.
    pub order: Order,
    /// How long its finished jobs are kept, unless they say otherwise.
    pub retention: Retention,
    /// When its waiting jobs expire, unless they say otherwise.
    pub max_wait_ms: Option<u64>,
    /// Bytes that its dead letters may hold together. Beyond them the oldest go, whatever their
    /// retention says.
    pub dead_bytes_max: Option<u64>,
}

/// A change of some settings of a queue; what is `None` stays.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct QueuePatch {
    /// Pause or resume.
    pub paused: Option<bool>,
    /// Set or lift the depth limit.
    pub max_depth: Option<Option<u64>>,
    /// Order ready jobs so from now on.
    pub order: Option<Order>,
    /// Keep finished jobs so long.
    pub retention: Option<Retention>,
    /// Set or lift the waiting limit.
    pub max_wait_ms: Option<Option<u64>>,
    /// Set or lift the limit of bytes of dead letters.
    pub dead_bytes_max: Option<Option<u64>>,
}

impl QueuePatch {
    /// Pauses or resumes.
    pub fn paused(paused: bool) -> Self {
        Self { paused: Some(paused), ..Self::default() }
    }

    /// Sets or lifts the depth limit.
    pub fn max_depth(limit: Option<u64>) -> Self {
        Self { max_depth: Some(limit), ..Self::default() }
    }

    /// Orders ready jobs so from now on.
    pub fn order(order: Order) -> Self {
        Self { order: Some(order), ..Self::default() }
    }

    /// Keeps finished jobs so long.
    pub fn retention(retention: Retention) -> Self {
        Self { retention: Some(retention), ..Self::default() }
    }

    /// Sets or lifts the waiting limit.
    pub fn max_wait_ms(limit: Option<u64>) -> Self {
        Self { max_wait_ms: Some(limit), ..Self::default() }
    }

    /// Sets or lifts the limit of bytes of dead letters.
    pub fn dead_bytes_max(limit: Option<u64>) -> Self {
        Self { dead_bytes_max: Some(limit), ..Self::default() }
    }

    /// Whether every value is within its limit.
    pub fn check(&self) -> Result<()> {
        if self.max_depth == Some(Some(0)) {
            return Err(Error::invalid("max_depth", 0, "pause the queue to let nothing in or out"));
        }
        if let Some(Order::Ageing { quantum_ms }) = self.order {
            within_range("order.quantum_ms", quantum_ms, 1..=AGE_MAX_MS)?;
        }
        if let Some(Some(ms)) = self.max_wait_ms {
            within_range("max_wait_ms", ms, 1..=AGE_MAX_MS)?;
        }
        self.retention.map_or(Ok(()), |retention| retention.check())
    }

    /// Carries the change out.
    pub const fn apply(&self, settings: &mut QueueSettings) {
        if let Some(paused) = self.paused {
            settings.paused = paused;
        }
        if let Some(limit) = self.max_depth {
            settings.max_depth = limit;
        }
        if let Some(order) = self.order {
            settings.order = order;
        }
        if let Some(retention) = self.retention {
            settings.retention = retention;
        }
        if let Some(limit) = self.max_wait_ms {
            settings.max_wait_ms = limit;
        }
        if let Some(limit) = self.dead_bytes_max {
            settings.dead_bytes_max = limit;
        }
    }
}

/// The settings of a kind, in whatever queue its jobs are.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct KindSettings {
    /// Nothing of it is claimed while set.
    pub paused: bool,
    /// How many more of its jobs may start; each claimed job takes one. A circuit breaker that is
    /// open sets 0, and 1 for a probe. `None`: any number.
    pub permits: Option<u32>,
}

/// A change of some settings of a kind; what is `None` stays.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct KindPatch {
    /// Pause or resume.
    pub paused: Option<bool>,
    /// Set or lift the number of permits.
    pub permits: Option<Option<u32>>,
}

impl KindPatch {
    /// Pauses or resumes.
    pub fn paused(paused: bool) -> Self {
        Self { paused: Some(paused), ..Self::default() }
    }

    /// Sets or lifts the number of permits.
    pub fn permits(permits: Option<u32>) -> Self {
        Self { permits: Some(permits), ..Self::default() }
    }

    /// Carries the change out.
    pub const fn apply(&self, settings: &mut KindSettings) {
        if let Some(paused) = self.paused {
            settings.paused = paused;
        }
        if let Some(permits) = self.permits {
            settings.permits = permits;
        }
    }
}
