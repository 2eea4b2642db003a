//! Fast paths: what they treat as plain.

#[path = "../common/mod.rs"]
mod common;
mod sql_function;
