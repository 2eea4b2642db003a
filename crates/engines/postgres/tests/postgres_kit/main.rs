//! The kit on PostgreSQL: conformance, random stories, histories of concurrent clients, and fast paths compared with
//! the executor.

#[path = "../common/mod.rs"]
mod common;
mod conformance;
mod differential;
mod history;
mod model;
mod planted;
mod sql_function;
