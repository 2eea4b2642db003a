//! Faults: what the local engine keeps of its promises when processes, disks, clocks and files fail it.
//!
//! `WINDLASS_LONG=1` makes many more rounds of kills; `WINDLASS_SEED` starts another story.

// Signals, other users, mounted disks.
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
