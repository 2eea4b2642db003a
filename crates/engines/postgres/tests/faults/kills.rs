//! Servers that die under load and come back, and connections that are cut. The clients live through
//! it, and write down what they saw.

use crate::bouncer::Bouncer;
use crate::server::Server;
use crate::trial::{Trial, seed, times};
use crate::waiting::until;
use rustix::process::Signal;
use std::time::Duration;
use windlass_core::engine::Admin as _;
use windlass_core::random::{Random as _, Seeded};
use windlass_kit::history::Options;

/// Upper bound of the delay before a fault, from the time that all clients work again.
const FAULT_MAX_MS: u64 = 400;
/// After this many kills the next server is killed too, while it recovers.
const RECOVERING_EVERY: u32 = 3;
const KILL_RECOVERING_MAX_MS: u64 = 200;
/// Connections that are cut, and the longest time between two cutoffs.
const CUTS: u32 = 60;
const CUTS_LONG: u32 = 2_000;
const CUT_MAX_MS: u64 = 30;

async fn a_moment(random: &Seeded, max_ms: u64) {
    tokio::time::sleep(Duration::from_millis(random.below(max_ms))).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_acknowledged_is_lost_when_postgres_is_killed_and_clients_recover_by_themselves() {
    let (mut trial, random) = (Trial::start(3).await, Seeded::new(seed()));
    for number in 0..times(5, 20) {
        trial.all_clients_work().await;
        a_moment(&random, FAULT_MAX_MS).await;
        trial.server.kill();
        if number % RECOVERING_EVERY == 1 {
            trial.server.launch();
            a_moment(&random, KILL_RECOVERING_MAX_MS).await;
            trial.server.kill();
        }
        trial.server.start().await;
    }
    trial.all_clients_work().await;
    assert_eq!(trial.sessions_lost(), 0, "a server that restarts at once loses no session");
    // Claims are committed asynchronously: the last ones before a kill may be forgotten.
    let verdict = trial.judge(Options::default().claims_forgotten()).await;
    verdict.assert_clean();
    assert!(verdict.counts.unanswered > 0, "no call was under way at any kill");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_is_lost_when_postgres_is_shut_down_under_load() {
    let (mut trial, random) = (Trial::start(3).await, Seeded::new(seed()));
    for number in 0..times(4, 12) {
        trial.all_clients_work().await;
        a_moment(&random, FAULT_MAX_MS).await;
        trial.server.stop(if number % 2 == 0 { Signal::QUIT } else { Signal::INT });
        trial.server.start().await;
    }
    trial.all_clients_work().await;
    assert_eq!(trial.sessions_lost(), 0);
    trial.judge(Options::default().claims_forgotten()).await.assert_clean();
}

/// A pooler keeps its clients' connections while the server behind it is another one.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_is_lost_when_postgres_is_killed_behind_a_pooler() {
    let (server, random) = (Server::start_new().await, Seeded::new(seed()));
    let bouncer = Bouncer::before(&server.url(), "");
    let mut trial = Trial::start_on(server, &bouncer.url(), 3).await;
    for _ in 0..times(3, 10) {
        trial.all_clients_work().await;
        a_moment(&random, FAULT_MAX_MS).await;
        let before = trial.engine.health().await.expect("answers").epoch;
        trial.server.kill();
        trial.server.start().await;
        until("the engine notices that it is not the same", async || {
            trial.engine.health().await.is_ok_and(|health| health.epoch != before)
        })
        .await;
    }
    trial.all_clients_work().await;
    assert_eq!(trial.sessions_lost(), 0);
    trial.judge(Options::default().claims_forgotten()).await.assert_clean();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_is_lost_when_connections_are_cut_at_any_point() {
    let (trial, random) = (Trial::start(3).await, Seeded::new(seed()));
    let client = trial.server.client().await;
    // Busy backends rather than idle ones, one at a time.
    let cut = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity
        WHERE application_name = 'windlass' ORDER BY state = 'idle', random() LIMIT 1";
    trial.all_clients_work().await;
    let mut struck = 0;
    for _ in 0..times(CUTS, CUTS_LONG) {
        a_moment(&random, CUT_MAX_MS).await;
        struck += client.query(cut, &[]).await.expect("may cut").len();
    }
    trial.all_clients_work().await;
    // The server lived on: it forgets nothing.
    let verdict = trial.judge(Options::default()).await;
    println!("{struck} connections were cut");
    verdict.assert_clean();
    assert!(verdict.counts.unanswered > 0, "no call was under way at any cut");
}
