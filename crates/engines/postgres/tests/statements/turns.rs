//! Fair queues of several processes: tenants take turns, whichever process enqueues and claims.

#![expect(clippy::unwrap_used, reason = "unwrapping is how the helpers say \"this must hold\" too")]

use crate::common::{OwnSchema, application, open};
use futures_util::future::join_all;
use std::collections::HashMap;
use std::time::Duration;
use windlass_core::engine::*;
use windlass_core::model::{NewJob, Order, QueuePatch};
use windlass_postgres::PostgresEngine;

const QUEUE: &str = "shared";
/// Processes that enqueue at once.
const MANY: usize = 8;

struct Fair {
    schema: OwnSchema,
    engines: Vec<PostgresEngine>,
    session: SessionId,
    claims: u64,
}

impl Fair {
    async fn start() -> Self {
        let schema = OwnSchema::new();
        let engines = join_all((0..MANY).map(|_| open(&schema))).await;
        let fair = Configure::queue(QUEUE, QueuePatch::order(Order::Fair));
        engines[0].configure(vec![fair]).await.unwrap().value.remove(0).unwrap();
        let session = engines[0].open_session(OpenSession::new("w")).await.unwrap().value.id;
        Self { schema, engines, session, claims: 0 }
    }

    /// Claims this many jobs, each by another process; returns the number per tenant.
    async fn claim(&mut self, limit: u32) -> HashMap<String, u32> {
        self.claims += 1;
        let by = Claimant::Session { session: self.session.clone(), claim_no: self.claims };
        let engine = &self.engines[self.claims as usize % MANY];
        let jobs = engine.claim(Claim::new(by, QUEUE, limit)).await.unwrap().value.jobs;
        let mut of_tenants = HashMap::new();
        for job in jobs {
            *of_tenants.entry(job.header.tenant.unwrap_or_default()).or_default() += 1;
        }
        of_tenants
    }

    async fn count(&self, table: &str) -> i64 {
        let sql = format!("SELECT count(*) FROM \"{}\".{table}", self.schema.name);
        application().await.query_one(&sql, &[]).await.unwrap().get(0)
    }
}

async fn enqueue(engine: &PostgresEngine, tenant: &str, jobs: usize) {
    let jobs = vec![NewJob::new("k").queue(QUEUE).tenant(tenant); jobs];
    let enqueued = engine.enqueue(Enqueue::each(jobs)).await.unwrap().value;
    assert!(enqueued.iter().all(Item::is_ok), "{enqueued:?}");
}

fn of(tenants: &HashMap<String, u32>, tenant: &str) -> u32 {
    tenants.get(tenant).copied().unwrap_or_default()
}

#[tokio::test]
async fn a_tenant_gains_nothing_by_enqueuing_from_many_processes_at_once() {
    let mut fair = Fair::start().await;
    for _ in 0..5 {
        join_all(fair.engines.iter().map(|engine| enqueue(engine, "loud", 5))).await;
    }
    enqueue(&fair.engines[1], "quiet", 10).await;
    let first = fair.claim(20).await;
    assert_eq!((of(&first, "loud"), of(&first, "quiet")), (10, 10));
}

#[tokio::test]
async fn the_turn_served_by_one_process_is_known_to_others() {
    let mut fair = Fair::start().await;
    enqueue(&fair.engines[0], "loud", 60).await;
    for _ in 0..3 {
        assert_eq!(of(&fair.claim(10).await, "loud"), 10);
    }
    enqueue(&fair.engines[5], "newcomer", 60).await;
    let then = fair.claim(20).await;
    assert!((9..=11).contains(&of(&then, "newcomer")), "its share from now on: {then:?}");
}

#[tokio::test]
async fn tenants_that_come_new_at_once_are_all_taken_in() {
    let mut fair = Fair::start().await;
    for round in 0..5 {
        let names: Vec<String> = (0..4).map(|number| format!("{round}-{number}")).collect();
        let adding = fair
            .engines
            .iter()
            .flat_map(|engine| names.iter().map(move |name| enqueue(engine, name, 1)));
        join_all(adding).await;
    }
    let all = fair.claim(1_000).await;
    assert_eq!((all.len(), all.values().sum::<u32>()), (20, 4 * 5 * MANY as u32), "{all:?}");
    assert_eq!(fair.engines[0].check(false).await.unwrap().value.findings, []);
}

#[tokio::test]
async fn compaction_keeps_one_row_per_queue_and_deletes_tenants_without_waiting_jobs() {
    let mut fair = Fair::start().await;
    for tenant in 0..30 {
        enqueue(&fair.engines[0], &format!("small {tenant}"), 1).await;
    }
    enqueue(&fair.engines[0], "large", 40).await;
    for _ in 0..10 {
        fair.claim(5).await;
    }
    assert!(fair.count("served").await > 1);
    assert_eq!(fair.count("turn").await, 31);
    fair.engines[0].maintain(MaintainRequest::new(Work::Compact, 1_000)).await.unwrap();
    assert_eq!((fair.count("served").await, fair.count("turn").await), (1, 1), "who waits stays");
    enqueue(&fair.engines[3], "small 7", 10).await;
    let then = fair.claim(10).await;
    assert_eq!((of(&then, "large"), of(&then, "small 7")), (5, 5));
}

#[tokio::test]
async fn an_open_transaction_holds_up_its_own_tenant_alone() {
    let fair = Fair::start().await;
    enqueue(&fair.engines[0], "held", 1).await;
    let mut client = application().await;
    let transaction = client.transaction().await.unwrap();
    let job = NewJob::new("k").queue(QUEUE).tenant("held");
    let enqueued = fair.engines[0].enqueue_in(&transaction, Enqueue::each([job])).await.unwrap();
    assert!(enqueued.value[0].is_ok());
    let others = async {
        enqueue(&fair.engines[1], "free", 5).await;
        enqueue(&fair.engines[2], "new", 5).await;
    };
    tokio::time::timeout(Duration::from_secs(5), others).await.expect("no caller waits for it");
    let held = enqueue(&fair.engines[3], "held", 1);
    tokio::pin!(held);
    let waits = tokio::time::timeout(Duration::from_millis(300), &mut held).await;
    assert!(waits.is_err(), "its turns are taken one after the other");
    transaction.commit().await.unwrap();
    tokio::time::timeout(Duration::from_secs(5), held).await.expect("goes on by itself");
}
