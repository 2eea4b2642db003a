//! An engine stores jobs. All engines pass the same conformance tests, so that code written against one runs on
//! all of them.
//!
//! | URL | engine | feature | use it for |
//! |---|---|---|---|
//! | `memory:` | memory | `memory` | tests; nothing is persisted |
//! | `file:DIR` | local (SQLite) | `local` | one process, durable, no server |
//! | `postgres://…` | PostgreSQL | `postgres` | any number of processes, jobs in your own transactions |
//! | `http://…` | remote | `remote` | the store behind a Windlass server |
//!
//! ```
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> windlass::Result<()> {
//! let client = windlass::connect("memory:").await?;
//! assert_eq!(client.engine().capabilities().engine, "memory");
//! client.health().await?;
//!
//! // Bad URLs say what is wrong.
//! let error = windlass::connect("mysql://localhost").await.unwrap_err();
//! assert_eq!(error.code(), "connect");
//! # Ok(())
//! # }
//! ```
//!
//! [`Client::engine`](crate::Client::engine) gives access to the contract itself ([`engine`](crate::engine)), and
//! `docs/guides/guarantees.md` says what each engine promises.
