//! What HTTP costs: the same work on the local engine in this process and through a server on loopback,
//! one after the other in each round. `cargo run --release -p windlass-remote --example loopback`

use futures_util::future::join_all;
use std::future::Future;
use std::sync::Arc;
use tokio::time::Instant;
use windlass_core::engine::*;
use windlass_core::model::NewJob;
use windlass_layers::Coalesce;
use windlass_local::{LocalEngine, Options};
use windlass_remote::RemoteEngine;
use windlass_server::{Options as ServerOptions, Server};

const ROUNDS: usize = 3;
/// Callers that enqueue one job at a time.
const CALLERS: usize = 64;
const SINGLES_EACH: usize = 150;
const BATCH: usize = 100;
const BATCHES: usize = 200;
/// Workers that settle and claim in one call.
const WORKERS: usize = 4;
const CLAIM: u32 = 50;

type Failure = Box<dyn std::error::Error>;

#[tokio::main]
async fn main() -> Result<(), Failure> {
    let names = ["enqueue, 64 callers of one", "enqueue, batches of 100", "settle + claim, 50"];
    let mut rates = vec![Vec::new(); names.len()];
    for _ in 0..ROUNDS {
        let dir = tempfile::tempdir()?;
        let inside = local(&dir.path().join("inside"))?;
        let here = measure(Arc::new(Coalesce::new(inside))).await;
        let options = ServerOptions::new(([127, 0, 0, 1], 0).into()).services(None);
        let server = Server::bind(options).await?;
        let url = format!("http://{}", server.address());
        let handle = server.serve(local(&dir.path().join("served"))?)?;
        let there = measure(Arc::new(RemoteEngine::connect(url).await?)).await;
        handle.stop().await;
        for (rates, pair) in rates.iter_mut().zip(here.into_iter().zip(there)) {
            rates.push(pair);
        }
    }
    println!(
        "{:<28} {:>12} {:>12} {:>7}   (jobs/s, median of {ROUNDS})",
        "", "in-process", "HTTP", "ratio"
    );
    for (name, mut rates) in names.into_iter().zip(rates) {
        rates.sort_by(|a, b| (a.1 / a.0).total_cmp(&(b.1 / b.0)));
        let (here, there) = rates[ROUNDS / 2];
        println!("{name:<28} {here:>12.0} {there:>12.0} {:>7.2}", there / here);
    }
    Ok(())
}

fn local(dir: &std::path::Path) -> Result<Arc<dyn Engine>, Failure> {
    Ok(Arc::new(LocalEngine::open(Options::new(dir))?))
}

/// Jobs per second of each sort of work.
async fn measure(engine: Arc<dyn Engine>) -> [f64; 3] {
    let singles = timed(CALLERS * SINGLES_EACH, tasks(CALLERS, &engine, singles)).await;
    let batches = timed(BATCHES * BATCH, tasks(WORKERS, &engine, batches)).await;
    let total = CALLERS * SINGLES_EACH + BATCHES * BATCH;
    let drained = timed(total, tasks(WORKERS, &engine, drain)).await;
    [singles, batches, drained]
}

async fn timed(jobs: usize, work: impl Future<Output = ()>) -> f64 {
    let begin = Instant::now();
    work.await;
    jobs as f64 / begin.elapsed().as_secs_f64()
}

async fn tasks<F>(count: usize, engine: &Arc<dyn Engine>, task: fn(Arc<dyn Engine>) -> F)
where
    F: Future<Output = ()> + Send + 'static,
{
    let tasks = (0..count).map(|_| tokio::spawn(task(engine.clone())));
    for ended in join_all(tasks).await {
        ended.expect("the work is done");
    }
}

fn job() -> NewJob {
    NewJob::new("k").queue("q").json(r#"{"to":"ada@example.org","subject":"hello","n":12345}"#)
}

async fn singles(engine: Arc<dyn Engine>) {
    for _ in 0..SINGLES_EACH {
        engine.enqueue(Enqueue::each([job()])).await.expect("enqueue");
    }
}

async fn batches(engine: Arc<dyn Engine>) {
    for _ in 0..BATCHES / WORKERS {
        engine.enqueue(Enqueue::each(vec![job(); BATCH])).await.expect("enqueue");
    }
}

async fn drain(engine: Arc<dyn Engine>) {
    let session = engine.open_session(OpenSession::new("w")).await.expect("session").value.id;
    let mut reports = Vec::new();
    for claim_no in 1.. {
        let by = Claimant::Session { session: session.clone(), claim_no };
        let settle = Settle::new(std::mem::take(&mut reports)).then(Claim::new(by, "q", CLAIM));
        let reply = engine.settle(settle).await.expect("settle").value;
        let claimed = reply.claimed.expect("a claim").expect("claimed").jobs;
        if claimed.is_empty() {
            return;
        }
        let done = |job: ClaimedJob| SettleItem::new(job.header.id, job.lease, Outcome::DONE);
        reports = claimed.into_iter().map(done).collect();
    }
}
