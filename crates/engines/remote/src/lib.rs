//! The HTTP API of a server as an engine: whoever can work with an engine works with a server by
//! changing a URL. It knows the words of `windlass-wire` and HTTP, and nothing of the engine behind the
//! server, which the server's capabilities and errors speak for.
//!
//! - **Connections** are kept and shared; a clone of the engine shares them too.
//! - **Encrypted** where the URL says `https`, and proven by a key or a client certificate ([`Options`]).
//! - **Times** are bounded ([`Options`]): connecting, and waiting for an answer beyond what was asked for.
//! - **Failures** of the transport answer [`Error::Unavailable`](windlass_core::Error::Unavailable): the
//!   outcome is unknown, and the contract says how each verb is repeated. The engine itself repeats only
//!   what was never sent, on a kept connection that turned out to be closed.
//!
//! ```no_run
//! use windlass_core::engine::{Enqueue, Hot};
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
