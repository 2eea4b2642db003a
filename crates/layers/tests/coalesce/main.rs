//! The promises of the coalesce layer, on an engine that counts, delays and fails calls.

#![expect(clippy::unwrap_used, reason = "unwrapping is how the helpers say \"this must hold\" too")]

mod bounds;
mod cancelled;
mod faults;
mod merging;
mod probe;
mod support;
