//! A circuit breaker on this engine, with real workers.

#[path = "../../../../worker/tests/breaker/scene.rs"]
mod scene;

use crate::common::{OwnSchema, open};
use std::sync::Arc;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn while_a_breaker_is_open_one_probe_runs_each_interval() {
    let schema = OwnSchema::new();
    scene::play(Arc::new(open(&schema).await)).await;
}
