//! The promises of the client, by their effects on real engines.

#![expect(clippy::unwrap_used, reason = "unwrapping is how the helpers say \"this must hold\" too")]

mod builder;
mod bulk;
mod changes;
mod connecting;
mod flows;
mod handles;
mod queries;
mod queues;
mod support;
mod unique;
mod waiting;
