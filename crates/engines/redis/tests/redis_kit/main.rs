//! The kit on Redis: conformance, random stories, and histories of concurrent clients.

#[path = "../common/mod.rs"]
mod common;
mod conformance;
mod differential;
mod history;
mod model;
