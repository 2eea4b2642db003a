//! The reference engine: executes the specification in memory.
//!
//! Small and simple on purpose. It executes core's state machine directly, and every other engine is compared
//! with it. Nothing survives the process, and its clock can be controlled, which makes it the engine for
//! tests: no server, no files, and a week passes instantly.
//!
//! Design: the executor implements the specification; `rows::MemoryRows` provides it with a map of jobs and
//! an `index::Index` that is derived from them. `check` rebuilds the index and compares it with the current
//! one.
//!
//! ```
//! use windlass_core::engine::{Claim, Claimant, Enqueue, Jobs, OpenSession};
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

#![deny(clippy::wildcard_enum_match_arm)]

mod ages;
mod edges;
mod engine;
mod events;
mod index;
mod listing;
mod meters;
mod outboxes;
mod records;
mod rows;

pub use engine::MemoryEngine;
