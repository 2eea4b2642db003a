//! The fast path: single statements for common requests, each in one round trip. Their effects equal those of the
//! executor; everything unusual is left to the slow path.

mod claim;
mod enqueue;
pub(crate) mod gate;
#[cfg(test)]
mod plans;
pub(crate) mod scan_cursor;
mod settle;

pub use claim::claim_statement;
pub(crate) use settle::Completions;
