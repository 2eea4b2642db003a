//! Tests that a process which stops in the middle of a transaction does not hold up a group of limits.

use crate::{Options, PostgresEngine, remove};
use std::time::Duration;
use windlass_core::engine::*;
use windlass_core::model::{Limit, NewJob, QueuePatch};
use windlass_core::random::{Random as _, SystemRandom};

/// URL of the server; `cargo xtask test` starts one and sets it.
const VARIABLE: &str = "WINDLASS_TEST_POSTGRES";
/// The server ends the silent transaction long before this, and before a lock times out.
const PATIENCE: Duration = Duration::from_secs(8);
const LOCK_GROUP: &str = "SELECT FROM {s}.meter WHERE grp = 'acme' AND name = '' FOR UPDATE";

async fn enqueue(engine: &PostgresEngine) {
    let job = NewJob::new("charge").queue("limited").tenant("acme");
    engine.enqueue(Enqueue::each([job])).await.unwrap().value.remove(0).unwrap();
}

#[tokio::test]
async fn a_silent_process_holds_up_its_group_for_seconds_and_no_claim_waits_for_it() {
    let url = std::env::var(VARIABLE)
        .unwrap_or_else(|_| panic!("{VARIABLE} is not set: run `cargo xtask test`"));
    let schema = format!("test_{:016x}", SystemRandom.next_u64());
    let open = || PostgresEngine::connect(Options::new(&url).schema(&schema));
    let (stopped, other) = (open().await.unwrap(), open().await.unwrap());
    let settings = [
        Configure::limit("share", Limit::max_running(9).by_group()),
        Configure::queue("limited", QueuePatch::limits(["share"])),
    ];
    for done in other.configure(settings.into()).await.unwrap().value {
        done.unwrap();
    }
    enqueue(&other).await;
    let session = other.open_session(OpenSession::new("w")).await.unwrap().value.id;
    let claim = async |claim_no| {
        let by = Claimant::Session { session: session.clone(), claim_no };
        other.claim(Claim::new(by, "limited", 10)).await.unwrap().value.jobs.len()
    };

    let silent = stopped.inner.shared.pool.lend().await.unwrap();
    silent.command("BEGIN").await.unwrap();
    silent.plain(LOCK_GROUP).await.unwrap();
    assert_eq!(claim(1).await, 0, "the group is locked, and the claim did not wait for it");
    assert!(silent.plain(LOCK_GROUP).await.is_ok(), "the transaction is still open");
    tokio::time::timeout(PATIENCE, enqueue(&other)).await.expect("the server ends the transaction");
    assert_eq!(claim(2).await, 2);
    assert!(silent.plain(LOCK_GROUP).await.is_err(), "its transaction is over");

    drop((silent, stopped, other));
    remove(&url, &schema).await.unwrap();
}
