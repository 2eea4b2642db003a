//! The HTTP API of a server as an engine: code that works with an engine works with a server by
//! changing a URL. It depends on `windlass-wire` and HTTP, and knows the engine behind the server
//! only through the server's capabilities and errors.
//!
//! - **Connections** are pooled and shared, also between clones of the engine.
//! - **Security**: TLS if the URL is `https`; authentication by key or client certificate ([`Options`]).
//! - **Timeouts** ([`Options`]) limit connecting, and waiting for a reply beyond the requested wait.
//! - **Failures** of the transport return [`Error::Unavailable`](windlass_core::Error::Unavailable): the
//!   outcome is unknown, and the contract defines how to repeat each verb. The engine itself repeats
//!   only requests that were never sent, because a pooled connection turned out to be closed.
//!
//! ```no_run
//! use windlass_core::engine::{Enqueue, Jobs};
//! use windlass_core::model::NewJob;
//! use windlass_remote::RemoteEngine;
//!
//! # async fn example() -> windlass_core::Result<()> {
//! let engine = RemoteEngine::connect("http://127.0.0.1:7474").await?;
//! engine.enqueue(Enqueue::each([NewJob::new("hello").json("{}")])).await?;
//! # Ok(())
//! # }
//! ```

mod connector;
mod engine;
mod options;
mod patience;
mod transport;

pub use engine::RemoteEngine;
pub use options::Options;
