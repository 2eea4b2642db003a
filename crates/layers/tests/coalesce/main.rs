//! What the coalesce layer promises, seen through an engine that counts, holds and spoils calls.

#![expect(clippy::unwrap_used, reason = "unwrapping is how the helpers say \"this must hold\" too")]

mod bounds;
mod cancelled;
mod faults;
mod merging;
mod probe;
mod support;
