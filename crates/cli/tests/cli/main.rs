//! The command as its users run it: the real binary, a store in a temporary directory, and what comes
//! out of it.

#![expect(clippy::unwrap_used, reason = "unwrapping is how the helpers say \"this must hold\" too")]

mod audit;
mod bulk;
mod connection_limit;
mod consistency;
#[path = "../database/mod.rs"]
mod database;
mod dead;
mod enqueue;
mod events;
mod flows;
mod http;
mod jobs;
mod kinds;
mod limits;
mod postgres;
mod pressure;
mod reading;
mod schedules;
mod settings;
mod support;
mod work;
