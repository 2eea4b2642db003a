//! Calls that fail: which callers get which error.

use crate::probe::{Fault, POISON, Probe};
use crate::support::*;
use std::sync::Arc;
use tokio::task::JoinHandle;
use windlass_core::engine::Enqueued;
use windlass_core::model::NewJob;
use windlass_core::{Error, Result};
use windlass_layers::Coalesce;

/// Lets a call pass and spoils the merged one of two callers behind it.
async fn spoiled(
    probe: &Arc<Probe>,
    engine: &Arc<Coalesce>,
    fault: Fault,
) -> Vec<Result<Enqueued>> {
    let first = occupy(engine, probe).await;
    let callers: Vec<JoinHandle<_>> = (1..=2).map(|n| caller(engine, numbered(n))).collect();
    let_callers_line_up().await;
    probe.let_through(1);
    first.await.unwrap().unwrap();
    until("both are at the gate", || probe.calls("enqueue") == [1, 2]).await;
    probe.spoil_next(fault);
    probe.let_through(1);
    let mut answers = Vec::new();
    for caller in callers {
        answers.push(caller.await.unwrap());
    }
    answers
}

#[tokio::test]
async fn an_unknown_outcome_reaches_all_callers_of_the_batch_and_is_not_repeated() {
    let (probe, down) = (Probe::shut(), "disk gone".to_owned());
    let engine = layered(&probe);
    let error = Error::Unavailable { store: "./jobs".into(), reason: down };
    for answer in spoiled(&probe, &engine, Fault::Fail(error.clone())).await {
        assert_eq!(answer.unwrap_err(), error);
    }
    assert_eq!(probe.calls("enqueue"), [1, 2]);
}

#[tokio::test]
async fn a_panic_of_the_engine_reaches_all_callers_of_the_batch_and_the_layer_continues() {
    let probe = Probe::shut();
    let engine = layered(&probe);
    for answer in spoiled(&probe, &engine, Fault::Panic).await {
        let error = answer.unwrap_err();
        assert_eq!(error.code(), "unavailable");
        assert!(error.to_string().contains("the probe panics"), "{error}");
    }
    probe.let_through(1);
    enqueue(&engine, numbered(3)).await.unwrap();
    assert_eq!(stored_tags(&engine).await, ["3"]);
}

#[tokio::test]
async fn replies_that_do_not_match_the_items_reach_no_caller() {
    let probe = Probe::shut();
    let engine = layered(&probe);
    for answer in spoiled(&probe, &engine, Fault::AnswerTooFew).await {
        let error = answer.unwrap_err().to_string();
        assert!(error.contains("1 answers to 2 items"), "{error}");
    }
}

#[tokio::test]
async fn a_request_that_makes_the_whole_call_fail_fails_alone() {
    let probe = Probe::shut();
    let engine = layered(&probe);
    let first = occupy(&engine, &probe).await;
    let good = caller(&engine, numbered(1));
    let bad = caller(&engine, NewJob::new(POISON));
    let also_good = caller(&engine, numbered(2));
    let_callers_line_up().await;
    probe.let_through(5);
    first.await.unwrap().unwrap();
    good.await.unwrap().unwrap();
    also_good.await.unwrap().unwrap();
    assert_eq!(bad.await.unwrap().unwrap_err().field(), Some("jobs"));
    assert_eq!(probe.calls("enqueue"), [1, 3, 1, 1, 1]);
    assert_eq!(stored_tags(&engine).await, ["1", "2"]);
}
