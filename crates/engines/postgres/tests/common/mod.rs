//! Shared by the tests of this engine: a separate schema for each, on the server that `cargo xtask
//! test` starts, or on one of yours.

#![allow(dead_code, reason = "each test uses its part")]

pub(crate) mod database;
pub(crate) mod listener;
pub(crate) mod private;

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use windlass_core::random::{Random, Seeded, SystemRandom};
use windlass_core::time::ManualClock;
use windlass_kit::{START, Subject};
use windlass_postgres::{Options, PostgresEngine};

/// Where the server is.
const VARIABLE: &str = "WINDLASS_TEST_POSTGRES";

/// The URL of the server.
pub(crate) fn url() -> String {
    std::env::var(VARIABLE).unwrap_or_else(|_| {
        panic!(
            "{VARIABLE} is not set: run `cargo xtask test`, which starts a server, or point it to a \
             database of yours, as in {VARIABLE}=postgres://postgres@127.0.0.1:5432/postgres; each \
             test makes a schema of its own and drops it"
        )
    })
}

/// A schema that is dropped with its guard.
pub(crate) struct OwnSchema {
    pub(crate) name: String,
}

impl OwnSchema {
    pub(crate) fn new() -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let count = COUNT.fetch_add(1, Ordering::SeqCst);
        Self { name: format!("test_{:016x}_{count}", SystemRandom.next_u64()) }
    }
}

impl Drop for OwnSchema {
    fn drop(&mut self) {
        // A test may have left a transaction open, which cannot end by itself while we wait here.
        let free = format!(
            "SELECT pg_terminate_backend(pid) FROM (SELECT DISTINCT pid FROM pg_locks l
            JOIN pg_class c ON c.oid = l.relation AND c.relnamespace = to_regnamespace({})
            WHERE l.database = (SELECT oid FROM pg_database WHERE datname = current_database())
                AND pid <> pg_backend_pid()) h",
            format_args!("quote_ident(E'{}')", self.name.replace('\\', "\\\\").replace('\'', "''"))
        );
        let quoted = self.name.replace('"', "\"\"");
        let sql = format!("SET lock_timeout = '5s'; DROP SCHEMA IF EXISTS \"{quoted}\" CASCADE");
        // On a thread of its own: a test may end in the middle of a runtime.
        let dropped = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            runtime.expect("a runtime").block_on(async {
                if let Ok((client, connection)) =
                    tokio_postgres::connect(&url(), tokio_postgres::NoTls).await
                {
                    tokio::spawn(connection);
                    let _ = client.batch_execute(&free).await;
                    let _ = client.batch_execute(&sql).await;
                }
            });
        });
        let _ = dropped.join();
    }
}

/// An engine in this schema, on the store's clock.
pub(crate) async fn open(schema: &OwnSchema) -> PostgresEngine {
    PostgresEngine::connect(Options::new(url()).schema(&schema.name)).await.expect("connects")
}

/// A connection of the application's own.
pub(crate) async fn application() -> tokio_postgres::Client {
    let (client, connection) =
        tokio_postgres::connect(&url(), tokio_postgres::NoTls).await.expect("connects");
    tokio::spawn(connection);
    client
}

/// A fresh engine in a schema of its own.
pub(crate) async fn fresh() -> Subject {
    fresh_at(&url()).await
}

/// The same, on the way to the server that this URL names.
pub(crate) async fn fresh_at(url: &str) -> Subject {
    let schema = OwnSchema::new();
    let clock = Arc::new(ManualClock::at(START));
    let options = Options::new(url).schema(&schema.name).test_clock(clock.clone());
    let engine = PostgresEngine::connect(options.random(Arc::new(Seeded::new(7)))).await;
    Subject::new(Arc::new(engine.expect("connects")), clock).guarded(schema)
}
