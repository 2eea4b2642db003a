//! The embedded engine: durable jobs in one directory, without a server.
//!
//! The jobs are stored in SQLite, and one process at a time owns the directory. A writer thread commits all pending
//! calls in one transaction (group commit). Acknowledged jobs and results survive `kill -9` and power loss. Claims
//! are written but not synced: a lost claim only means that the job runs again.
//!
//! `windlass-executor` implements the semantics and `rows` its storage in narrow tables. `writer` owns both, runs
//! each `call` inside a transaction, and `syncer` makes commits durable. `log` preallocates the write-ahead log so
//! that a sync is cheap. `readers` serves `get` and `list` from a second connection. `lock` excludes other
//! processes, `private` other users; `reserve` keeps disk space back for the time when the disk is full; `handover`
//! finds the address of the server that owns a directory.
//!
//! ```
//! use windlass_core::engine::{Enqueue, Jobs};
//! use windlass_core::model::NewJob;
//! use windlass_local::{LocalEngine, Options};
//!
//! # let dir = tempfile::tempdir().unwrap();
//! # let dir = dir.path().join("jobs");
//! # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
//! let engine = LocalEngine::open(Options::new(&dir)).unwrap();
//! engine.enqueue(Enqueue::each([NewJob::new("hello").json("{}")])).await.unwrap();
//! # });
//! ```

#![deny(clippy::wildcard_enum_match_arm)]

mod call;
mod database;
mod engine;
mod handover;
mod lock;
mod log;
mod options;
mod private;
mod readers;
mod reserve;
mod rows;
mod syncer;
mod writer;

pub use engine::{Counters, LocalEngine};
pub use handover::server_address;
pub use lock::{Owner, owner};
pub use options::Options;
pub use private::exposure;
pub use reserve::Space;
