//! The PostgreSQL that tests may use, for every test program that needs one.
#![allow(dead_code, reason = "each test program uses its part of it")]

use std::sync::atomic::{AtomicU32, Ordering};

/// Where the server is; `cargo xtask test` starts one and sets it.
const VARIABLE: &str = "WINDLASS_TEST_POSTGRES";

/// The URL of the server.
pub(crate) fn server() -> String {
    std::env::var(VARIABLE).unwrap_or_else(|_| {
        panic!("{VARIABLE} is not set: run `cargo xtask test`, or set it to a database's URL")
    })
}

/// A schema of its own, removed at the end.
pub(crate) struct Database {
    pub(crate) server: String,
    pub(crate) schema: String,
}

impl Database {
    pub(crate) fn new() -> Self {
        // One per test: with `cargo test` they share a process.
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let count = COUNT.fetch_add(1, Ordering::SeqCst);
        Self { server: server(), schema: format!("cli_{}_{count}", std::process::id()) }
    }

    /// The schema as a store.
    pub(crate) fn url(&self) -> String {
        format!("{}?schema={}", self.server, self.schema)
    }
}

impl Drop for Database {
    fn drop(&mut self) {
        let (server, schema) = (self.server.clone(), self.schema.clone());
        // On a thread of its own: a test may end in the middle of a runtime.
        let removed = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            let _ =
                runtime.expect("a runtime").block_on(windlass_postgres::remove(&server, &schema));
        });
        let _ = removed.join();
    }
}
