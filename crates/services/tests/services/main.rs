//! The promises of the services, by their effects on real engines.

mod bulk;
mod checks;
mod clock;
mod completion;
mod dead_bytes;
mod durable;
mod explaining;
mod host;
mod keys;
mod leadership;
mod outage;
mod rescued;
mod sampling;
mod schedules;
mod scheduling;
mod spy;
mod support;
mod trimming;
mod upkeep;
