//! Turns an engine into HTTP. It knows the traits, the words of `windlass-wire` and the services it
//! hosts; it must not know which engine it serves, nor keep anything that a second server would need.
//!
//! Any number of servers may serve one store. The calls of all connections gather into batches of the
//! engine ([`windlass_layers::Coalesce`]), so that a hundred clients that enqueue one job each cost one
//! write to the disk. Routes and shapes are described in `docs/protocol.md`, and
//! for programs in `docs/openapi.json` ([`openapi()`]), which is also served.
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
//! // … until somebody has had enough:
//! handle.stop().await;
//! # Ok::<(), windlass_core::Error>(())
//! # }).unwrap();
//! ```
//!
//! The same address serves a dashboard for people at `/` (`docs/guides/dashboard.md`).
//!
//! Everything is bounded: connections, the bytes of one body and of all bodies held at a time, the time
//! for a request to arrive, for the engine to answer and for a stop ([`Options`]). A claim that waits
//! holds no lease while it does, and ends with its connection: nothing is leased to a caller who left.

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
mod handle;
mod health;
mod hosting;
mod late;
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

/// Whether a text is a JSON Schema that payloads can be checked against; the error says what is wrong.
pub fn check_schema(text: &str) -> windlass_core::Result<()> {
    admit::Schema::read(text).map(drop)
}
