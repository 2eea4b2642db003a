//! PostgreSQL through pgbouncer in transaction mode: the whole contract, random stories, clients that die.

#[path = "common/bouncer.rs"]
mod bouncer;
mod common;

use bouncer::Bouncer;
use common::{OwnSchema, url};
use windlass_core::engine::*;
use windlass_core::model::NewJob;
use windlass_kit::Subject;
use windlass_postgres::{Options, PostgresEngine};

/// Number of stories in an ordinary test run.
const CASES: u32 = 3;

/// A fresh engine that reaches the server through a pooler of its own.
async fn fresh() -> Subject {
    let bouncer = Bouncer::before(&url(), "");
    common::fresh_at(&bouncer.url()).await.guarded(bouncer)
}

windlass_kit::conformance!(fresh);
windlass_kit::model!(CASES, fresh);
windlass_kit::histories!(0..1, fresh);

#[tokio::test]
async fn a_pooler_that_drops_our_settings_is_noticed_too() {
    let bouncer = Bouncer::before(&url(), "ignore_startup_parameters = options");
    let schema = OwnSchema::new();
    let open = || PostgresEngine::connect(Options::new(bouncer.url()).schema(&schema.name));
    // More clients than servers, all at the same time: a name that one of them gave would be another's.
    let engines = [open().await.unwrap(), open().await.unwrap(), open().await.unwrap()];
    for round in 0..20 {
        let jobs = |_| Enqueue::each([NewJob::new("x").key(format!("k{}", round % 3))]);
        let adding = engines.iter().map(|engine| engine.enqueue(jobs(engine)));
        for added in futures_util::future::join_all(adding).await {
            added.unwrap();
        }
    }
    let lanes = engines[1].stats(StatsRequest::default()).await.unwrap().value;
    let there: u64 = lanes.iter().map(|lane| lane.available + lane.blocked).sum();
    assert_eq!(there, 60);
    assert_eq!(engines[2].check(false).await.unwrap().value.findings, []);
}
