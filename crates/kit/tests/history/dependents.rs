//! Jobs that run after others: what starts early, and what only seems to.

use crate::script::{Script, job};
use windlass_core::engine::Lease;
use windlass_core::model::State;
use windlass_kit::history::{Call, Kind, Options, Reply, Start, Wanted};

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
