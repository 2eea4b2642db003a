//! Engines broken on purpose, each found out within a minute.

use crate::faulty::{Fault, Faulty};
use crate::faulty_history as history;
use crate::run::{Run, torture};
use std::sync::Arc;
use std::time::Duration;
use windlass_core::engine::Engine;
use windlass_memory::MemoryEngine;
use windlass_server::{Options, Server};
use windlass_services::ServiceOptions;

/// How long things go wrong where a fault shows at once, and where it takes a coincidence. Even with the
/// longest wait for something to get done it is far less than a minute.
const SOON: &str = "4";
const LATER: &str = "10";

/// Runs with different seeds, for faults that take a coincidence to show and may be missed by one run.
const RUNS: u32 = 3;

/// Operators beside retention so short that most jobs are gone at the end.
const REMOVING: [&str; 4] = ["--operators", "3", "--retention", "1s"];

/// Tortures an engine behind a server in this process.
fn tortured(engine: Arc<dyn Engine>, seconds: &str, seed: u32) -> Run {
    tortured_with(engine, seconds, seed, &[])
}

fn tortured_with(engine: Arc<dyn Engine>, seconds: &str, seed: u32, flags: &[&str]) -> Run {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    let url = runtime.block_on(async {
        let mut services = ServiceOptions::default();
        // Retention would otherwise run every five minutes.
        services.retain.interval = Duration::from_millis(1_000);
        let options = Options::new(([127, 0, 0, 1], 0).into()).services(Some(services));
        let server = Server::bind(options).await.unwrap();
        let url = format!("http://{}", server.address());
        // It serves for as long as the runtime lives.
        std::mem::forget(server.serve(engine).unwrap());
        url
    });
    let seed = seed.to_string();
    let run = torture(&[&[&*url, "--seconds", seconds, "--seed", &seed], flags].concat());
    runtime.shutdown_background();
    run
}

fn sound() -> Arc<dyn Engine> {
    Arc::new(MemoryEngine::new())
}

#[track_caller]
fn found(fault: Fault, seconds: &str, names: &[&str]) {
    let engine = || -> Arc<dyn Engine> { Arc::new(Faulty::new(sound(), fault)) };
    first_not_clean(engine, seconds).assert_broken(names);
}

#[track_caller]
fn found_in_history(fault: history::Fault, seconds: &str, names: &[&str]) {
    let engine = || -> Arc<dyn Engine> { Arc::new(history::Faulty::new(sound(), fault)) };
    first_not_clean(engine, seconds).assert_broken(names);
}

#[track_caller]
fn found_beside_retention(fault: history::Fault, names: &[&str]) {
    let engine = || -> Arc<dyn Engine> { Arc::new(history::Faulty::new(sound(), fault)) };
    first_not_clean_with(engine, SOON, &REMOVING).assert_broken(names);
}

/// The first run in which anything was found, or the last one.
fn first_not_clean(engine: impl Fn() -> Arc<dyn Engine>, seconds: &str) -> Run {
    first_not_clean_with(engine, seconds, &[])
}

fn first_not_clean_with(
    engine: impl Fn() -> Arc<dyn Engine>,
    seconds: &str,
    flags: &[&str],
) -> Run {
    for seed in 1..RUNS {
        let run = tortured_with(engine(), seconds, seed, flags);
        if !run.is_clean() {
            return run;
        }
    }
    tortured_with(engine(), seconds, RUNS, flags)
}

#[test]
fn a_sound_engine_behind_the_same_server_is_clean() {
    tortured(sound(), SOON, 1).assert_kept();
}

#[test]
fn a_sound_engine_is_clean_beside_operators_and_short_retention() {
    let run = tortured_with(sound(), SOON, 1, &REMOVING);
    run.assert_kept();
    assert!(run.count("removed") > 20, "{:#}", run.report);
}

#[test]
fn an_engine_that_removes_replayed_jobs_with_the_ended() {
    found_beside_retention(history::Fault::RemovesReplayed, &["lost"]);
}

#[test]
fn an_engine_that_drops_what_it_acknowledged() {
    found_in_history(history::Fault::DropsEnqueues, SOON, &["lost"]);
}

#[test]
fn an_engine_that_forgets_what_it_takes_back() {
    found_in_history(history::Fault::ForgetsReclaimed, SOON, &["lost"]);
}

#[test]
fn an_engine_that_forgets_jobs_of_dead_workers() {
    found(Fault::ForgetsOnReclaim, SOON, &["lost"]);
}

#[test]
fn an_engine_that_acknowledges_more_than_it_stores() {
    found(Fault::AcknowledgesTooMuch, SOON, &["lost", "phantoms"]);
}

#[test]
fn an_engine_that_stores_a_job_under_another_id() {
    found(Fault::TakesIdsTwice, SOON, &["lost", "phantoms"]);
}

#[test]
fn an_engine_that_loses_follow_ups() {
    found(Fault::LosesFollowUps, SOON, &["lost"]);
}

/// A stale lease that is accepted may end a job a second time.
const STALE: [&str; 2] = ["stale_leases_accepted", "settled_twice"];

#[test]
fn an_engine_that_accepts_stale_leases() {
    found_in_history(history::Fault::AcceptsStaleLeases, LATER, &STALE);
}

#[test]
fn an_engine_that_ignores_leases() {
    found(Fault::IgnoresLeases, LATER, &STALE);
}

#[test]
fn an_engine_that_says_yes_to_every_report() {
    found_in_history(history::Fault::ForgetsReports, SOON, &["settled_twice"]);
}

#[test]
fn an_engine_that_gives_a_job_to_two_workers() {
    found(Fault::ClaimsTwice, SOON, &["one_start_returned_twice"]);
}

#[test]
fn an_engine_in_which_failed_jobs_are_stuck() {
    found_in_history(history::Fault::NeverPromotes, SOON, &["stuck"]);
}

#[test]
fn an_engine_that_knows_no_order() {
    found_in_history(history::Fault::StripsKeys, SOON, &["key_order_violations"]);
}

#[test]
fn an_engine_that_ignores_keys() {
    found(Fault::IgnoresKeys, SOON, &["key_order_violations"]);
}

#[test]
fn an_engine_that_removes_what_has_ended_before_its_time() {
    found(Fault::RemovesEarly, LATER, &["lost"]);
}

#[test]
fn an_engine_that_keeps_leases_missing_in_heartbeats() {
    found(Fault::KeepsUndeclared, SOON, &["stuck"]);
}

#[track_caller]
fn found_in_graphs(fault: history::Fault, names: &[&str]) {
    let engine = || -> Arc<dyn Engine> { Arc::new(history::Faulty::new(sound(), fault)) };
    first_not_clean_with(engine, SOON, &["--flows"]).assert_broken(names);
}

#[test]
fn an_engine_that_releases_dependents_early() {
    found_in_graphs(history::Fault::ReleasesEarly, &["dependents_started_early"]);
}

#[test]
fn an_engine_that_forgets_dependents() {
    found_in_graphs(history::Fault::ForgetsEdges, &["stuck"]);
}

#[test]
fn an_engine_that_resolves_twice() {
    found_in_graphs(history::Fault::ResolvesTwice, &["started_after_the_end"]);
}

#[test]
fn an_engine_that_allows_twice_as_much_as_a_limit() {
    let fault = history::Fault::DoublesLimits;
    let engine = || -> Arc<dyn Engine> { Arc::new(history::Faulty::new(sound(), fault)) };
    first_not_clean_with(engine, SOON, &["--limits"]).assert_broken(&["limits_exceeded"]);
}

#[test]
fn a_sound_engine_is_clean_under_limits_and_is_left_without_them() {
    let engine = sound();
    let run = tortured_with(engine.clone(), SOON, 1, &["--limits"]);
    run.assert_kept();
    let limits = run.report["limits"].as_array().unwrap();
    assert_eq!(limits.len(), 3, "those with a rate: {:#}", run.report);
    assert!(limits.iter().all(|limit| limit["started"].as_u64() > Some(10)), "{limits:?}");
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let settings = runtime.block_on(engine.settings()).unwrap().value;
    assert_eq!((settings.limits.len(), settings.kinds.len()), (0, 0), "{settings:?}");
}
