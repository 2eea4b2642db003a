//! Layers: engines that wrap an engine. A layer depends only on the traits of `windlass-core`, never on a
//! concrete engine.
//!
//! - [`coalesce`]: merges concurrent single calls into one engine call, without a timer.

pub mod coalesce;

pub use coalesce::Coalesce;
