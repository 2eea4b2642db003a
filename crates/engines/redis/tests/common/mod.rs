//! Shared by the tests of this engine: a separate store for each, on the server that `cargo xtask test` starts, or on one
//! of yours.

#![allow(dead_code, reason = "each test uses its part")]

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use windlass_core::random::{Random as _, Seeded, SystemRandom};
use windlass_core::time::ManualClock;
use windlass_kit::{START, Subject};
use windlass_redis::{Options, RedisEngine};

/// Where the server is.
const VARIABLE: &str = "WINDLASS_TEST_REDIS";

/// The URL of the server.
pub(crate) fn url() -> String {
    std::env::var(VARIABLE).unwrap_or_else(|_| {
        panic!(
            "{VARIABLE} is not set: run `cargo xtask test`, which starts a server, or point it to one of yours, as in \
             {VARIABLE}=redis://127.0.0.1:6379; each test makes a store of its own and deletes it"
        )
    })
}

/// A store that is deleted with its guard.
pub(crate) struct OwnStore {
    pub(crate) name: String,
}

impl OwnStore {
    pub(crate) fn new() -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let count = COUNT.fetch_add(1, Ordering::SeqCst);
        Self { name: format!("test_{:016x}_{count}", SystemRandom.next_u64()) }
    }
}

impl Drop for OwnStore {
    fn drop(&mut self) {
        let name = self.name.clone();
        // On a thread of its own: a test may end in the middle of a runtime.
        let dropped = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            let _ = runtime.expect("a runtime").block_on(windlass_redis::remove(&url(), &name));
        });
        let _ = dropped.join();
    }
}

/// A fresh engine in a store of its own.
pub(crate) async fn fresh() -> Subject {
    let store = OwnStore::new();
    let clock = Arc::new(ManualClock::at(START));
    let options = Options::new(url()).name(&store.name).test_clock(clock.clone());
    let engine = RedisEngine::connect(options.random(Arc::new(Seeded::new(7)))).await;
    Subject::new(Arc::new(engine.expect("connects")), clock).guarded(store)
}
