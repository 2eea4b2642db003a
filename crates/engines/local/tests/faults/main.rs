//! Fault injection: the guarantees of the local engine when processes, disks, clocks and files fail.
//!
//! `WINDLASS_LONG=1` runs many more rounds of kills; `WINDLASS_SEED` sets another seed.

// The tests need signals, other users and mounted disks.
#![cfg(unix)]

mod backwards;
mod child;
mod disk;
mod drain;
mod format;
mod journal;
mod kill;
mod load;
mod permission;
mod producer;
mod reopen;
mod small_disk;
mod support;
mod torn;
mod worker;
