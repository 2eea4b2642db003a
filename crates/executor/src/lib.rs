//! Executes the specification over rows that one writer owns.
//!
//! Engines whose store has a single writer (memory, local) differ in how they keep rows, not in what
//! must happen to them. They give the [`Executor`] their [`Rows`]; it validates requests, asks core's
//! state machine, and carries out every effect. It knows nothing of files, SQL, locks or threads, and it
//! does nothing concurrently: one call after the other, each one an atomic step if its owner makes it
//! one.

mod change;
mod claim;
mod enqueue;
mod entry;
mod executor;
mod maintain;
pub mod priorities;
mod query;
mod rows;
mod session;
mod settle;
mod taken;
mod unique;

pub use entry::{Entry, Leased, UniqueSlot};
pub use executor::{Executor, Turns};
pub use rows::{Due, Head, LaneKey, Line, Rows, Standing, UniqueHold};
pub use session::SessionEntry;
