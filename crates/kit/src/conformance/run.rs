//! Runs a check on a fresh engine.

use super::SUITE;
use crate::rig::Rig;
use crate::subject::Subject;
use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

/// Timeout of a check.
const CHECK_SECONDS_MAX: u64 = 120;

/// Runs one check; panics if the promise is broken.
pub fn run<F: Future<Output = Subject>>(topic: &str, check: &str, fresh: impl FnOnce() -> F) {
    let found = SUITE
        .iter()
        .filter(|known| known.name == topic)
        .flat_map(|known| known.checks)
        .find(|known| known.name == check);
    let check = found.unwrap_or_else(|| panic!("no check {topic}::{check}"));
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .expect("a runtime");
    runtime.block_on(async {
        let rig = Rig::new(fresh().await);
        let limit = Duration::from_secs(CHECK_SECONDS_MAX);
        let finished = tokio::time::timeout(limit, (check.run)(rig)).await;
        assert!(finished.is_ok(), "{topic}::{} hangs", check.name);
    });
}

/// Runs one check; returns whether the engine kept the promise, and if not, the failure message.
pub fn verdict<F: Future<Output = Subject>>(
    topic: &str,
    check: &str,
    fresh: impl FnOnce() -> F,
) -> Result<(), String> {
    catch_unwind(AssertUnwindSafe(|| run(topic, check, fresh))).map_err(|panic| {
        let text = panic.downcast_ref::<String>().cloned();
        text.or_else(|| panic.downcast_ref::<&str>().map(ToString::to_string)).unwrap_or_default()
    })
}
