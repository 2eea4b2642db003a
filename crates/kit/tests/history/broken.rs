//! Engines with a fault each, and the checker that finds it.

use crate::driven::{memory, replayable};
use crate::faulty::{Fault, Faulty};
use std::sync::Arc;
use windlass_core::model::{Rate, Rule};
use windlass_kit::history::{Kind, Load, Verdict, check};

fn tried(fault: Fault, seed: u64) -> Verdict {
    tried_with(fault, Load::new(seed))
}

fn tried_with(fault: Fault, load: Load) -> Verdict {
    let subject = memory(load.seed).wrapped(|inner| Arc::new(Faulty::new(inner, fault)));
    let driven = replayable(subject, load);
    check(&driven.history, &driven.end, &load.options())
}

/// Asserts that some of a few runs find a fault, under this name.
#[track_caller]
fn found(fault: Fault, kind: Kind) {
    let verdicts: Vec<Verdict> = (0..5).map(|seed| tried(fault, seed)).collect();
    let found = verdicts.iter().filter(|verdict| verdict.count(kind) > 0).count();
    assert!(found >= 3, "{fault:?}: {kind} in {found} of 5 runs, as in this: {}", verdicts[0]);
}

/// The same beside short retention.
#[track_caller]
fn found_beside_retention(fault: Fault, kind: Kind) {
    let load = |seed| Load::new(seed).retention_ms(30_000);
    let verdicts: Vec<Verdict> = (0..5).map(|seed| tried_with(fault, load(seed))).collect();
    let found = verdicts.iter().filter(|verdict| verdict.count(kind) > 0).count();
    assert!(found >= 3, "{fault:?}: {kind} in {found} of 5 runs, as in this: {}", verdicts[0]);
}

#[test]
fn a_wrapper_without_a_fault_is_clean() {
    tried(Fault::None, 1).assert_clean();
    tried_with(Fault::None, Load::new(1).retention_ms(30_000)).assert_clean();
}

#[test]
fn an_engine_that_removes_replayed_jobs_with_the_ended_is_found_out() {
    found_beside_retention(Fault::RemovesReplayed, Kind::Lost);
}

/// The same under a limit by group.
#[track_caller]
fn found_under(rule: Rule, fault: Fault, kind: Kind) {
    let load = |seed| Load::new(seed).batches(20).limit(rule);
    tried_with(Fault::None, load(0)).assert_clean();
    let verdicts: Vec<Verdict> = (0..5).map(|seed| tried_with(fault, load(seed))).collect();
    let found = verdicts.iter().filter(|verdict| verdict.count(kind) > 0).count();
    assert!(found >= 3, "{fault:?}: {kind} in {found} of 5 runs, as in this: {}", verdicts[0]);
}

#[test]
fn an_engine_that_allows_twice_as_much_as_a_limit_is_found_out() {
    let rates = [Rate::window(3, 10_000), Rate::Bucket { amount: 3, per_ms: 10_000, burst: 2 }];
    for rule in [Rule::running(1), Rule::rate(rates[0]), Rule::rate(rates[1])] {
        found_under(rule, Fault::DoublesLimits, Kind::LimitExceeded);
    }
}

#[test]
fn an_engine_that_discards_whatever_the_state_is_found_out() {
    found_beside_retention(Fault::IgnoresConditions, Kind::Undone);
}

/// The same among jobs that run after others, with this many calls without a reply, per mille.
#[track_caller]
fn found_in_graphs(fault: Fault, kind: Kind, lost: u64) {
    let load = |seed| Load::new(seed).dependencies().faults(lost, 30, 40);
    tried_with(Fault::None, load(0)).assert_clean();
    let verdicts: Vec<Verdict> = (0..5).map(|seed| tried_with(fault, load(seed))).collect();
    let found = verdicts.iter().filter(|verdict| verdict.count(kind) > 0).count();
    assert!(found >= 3, "{fault:?}: {kind} in {found} of 5 runs, as in this: {}", verdicts[0]);
}

#[test]
fn an_engine_that_releases_dependents_early_is_found_out() {
    // A claim without a reply may have ended any job, by its crash.
    found_in_graphs(Fault::ReleasesEarly, Kind::EarlyStart, 0);
}

#[test]
fn an_engine_that_forgets_children_is_found_out() {
    found_in_graphs(Fault::ForgetsChildren, Kind::EarlyStart, 0);
}

#[test]
fn an_engine_that_forgets_dependents_is_found_out() {
    found_in_graphs(Fault::ForgetsEdges, Kind::Stuck, 100);
}

#[test]
fn an_engine_that_resolves_twice_is_found_out() {
    found_in_graphs(Fault::ResolvesTwice, Kind::Revived, 100);
}

#[test]
fn an_engine_that_accepts_stale_leases_is_found_out() {
    found(Fault::AcceptsStaleLeases, Kind::StaleLease);
}

#[test]
fn an_engine_that_forgets_what_it_takes_back_is_found_out() {
    found(Fault::ForgetsReclaimed, Kind::Lost);
}

#[test]
fn an_engine_that_ignores_keys_is_found_out() {
    found(Fault::StripsKeys, Kind::KeyOrder);
}

#[test]
fn an_engine_that_never_promotes_is_found_out() {
    found(Fault::NeverPromotes, Kind::Stuck);
}

#[test]
fn an_engine_that_drops_what_it_acknowledged_is_found_out() {
    found(Fault::DropsEnqueues, Kind::Lost);
}

#[test]
fn an_engine_that_says_yes_to_everything_is_found_out() {
    found(Fault::ForgetsReports, Kind::SettledTwice);
}
