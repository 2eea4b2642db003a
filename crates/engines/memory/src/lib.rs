//! The reference engine: the specification executed, in memory.
//!
//! Small and obvious on purpose. It executes core's state machine directly, and every other engine is
//! measured against what it does. Nothing survives the process, and its clock can be moved by hand,
//! which makes it the engine for tests: no server, no files, and a week passes in an instant.
//!
//! How it is built: `store::Store` holds the jobs and is the only thing that changes them, through
//! one function (`store::Store::apply`); `index::Index` is derived from the jobs and can be
//! rebuilt from them at any time, which is how `check` proves that both agree.
//!
//! ```
//! use windlass_core::engine::{Claim, Claimant, Enqueue, Hot, OpenSession};
//! use windlass_core::model::NewJob;
//! use windlass_memory::MemoryEngine;
//!
//! # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
//! let engine = MemoryEngine::new();
//! engine.enqueue(Enqueue::each([NewJob::new("hello").json("{}")])).await.unwrap();
//!
//! let session = engine.open_session(OpenSession::new("me")).await.unwrap().value.id;
//! let claim = Claim::new(Claimant::Session { session, claim_no: 1 }, "default", 10);
//! assert_eq!(engine.claim(claim).await.unwrap().value.jobs.len(), 1);
//! # });
//! ```

mod ages;
mod change;
mod check;
mod claim;
mod engine;
mod enqueue;
mod entry;
mod index;
mod maintain;
mod query;
mod records;
mod session;
mod settle;
mod store;
mod unique;

pub use engine::MemoryEngine;

/// The example in the project's README, which must keep working.
#[cfg(doctest)]
#[doc = include_str!("../../../../README.md")]
struct Readme;
