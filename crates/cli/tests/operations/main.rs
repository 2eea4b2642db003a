//! What operators rely on: metrics that are documented, and files in `ops/` that fit them.

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
