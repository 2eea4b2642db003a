//! Layers: engines that wrap an engine. A layer depends only on the traits of `windlass-core`, never on a
//! concrete engine.
//!
//! - [`coalesce`]: merges concurrent single calls into one engine call, without a timer.

// A match that lists the known variants shows the next one where it must be decided.
#![deny(clippy::wildcard_enum_match_arm)]

pub mod coalesce;

pub use coalesce::Coalesce;
