//! Executes the specification over rows that one writer owns.
//!
//! Engines give the [`Executor`] their [`Rows`]; it validates requests, asks core's state machine, and
//! executes every effect at one commit point (`commit.rs`). It knows nothing of files, SQL, locks or threads,
//! and it does nothing concurrently. A call is atomic if the owner of the rows rolls back after an error.

#![deny(clippy::wildcard_enum_match_arm)]

mod change;
mod claim;
mod commit;
mod delivery;
mod dependencies;
mod enqueue;
mod entry;
mod events;
mod executor;
mod filling;
mod import;
mod joining;
mod limit_stats;
mod limits;
mod listed;
mod maintain;
mod openings;
mod order;
mod outbox;
pub mod priorities;
mod query;
mod readiness;
mod reopening;
mod resolving;
mod rows;
mod session;
mod settle;
mod steps;
mod topics;
mod unique;
mod why;

pub use delivery::REFUSED;
pub use dependencies::End;
pub use entry::{Entry, Leased, UniqueSlot};
pub use executor::{Executor, Turns};
pub use filling::Filling;
pub use openings::Openings;
pub use outbox::{Deferred, Located, Message, Outbox, Posted, Route};
pub use rows::{
    Due, GroupLine, Head, LaneKey, LimitCounts, Line, LineHead, LinePlace, Maintenance, OpenEdges,
    Opening, Records, Rows, Standing, UniqueHold,
};
pub use session::SessionEntry;

/// The error for a value of a newer version of the contract.
fn unknown(field: &'static str) -> windlass_core::Error {
    windlass_core::Error::invalid(
        field,
        "unknown",
        "this version of the engine does not know it: upgrade it",
    )
}
