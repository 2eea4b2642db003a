//! Partitions and retention: partitions are created ahead of time, many ended jobs are removed at once, and refused
//! locks block no other session.

#[path = "../common/mod.rs"]
mod common;
mod creation;
mod cursor;
mod ghosts;
mod history;
mod in_flight;
mod lock_backoff;
mod log_capture;
mod recorded;
mod removal;
mod replays;
mod rig;
mod services;
mod stale_surveys;
