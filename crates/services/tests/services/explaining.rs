//! Explanations of jobs whose kind has no permits: by hand, or by an open circuit breaker.

use serde_json::{Value, json};
use std::sync::Arc;
use windlass_core::engine::{
    Cause, CauseCode, Configure, Engine, Enqueue, Expect, Jobs as _, RecordOp,
};
use windlass_core::model::{KindPatch, NewJob};
use windlass_core::policy::Breaker;
use windlass_core::{JobId, Timestamp};
use windlass_memory::MemoryEngine;
use windlass_services::explain;

const SINCE: Timestamp = Timestamp::from_millis(1_800_000_000_000);

/// A job of a kind without permits.
async fn store() -> (Arc<dyn Engine>, JobId) {
    let engine = MemoryEngine::new();
    let enqueued = engine.enqueue(Enqueue::each([NewJob::new("k")])).await.expect("enqueue");
    let id = enqueued.value[0].as_ref().expect("stored").id;
    let engine: Arc<dyn Engine> = Arc::new(engine);
    permit(&engine, Some(0)).await;
    (engine, id)
}

async fn permit(engine: &Arc<dyn Engine>, permits: Option<u32>) {
    let change = Configure::kind("k", KindPatch::permits(permits));
    let mut reply = engine.configure(vec![change]).await.expect("configure");
    reply.value.remove(0).expect("configured");
}

async fn put_breaker(engine: &Arc<dyn Engine>, record: &Value) {
    let value = record.to_string().into();
    let put = RecordOp::Put { key: "brk/k".to_owned(), value, expect: Expect::Any };
    let mut reply = engine.records(vec![put]).await.expect("records");
    reply.value.remove(0).expect("stored");
}

async fn first(engine: &Arc<dyn Engine>, id: JobId) -> Cause {
    explain(engine, id).await.expect("explain").value.causes.remove(0)
}

#[tokio::test]
async fn permits_that_were_set_by_hand_are_no_breaker() {
    let (engine, id) = store().await;
    assert_eq!(first(&engine, id).await.code, CauseCode::Permits);
    put_breaker(&engine, &json!({"breaker": Breaker::default()})).await;
    let cause = first(&engine, id).await;
    assert_eq!((cause.code, cause.permits), (CauseCode::Permits, Some(0)));
    // The breaker service reports an unreadable record; the explanation goes without it.
    put_breaker(&engine, &json!({"breaker": 7})).await;
    assert_eq!(first(&engine, id).await.code, CauseCode::Permits);
}

#[tokio::test]
async fn an_open_breaker_is_named_with_its_next_probe() {
    let (engine, id) = store().await;
    let (probe, lost) = (SINCE.plus(60_000), SINCE.plus(90_000));
    let open = Breaker::Open { since: SINCE, next_probe_at: probe };
    let probing = Breaker::Probing { since: SINCE, until: lost };
    for (breaker, until) in [(open, probe), (probing, lost)] {
        put_breaker(&engine, &json!({"breaker": breaker, "gated": true})).await;
        let cause = first(&engine, id).await;
        assert_eq!((cause.code, cause.permits), (CauseCode::BreakerOpen, Some(0)));
        assert_eq!((cause.since, cause.until), (Some(SINCE), Some(until)));
    }
    // Without the gate, the record alone blocks nothing.
    permit(&engine, None).await;
    assert_eq!(first(&engine, id).await.code, CauseCode::NoWorker);
}
