//! Shortcuts: the shapes that carry the weight, each as few statements in one round trip. Whatever they do
//! must be what the executor would have done; whatever they are not sure of is left to it.

mod claim;
pub(crate) mod contention;
mod enqueue;
#[cfg(test)]
mod plans;
pub(crate) mod scan_cursor;
mod settle;
