//! Cancelled callers do not affect other callers.

use crate::probe::Probe;
use crate::support::*;
use windlass_core::engine::{Enqueue, Jobs as _};

#[tokio::test]
async fn a_caller_that_leaves_the_queue_has_not_made_its_call() {
    let probe = Probe::shut();
    let engine = layered(&probe);
    let first = occupy(&engine, &probe).await;
    let stays = caller(&engine, numbered(1));
    let leaves = caller(&engine, numbered(2));
    let also_stays = caller(&engine, numbered(3));
    let_callers_line_up().await;
    leaves.abort();
    assert!(leaves.await.unwrap_err().is_cancelled());
    probe.let_through(2);
    first.await.unwrap().unwrap();
    stays.await.unwrap().unwrap();
    also_stays.await.unwrap().unwrap();
    assert_eq!(probe.calls("enqueue"), [1, 2]);
    assert_eq!(stored_tags(&engine).await, ["1", "3"]);
}

#[tokio::test]
async fn the_caller_that_started_a_call_can_leave_and_the_others_are_still_served() {
    let probe = Probe::shut();
    let engine = layered(&probe);
    let first = occupy(&engine, &probe).await;
    let other = caller(&engine, numbered(1));
    let_callers_line_up().await;
    first.abort();
    assert!(first.await.unwrap_err().is_cancelled());
    probe.let_through(2);
    other.await.unwrap().unwrap();
}

#[tokio::test]
async fn a_caller_that_stops_polling_does_not_hold_up_the_others() {
    let probe = Probe::shut();
    let engine = layered(&probe);
    // It starts a call and is neither polled again nor dropped.
    let mut idle = engine.enqueue(Enqueue::each([numbered(1)]));
    assert!(is_pending(&mut idle).await);
    let other = caller(&engine, numbered(2));
    probe.let_through(2);
    until("the other is served", || other.is_finished()).await;
    other.await.unwrap().unwrap();
    idle.await.unwrap().value.remove(0).unwrap();
}

#[test]
fn when_the_runtime_of_a_call_ends_callers_in_other_runtimes_get_an_error_and_can_repeat() {
    let probe = Probe::shut();
    let engine = layered(&probe);
    let build = || {
        let mut builder = tokio::runtime::Builder::new_multi_thread();
        builder.worker_threads(1).enable_all().build().unwrap()
    };
    let (driving, elsewhere) = (build(), build());
    driving.block_on(occupy(&engine, &probe));
    let (waiting, entered) = (engine.clone(), std::sync::Arc::new(tokio::sync::Notify::new()));
    let reported = elsewhere.spawn({
        let entered = entered.clone();
        async move {
            let mut call = waiting.enqueue(Enqueue::each([numbered(1)]));
            assert!(is_pending(&mut call).await);
            entered.notify_one();
            call.await.map(|_| ())
        }
    });
    elsewhere.block_on(entered.notified());
    drop(driving);
    let error = elsewhere.block_on(reported).unwrap().unwrap_err();
    assert_eq!(error.code(), "unavailable", "{error}");
    // And the layer goes on.
    probe.let_through(1);
    elsewhere.block_on(enqueue(&engine, numbered(2))).unwrap();
    assert_eq!(elsewhere.block_on(stored_tags(&engine)), ["2"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn dropping_the_last_handle_after_the_last_reply_closes_the_engine() {
    for _ in 0..200 {
        let probe = Probe::open();
        let engine = layered(&probe);
        let callers: Vec<_> = (0..8).map(|n| caller(&engine, numbered(n))).collect();
        drop(engine);
        for caller in callers {
            caller.await.unwrap().unwrap();
        }
        assert_eq!(std::sync::Arc::strong_count(&probe), 1, "the engine is still referenced");
    }
}
