//! Windlass on PostgreSQL: durable jobs in the database you already run.
//!
//! Any number of processes share one schema. Every verb is one transaction. What must happen is decided
//! by `windlass-executor`, as in the engines with a single writer; this crate loads and locks the rows it
//! needs, and saves what it changed. The shapes that carry the weight are single statements instead.
//!
//! How it is built: `wants` says what a verb will look at; `load` reads and locks it; `working` gives it
//! to the executor; `save` writes what came of it; `perform` goes round until nothing is missing. `hot`
//! holds the shortcuts, `look` what only reads. `transactional` does the same on a connection of the
//! application's, `by_sql` asks the functions of the schema to. See ADR 003.
//!
//! ```no_run
//! use windlass_core::engine::{Enqueue, Hot};
//! use windlass_core::model::NewJob;
//! use windlass_postgres::{Options, PostgresEngine};
//!
//! # async fn start() -> windlass_core::Result<()> {
//! let options = Options::new("postgres://app@127.0.0.1/app").schema("windlass");
//! let engine = PostgresEngine::connect(options).await?;
//! engine.enqueue(Enqueue::each([NewJob::new("hello").json("{}")])).await?;
//! # Ok(())
//! # }
//! ```

mod beats;
mod by_sql;
mod check;
mod codec;
mod conn;
mod crowd;
mod engine;
mod entries;
mod error;
mod estimate;
mod grants;
mod hints;
mod hot;
mod keyed;
mod lanes;
mod leaves;
mod load;
mod look;
mod migrate;
mod options;
mod passed;
mod perform;
mod pooled;
mod priorities;
mod records;
mod retain;
mod room;
mod save;
mod schema;
mod server;
mod session;
mod spent;
mod tls;
mod transactional;
mod unnamed;
mod upkeep;
mod wait;
mod wakeups;
mod wants;
mod working;

pub use by_sql::SqlEnqueue;
pub use engine::PostgresEngine;
pub use grants::{Access, grant};
pub use migrate::{Migration, migrate, plan, remove};
pub use options::Options;
pub use room::{Room, room};
pub use spent::Spent;
