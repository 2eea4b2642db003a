//! A server that says "not now" is asked again when it said, and no longer than one's patience.

use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;
use windlass_core::engine::{Claim, ClaimId, Claimant, Enqueue, Jobs as _};
use windlass_core::model::NewJob;
use windlass_memory::MemoryEngine;
use windlass_remote::{Options, RemoteEngine};
use windlass_server::{Options as ServerOptions, Server, ServerHandle};

/// A server on which two jobs may wait.
async fn small() -> (MemoryEngine, ServerHandle) {
    let store = MemoryEngine::new();
    let options = ServerOptions::new(([127, 0, 0, 1], 0).into()).services(None).depths(2, 2);
    let server = Server::bind(options).await.expect("bind");
    let handle = server.serve(Arc::new(store.clone())).expect("serve");
    (store, handle)
}

async fn connect(server: &ServerHandle, patience_ms: u64) -> RemoteEngine {
    let options = Options::new(format!("http://{}", server.address()))
        .patience(Duration::from_millis(patience_ms));
    RemoteEngine::open(options).await.expect("connect")
}

fn jobs(count: usize) -> Enqueue {
    Enqueue::each((0..count).map(|_| NewJob::new("k")))
}

#[tokio::test]
async fn jobs_refused_for_depth_are_enqueued_again_once_there_is_room() {
    let (store, server) = small().await;
    let engine = connect(&server, 30_000).await;
    let handing = tokio::spawn(async move { engine.enqueue(jobs(4)).await });
    let (mut claimed, mut number) = (Vec::new(), 0);
    let deadline = Instant::now() + Duration::from_secs(30);
    while claimed.len() < 4 {
        number += 1;
        let claim_id = ClaimId::new(format!("c{number}"));
        let by = Claimant::Alone { claim_id, worker: "w".into(), lease_ms: 60_000 };
        let found = store.claim(Claim::new(by, "default", 10)).await.unwrap().value.jobs;
        claimed.extend(found.into_iter().map(|job| job.header.id));
        assert!(Instant::now() < deadline, "only {} came", claimed.len());
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    let answers = handing.await.unwrap().unwrap().value;
    let mut stored: Vec<_> = answers.into_iter().map(|answer| answer.unwrap().id).collect();
    stored.sort_unstable();
    claimed.sort_unstable();
    assert_eq!(stored, claimed, "each once");
    server.stop().await;
}

#[tokio::test]
async fn without_time_to_wait_refused_jobs_are_returned_at_once() {
    let (_, server) = small().await;
    let begun = Instant::now();
    let answers = connect(&server, 500).await.enqueue(jobs(3)).await.unwrap().value;
    let codes: Vec<_> = answers.iter().map(|it| it.as_ref().err().map(|it| it.code())).collect();
    assert_eq!(codes, [None, None, Some("queue_full")]);
    let error = answers[2].as_ref().unwrap_err();
    assert!(error.retry_after_ms().is_some_and(|ms| ms >= 1_000), "{error:?}");
    assert!(begun.elapsed() < Duration::from_secs(10), "it does not wait in vain");
    server.stop().await;
}
