//! Engines with a fault each, and the checker that finds it.

use crate::driven::{judge, memory, replayable};
use crate::faulty::{Fault, Faulty};
use std::sync::Arc;
use windlass_kit::history::{Kind, Load, Verdict};

fn tried(fault: Fault, seed: u64) -> Verdict {
    let subject = memory(seed).wrapped(|inner| Arc::new(Faulty::new(inner, fault)));
    judge(&replayable(subject, Load::new(seed)))
}

/// Asserts that some of a few runs find a fault, under this name.
#[track_caller]
fn found(fault: Fault, kind: Kind) {
    let verdicts: Vec<Verdict> = (0..5).map(|seed| tried(fault, seed)).collect();
    let found = verdicts.iter().filter(|verdict| verdict.count(kind) > 0).count();
    assert!(found >= 3, "{fault:?}: {kind} in {found} of 5 runs, as in this: {}", verdicts[0]);
}

#[test]
fn a_wrapper_without_a_fault_is_clean() {
    tried(Fault::None, 1).assert_clean();
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
