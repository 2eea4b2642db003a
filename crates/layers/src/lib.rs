//! Layers: engines that wrap an engine. A layer knows only the traits of `windlass-core`, never which
//! engine is under it.
//!
//! - [`coalesce`]: concurrent single calls become one engine call, without a timer.

pub mod coalesce;

pub use coalesce::Coalesce;
