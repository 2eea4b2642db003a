//! Serves any engine over HTTP. Depends on the engine traits, the `windlass-wire` types and the
//! services it hosts. It must not depend on a concrete engine, nor hold state that a second server
//! would need.
//!
//! Any number of servers can serve one store. Calls from all connections are merged into engine
//! batches ([`windlass_layers::Coalesce`]): 100 clients that enqueue one job each cost one disk
//! write. `docs/protocol.md` describes routes and JSON; `docs/openapi.json` ([`openapi()`]) is the
//! machine-readable version, which the server serves as well.
//!
//! ```
//! use std::sync::Arc;
//! use windlass_memory::MemoryEngine;
//! use windlass_server::{Options, Server};
//!
//! # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
//! let server = Server::bind(Options::new(([127, 0, 0, 1], 0).into())).await?;
//! println!("listening on {}", server.address());
//! let handle = server.serve(Arc::new(MemoryEngine::new()))?;
//! // … until the server is stopped:
//! handle.stop().await;
//! # Ok::<(), windlass_core::Error>(())
//! # }).unwrap();
//! ```
//!
//! The same address serves the dashboard at `/` (`docs/guides/dashboard.md`).
//!
//! Every resource has a limit: the number of connections, the bytes of one body and of all bodies
//! in memory, and the time for a request to arrive, for the engine to answer and for a shutdown
//! ([`Options`]). A waiting claim holds no lease and ends with its connection, so no job is leased
//! to a disconnected client.

mod accept;
mod access;
mod admit;
mod app;
mod beside;
mod body;
mod budget;
mod connections;
mod dashboard;
mod disk;
pub mod documents;
mod event_stream;
mod handle;
mod health;
mod hosting;
mod idempotency;
mod late;
mod limit_gauges;
mod long_poll;
mod meter;
mod metrics;
mod names;
mod openapi;
mod options;
pub mod ranges;
mod reply;
mod room;
mod routes;
mod series;
mod server;
mod tls;
mod traces;
mod waits;

pub use disk::{DiskProbe, DiskUse};
pub use handle::{ServerHandle, Status};
pub use metrics::Exporter;
pub use openapi::openapi;
pub use options::{Limits, Options, TlsFiles};
pub use routes::served;
pub use server::Server;

/// Checks that `text` is a JSON Schema usable for payload validation; the error names the problem.
pub fn check_schema(text: &str) -> windlass_core::Result<()> {
    admit::Schema::read(text).map(drop)
}
