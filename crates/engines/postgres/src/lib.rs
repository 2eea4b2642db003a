//! Windlass on PostgreSQL: durable jobs in the database you already run.
//!
//! Any number of processes share one schema. Every verb is one transaction. What must happen is decided
//! by `windlass-executor`, as in the engines with a single writer; this crate loads and locks the rows it
//! needs, and saves what it changed. The shapes that carry the weight are single statements instead.
//!
//! Code map: `conn` holds connections and their settings; `rows` encodes jobs; `slow` loads and locks the rows that a
//! verb needs, runs the executor over them and saves the difference; `fast` holds single statements for common
//! requests; `read` only reads; `events` numbers, reads and drops events; `retention` removes finished jobs; `wake` notifies waiting workers; `upkeep` vacuums,
//! compacts and checks; `api` offers enqueueing in the application's own transactions, SQL functions, grants and
//! migrations. See ADR 003.
//!
//! ```no_run
//! use windlass_core::engine::{Enqueue, Jobs};
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

#![deny(clippy::wildcard_enum_match_arm)]

mod api;
mod conn;
mod engine;
mod events;
mod fast;
mod read;
mod records;
mod retention;
mod rows;
mod slow;
mod upkeep;
mod wake;

pub use api::by_sql::SqlEnqueue;
pub use api::field_index::index;
pub use api::grants::{Access, grant};
pub use api::joining::{OpenTransaction, Transactional};
pub use api::migrate::{Migration, migrate, plan, remove};
pub use conn::options::Options;
pub use conn::room::{Room, room};
pub use engine::PostgresEngine;
#[doc(hidden)]
pub use fast::claim_statement;
pub use upkeep::server_stats::ServerStats;
