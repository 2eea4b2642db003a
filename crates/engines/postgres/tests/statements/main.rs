//! The cost and the plans of statements, and the tables they keep small.

#[path = "../common/mod.rs"]
mod common;
mod depth;
mod hot_tables;
mod lanes;
mod plans;
mod settling;
mod snapshots;
mod turns;
