//! Windlass on Redis and Valkey: one standalone server, shared by any number of processes.
//!
//! Every verb loads the rows that it needs, runs the executor over them, and commits the difference if nothing that it read
//! has changed (`slow`). Lua contains no job semantics there: it runs commands, compares digests of replies, and applies
//! writes. The order of claims, listings and maintenance is kept in sorted sets, which follow from the jobs alone
//! (`rows::places`), so that a check can compare and repair them.
//!
//! Plain jobs take the fast path (`fast`): enqueue, claim, completion and heartbeat in one call for many jobs.

#![deny(clippy::wildcard_enum_match_arm)]

mod conn;
mod engine;
mod events;
mod fast;
mod keys;
mod options;
mod read;
mod records;
mod rows;
mod slow;
mod upkeep;
mod wake;

pub use engine::RedisEngine;
#[doc(hidden)]
pub use engine::remove;
pub use options::Options;
