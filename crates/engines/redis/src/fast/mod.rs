//! The fast path: one function call for common requests, each for many jobs. Their effects equal those of the executor;
//! everything unusual is left to the slow path.
//!
//! The definitions of core decide which requests are plain, from cached settings whose revision every function verifies.
//! The functions move records from one place to the next (`lua/fast.lua`).

mod claim;
mod enqueue;
mod heartbeat;
mod leases;
mod settle;

pub(crate) use leases::Leases;

use crate::conn::error::{Trouble, Try};
use crate::conn::malformed;
use crate::engine::RedisEngine;
use crate::slow::settings::Settings;
use crate::slow::transaction::Transaction;
use redis::Value;
use windlass_core::engine::Stamped;
use windlass_core::model::Name;
use windlass_core::{Result, Timestamp};
use windlass_executor::LaneKey;

impl Settings {
    /// Whether plain jobs of a lane may be stored without the executor. A new lane is counted by the executor.
    fn stores_plainly(&self, lane: &LaneKey) -> bool {
        let by_group = |name: &Name| self.limits.get(name).is_none_or(|limit| limit.by_group);
        self.lanes.contains(lane)
            && self.queues.get(&lane.0).is_none_or(|queue| queue.is_plain(by_group))
            && self.kinds.get(&lane.1).is_none_or(|kind| kind.is_plain(by_group))
    }

    /// Whether plain jobs of a lane may be claimed and completed without the executor.
    fn starts_plainly(&self, lane: &LaneKey) -> bool {
        self.queues.get(&lane.0).is_none_or(|queue| queue.starts_plainly())
            && self.kinds.get(&lane.1).is_none_or(|kind| kind.starts_plainly())
    }
}

impl RedisEngine {
    /// Begins a fast path, unless they are switched off.
    async fn begin_fast(&self) -> Result<Option<Transaction<'_>>> {
        if !self.inner.fast_paths.are_on() {
            return Ok(None);
        }
        self.inner.shared.begin().await.map(Some).map_err(Trouble::into_error)
    }

    /// The time of a test as an argument; empty for the server's.
    fn test_now(&self) -> Vec<u8> {
        let clock = self.inner.shared.clock.as_ref();
        clock.map(|clock| clock.now().as_millis().to_string().into_bytes()).unwrap_or_default()
    }

    /// The settings may be out of date: that is the most frequent reason why a function refuses.
    fn refused(&self) {
        self.inner.shared.forget_settings();
    }
}

/// The revision of the settings as an argument.
fn revision(settings: &Settings) -> Vec<u8> {
    settings.revision.clone().unwrap_or_default()
}

/// A decimal argument.
fn decimal(number: impl ToString) -> Vec<u8> {
    number.to_string().into_bytes()
}

/// The reply of a fast path.
fn stamp<T>(transaction: &Transaction<'_>, now: Timestamp, value: T) -> Stamped<T> {
    Stamped { now, epoch: transaction.live.server.epoch.clone(), value }
}

/// A time in a reply.
fn at(value: Option<Value>) -> Try<Timestamp> {
    match value {
        Some(Value::Int(ms)) => Ok(Timestamp::from_millis(ms)),
        _ => Err(malformed()),
    }
}

/// Bytes in a reply.
fn bytes(value: Option<Value>) -> Try<Vec<u8>> {
    match value {
        Some(Value::BulkString(bytes)) => Ok(bytes),
        _ => Err(malformed()),
    }
}
