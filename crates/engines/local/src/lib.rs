//! The embedded engine: durable jobs in one directory, no server needed.
//!
//! SQLite underneath, one owner at a time. A writer thread commits whatever is waiting in one durable
//! transaction; what was acknowledged survives `kill -9` and loss of power. Claims are written and not
//! waited for: losing one only runs a job again.
//!
//! How it is built: `windlass-executor` carries the specification out; `rows` gives it narrow tables;
//! `writer` owns both and the transactions and serves each `call`; `syncer` waits for the disk, and `log` makes
//! that cheap; `lock` keeps other processes away;
//! `reserve` keeps space for a full disk, `private` keeps other users out, `handover` finds the server.
//!
//! ```
//! use windlass_core::engine::{Enqueue, Hot};
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
