//! Operations: documented metrics, and files in `ops/` that use only these.

#![expect(clippy::unwrap_used, reason = "unwrapping is how the helpers say \"this must hold\" too")]

#[path = "../database/mod.rs"]
mod database;
mod disk;
mod metrics;
mod names;
mod ops;
mod scale;
#[path = "../serving/mod.rs"]
mod serving;
