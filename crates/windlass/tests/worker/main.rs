//! Workers as users build them: on a client, with the services beside them, on real stores.
#![allow(clippy::unwrap_used, reason = "unwrapping is how a test says that this must hold")]

mod checks;
mod hosting;
mod outage;
#[cfg(unix)]
mod process;
mod reach;
mod rivals;
mod schedulers;
mod store;
mod support;
