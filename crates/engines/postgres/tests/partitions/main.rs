//! Partitions and retention: partitions are created ahead of time, many ended jobs are removed at once, and refused
//! locks block no other session.

mod ahead;
#[path = "../common/mod.rs"]
mod common;
mod cursor;
mod ghosts;
mod going;
mod on_the_way;
mod patience;
mod replays;
mod rig;
mod said;
mod services;
mod stale_surveys;
