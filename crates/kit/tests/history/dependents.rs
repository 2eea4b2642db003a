//! Jobs that run after others: what starts early, and what only seems to.

use crate::script::{Script, job};
use windlass_core::engine::Lease;
use windlass_core::model::{AttemptEnd, State};
use windlass_kit::history::{
    Admission, Call, Kind, Options, Receipt, Reply, Report, Start, Wanted, Wish,
};

/// Two jobs, of which the second runs after the first: the times at which the first is done and the second starts.
fn script(done: u64, start: u64) -> Script {
    let mut script = Script::default();
    script.enqueue(1..2, Wanted::plain(job(1)).crashes_max(3));
    script.enqueue(2..3, Wanted::plain(job(2)).crashes_max(3).after([job(1)]));
    for (n, from, to) in [(1, 10, done), (2, start, 90)] {
        let (id, lease) = (job(n), format!("L{n}"));
        let start = Start { id, lease: Lease::new(lease.as_str()), attempt: 1, started_at: None };
        script.call(from..from + 1, Call::Claim(format!("c{n}")), Reply::Claimed(vec![start]));
        script.done(to..to + 1, id, &lease).ends(id, State::Completed);
    }
    script
}

#[test]
fn a_dependent_that_certainly_started_before_is_early() {
    script(50, 20).breaks(&[Kind::EarlyStart]);
    script(20, 50).is_fine();
}

#[test]
fn calls_that_overlap_are_no_proof() {
    script(20, 20).is_fine();
    script(21, 20).is_fine();
}

#[test]
fn a_job_that_may_have_ended_otherwise_excuses_its_dependent() {
    let mut expired = script(50, 20);
    expired.with(Options::new().expiry());
    expired.is_fine();
}

#[test]
fn a_dependent_that_is_never_released_is_stuck() {
    let mut script = Script::default();
    script.enqueue(1..2, Wanted::plain(job(1)));
    script.enqueue(2..3, Wanted::plain(job(2)).after([job(1)]));
    let (id, lease) = (job(1), Lease::new("L1"));
    let start = Start { id, lease, attempt: 1, started_at: None };
    script.call(10..11, Call::Claim("c".into()), Reply::Claimed(vec![start]));
    script.done(20..21, id, "L1").ends(id, State::Completed);
    script.ends(job(2), State::Blocked);
    script.breaks(&[Kind::Stuck]);
}

/// A job that waits for a child: the times at which the child is done and the job is started again.
fn waiting(done: u64, again: u64) -> Script {
    let (id, child) = (job(1), job(2));
    let mut script = Script::default();
    script.enqueue(1..2, Wanted::plain(id).crashes_max(3)).claim(3..4, id, "L1", 1);
    let wanted = Wanted::plain(child).crashes_max(3).joins(id);
    let (lease, end) = (Lease::new("L1"), AttemptEnd::Wait);
    let report = Report { id, lease, end, follow_ups: vec![wanted] };
    let stored = Admission::Stored { state: State::Available, replaced: None };
    let receipt = Receipt::Applied { state: State::Blocked, follow_ups: vec![stored] };
    let reply = Reply::Settled { items: vec![receipt], claimed: Vec::new() };
    script.call(5..6, Call::Settle { items: vec![report], claim: None }, reply);
    script.claim(10..11, child, "L2", 1).done(done..done + 1, child, "L2");
    script.claim(again..again + 1, id, "L3", 2).done(90..91, id, "L3");
    script.ends(id, State::Completed).ends(child, State::Completed);
    script
}

#[test]
fn a_job_that_is_started_before_its_child_is_done_is_early() {
    waiting(50, 20).breaks(&[Kind::EarlyStart]);
    waiting(20, 50).is_fine();
    waiting(20, 20).is_fine();
}

#[test]
fn a_replay_excuses_a_job_from_waiting_for_its_child() {
    let mut replayed = waiting(50, 20);
    replayed.change(12..13, job(1), Wish::Cancel, Some(State::Cancelled));
    replayed.change(14..15, job(1), Wish::Replay, Some(State::Available));
    replayed.is_fine();
}

#[test]
fn a_job_that_is_cancelled_instead_of_waiting_has_no_children() {
    let (id, child) = (job(1), job(2));
    let mut script = Script::default();
    script.enqueue(1..2, Wanted::plain(id).crashes_max(3)).claim(3..4, id, "L1", 1);
    script.change(4..5, id, Wish::Cancel, Some(State::Running));
    let wanted = Wanted::plain(child).crashes_max(3).joins(id);
    let (lease, end) = (Lease::new("L1"), AttemptEnd::Wait);
    let report = Report { id, lease, end, follow_ups: vec![wanted] };
    let receipt = Receipt::Applied { state: State::Cancelled, follow_ups: Vec::new() };
    let reply = Reply::Settled { items: vec![receipt], claimed: Vec::new() };
    script.call(5..6, Call::Settle { items: vec![report], claim: None }, reply);
    script.ends(id, State::Cancelled);
    script.is_fine();
}
