//! Faults: what the PostgreSQL engine keeps of its promises when servers, connections, workers and disks
//! fail it. Servers that are killed are the tests' own, started and stopped by them.
//!
//! `WINDLASS_LONG=1` kills more often; `WINDLASS_SEED` starts another story.

// Signals, other users, mounted disks.
#![cfg(unix)]

#[path = "../common/bouncer.rs"]
mod bouncer;
mod child;
#[path = "../common/mod.rs"]
mod common;
mod completions;
mod disk;
mod events;
mod journal;
mod kills;
mod load;
mod pressure;
mod replica;
mod server;
mod services;
mod trial;
mod waiting;
mod workers;
