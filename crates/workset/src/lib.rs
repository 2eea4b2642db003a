//! Working sets: how a store with many writers executes the specification.
//!
//! A verb is carried out in four steps, in one transaction of the store:
//! 1. [`Wants`] lists the rows that the request will read and change.
//! 2. The [`Store`] loads them into [`Loaded`], with locks or with versions that it checks later.
//! 3. [`rounds`] runs the executor over a [`WorkingSet`] on top of the loaded rows. A run that needs a row that was
//!    not loaded notes it; the row is loaded and the run is repeated from the start.
//! 4. The store saves the difference between the loaded rows and the working set ([`WorkingSet::changed`] and its
//!    siblings), or retries the verb if another writer was first.
//!
//! The crate knows nothing of SQL, files, connections or async runtimes. [`codec`] contains the text formats of
//! rows that several stores share, [`pack`] the encoding of packed ones.

#![deny(clippy::wildcard_enum_match_arm)]

mod changes;
pub mod codec;
mod due;
mod edges;
mod groups;
mod loaded;
pub mod pack;
mod place;
mod rows;
mod run;
mod set;
mod wants;

pub use changes::{ChangedJob, ChangedKey, ChangedTurn, ChangedUnique};
pub use edges::{ChangedInput, EdgeKey, LoadedEdges, edges_loaded_max};
pub use groups::{ChangedGroup, GROUP_CHUNK, GroupRows, MeterKey, Reopened};
pub use loaded::{Found, Known, LINE_CHUNK, LineRows, Loaded, StaleDeadline};
pub use place::{Deadline, Place};
pub use run::{Act, Context, ROUNDS_MAX, Ran, Run, Store, pause_ms, rounds};
pub use set::{Lanes, WorkingSet};
pub use wants::{Held, KnownLeases, Tenant, Wants};
