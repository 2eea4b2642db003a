//! Circuit breakers by effect, with real workers, on engines of this process.

mod scene;

use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;
use windlass_core::engine::{Admin as _, Configure, Engine};
use windlass_core::model::{KindPatch, KindRules};
use windlass_core::policy::BreakerPolicy;
use windlass_local::LocalEngine;
use windlass_memory::MemoryEngine;
use windlass_services::{Breakers, Kinds, ServiceOptions, Services};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn while_a_breaker_is_open_one_probe_runs_each_interval_in_memory() {
    scene::play(Arc::new(MemoryEngine::new())).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn while_a_breaker_is_open_one_probe_runs_each_interval_on_disk() {
    let dir = tempfile::tempdir().unwrap();
    let options = windlass_local::Options::new(dir.path());
    scene::play(Arc::new(LocalEngine::open(options).unwrap())).await;
}

/// Waits until something holds of the permits of kind `k`.
async fn permits(engine: &Arc<MemoryEngine>, holds: impl Fn(Option<u32>) -> bool) {
    let deadline = Instant::now() + Duration::from_secs(30);
    loop {
        let kinds = engine.settings().await.expect("settings").value.kinds;
        let found = kinds.iter().find(|(kind, _)| &**kind == "k");
        if holds(found.and_then(|(_, settings)| settings.permits)) {
            return;
        }
        assert!(Instant::now() < deadline, "waited in vain for the permits of k");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

#[tokio::test]
async fn a_leader_completes_the_change_of_another_and_lifts_orphaned_limits() {
    let engine = Arc::new(MemoryEngine::new());
    let shared: Arc<dyn Engine> = engine.clone();
    let kinds = Kinds::new(shared.clone());
    let mut rules = KindRules::default();
    rules.breaker = Some(BreakerPolicy::new().min_samples(1).probe_every(Duration::from_secs(60)));
    kinds.put("k", &rules).await.unwrap();
    // As a leader leaves it that dies between writing the breaker and closing the gate.
    let now = engine.health().await.unwrap().now.as_millis();
    let open = format!(
        r#"{{"breaker":{{"state":"open","since":{now},"next_probe_at":{}}},"upto":0,"gated":true}}"#,
        now + 60_000
    );
    let put = windlass_core::engine::RecordOp::Put {
        key: "brk/k".into(),
        value: open.into(),
        expect: windlass_core::engine::Expect::Any,
    };
    engine.records(vec![put]).await.unwrap().value.remove(0).unwrap();
    let mut options = ServiceOptions::default();
    options.breaker.interval = Duration::from_millis(20);
    let services = Services::builder(shared.clone()).options(options).start().unwrap();
    permits(&engine, |permits| permits == Some(0)).await;
    // An operator opens the gate; the breaker is still open.
    let by_hand = Configure::kind("k", KindPatch::permits(None));
    engine.configure(vec![by_hand]).await.unwrap();
    permits(&engine, |permits| permits == Some(0)).await;
    // Without a breaker the kind flows again, and its record is gone.
    kinds.put("k", &KindRules::default()).await.unwrap();
    permits(&engine, |permits| permits.is_none()).await;
    services.stop().await;
    assert!(Breakers::new(shared).get("k").await.unwrap().is_none());
}
