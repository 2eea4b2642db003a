//! Limits by group: what exceeds them, and what only seems to.

use crate::script::{Script, job};
use windlass_core::engine::Lease;
use windlass_core::model::{Rate, Rule, State};
use windlass_kit::START;
use windlass_kit::history::{Call, Kind, Options, Reply, Start, Wanted};

fn of_group(n: u64, group: &str) -> Wanted {
    Wanted { group: group.into(), ..Wanted::plain(job(n)) }
}

/// Three jobs that started at the given times by the store's clock and ran in these periods.
fn script(rule: Rule, group: [&str; 3], at_ms: [u64; 3], runs: [(u64, u64); 3]) -> Script {
    let mut script = Script::default();
    script.with(Options::default().limit(rule));
    for (n, (from, to)) in (1..).zip(runs) {
        let at = n as usize - 1;
        let id = job(n);
        script.enqueue(1..2, of_group(n, group[at]));
        let lease = format!("L{n}");
        let started_at = Some(START.plus(at_ms[at]));
        let start = Start { id, lease: Lease::new(lease.as_str()), attempt: 1, started_at };
        script.call(from..from + 1, Call::Claim(format!("c{n}")), Reply::Claimed(vec![start]));
        script.done(to..to + 1, id, &lease).ends(id, State::Completed);
    }
    script
}

const TOGETHER: [(u64, u64); 3] = [(10, 50), (20, 60), (30, 70)];
const APART: [(u64, u64); 3] = [(10, 20), (30, 40), (50, 60)];

#[test]
fn jobs_that_certainly_ran_together_exceed_a_limit() {
    script(Rule::running(2), ["g"; 3], [0; 3], TOGETHER).breaks(&[Kind::LimitExceeded]);
    script(Rule::running(3), ["g"; 3], [0; 3], TOGETHER).is_fine();
    script(Rule::running(2), ["g", "g", "h"], [0; 3], TOGETHER).is_fine();
    script(Rule::running(1), ["g"; 3], [0; 3], APART).is_fine();
}

#[test]
fn calls_that_overlap_are_no_proof() {
    // The second claim was answered after the report of the first job was sent.
    let runs = [(10, 20), (20, 40), (40, 60)];
    script(Rule::running(1), ["g"; 3], [0; 3], runs).is_fine();
}

#[test]
fn starts_by_the_stores_clock_exceed_a_rate() {
    let window = |max| Rule::rate(Rate::window(max, 100));
    script(window(2), ["g"; 3], [0, 50, 99], APART).breaks(&[Kind::LimitExceeded]);
    script(window(2), ["g"; 3], [0, 50, 100], APART).is_fine();
    script(window(2), ["g", "g", "h"], [0, 50, 99], APART).is_fine();
    let bucket = |burst| Rule::rate(Rate::Bucket { amount: 1, per_ms: 100, burst });
    script(bucket(1), ["g"; 3], [0, 100, 199], APART).breaks(&[Kind::LimitExceeded]);
    script(bucket(1), ["g"; 3], [0, 100, 200], APART).is_fine();
    script(bucket(3), ["g"; 3], [0, 0, 0], APART).is_fine();
}
