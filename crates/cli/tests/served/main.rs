//! The whole product through real processes: what the README says, servers that are killed, claims that
//! wait, and the bench over HTTP.

#![expect(clippy::unwrap_used, reason = "unwrapping is how the helpers say \"this must hold\" too")]

mod bench;
mod documents;
mod hostile;
mod kills;
mod load;
mod overload;
mod polls;
#[path = "../serving/mod.rs"]
mod serving;
mod shell;
mod waiting;
