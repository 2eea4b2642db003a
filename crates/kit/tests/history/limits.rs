//! Limits by group: what exceeds them, and what only seems to.

use crate::script::{Script, job};
use windlass_core::engine::Lease;
use windlass_core::model::{Limit, Rate, Rule, State};
use windlass_kit::START;
use windlass_kit::history::{Call, CheckedLimit, Kind, Options, Reply, Start, Wanted};

fn of_group(n: u64, group: &str) -> Wanted {
    Wanted { group: group.into(), kind: KIND.into(), ..Wanted::plain(job(n)) }
}

const KIND: &str = "k";

/// Three jobs that started at the given times by the store's clock and ran in these periods.
fn script(rule: Rule, group: [&str; 3], at_ms: [u64; 3], runs: [(u64, u64); 3]) -> Script {
    let limit = CheckedLimit::new("l", Limit::new(rule).by_group());
    under(Options::default().limit(limit), group, at_ms, runs)
}

fn under(options: Options, group: [&str; 3], at_ms: [u64; 3], runs: [(u64, u64); 3]) -> Script {
    let mut script = Script::default();
    script.with(options);
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

#[test]
fn limits_count_all_groups_or_a_kind_or_a_group_by_a_rule_of_its_own() {
    let of = |limit: CheckedLimit, group| {
        under(Options::default().limit(limit), group, [0; 3], TOGETHER)
    };
    let groups = ["g", "h", "i"];
    let all = || CheckedLimit::new("l", Limit::max_running(2));
    of(all(), groups).breaks(&[Kind::LimitExceeded]);
    of(all().kind(KIND), groups).breaks(&[Kind::LimitExceeded]);
    of(all().kind("other"), groups).is_fine();
    let own = Limit::max_running(3).by_group().for_group("g", Rule::running(2));
    of(CheckedLimit::new("l", own.clone()), ["g"; 3]).breaks(&[Kind::LimitExceeded]);
    of(CheckedLimit::new("l", own), ["h"; 3]).is_fine();
}

#[test]
fn a_store_that_lost_claims_has_lost_their_tokens() {
    let limit = || CheckedLimit::new("l", Limit::new(Rule::rate(Rate::window(1, 100))));
    let mut script = under(Options::default().limit(limit()), ["g"; 3], [0, 100, 200], APART);
    // The first lease of the fourth job was never accepted.
    let id = job(4);
    script.enqueue(1..2, of_group(4, "g"));
    for (n, at_ms) in [(1, 250), (2, 300)] {
        let (lease, started_at) = (Lease::new(format!("M{n}")), Some(START.plus(at_ms)));
        let start = Start { id, lease, attempt: n, started_at };
        let from = 70 + 10 * u64::from(n);
        script.call(from..from + 1, Call::Claim(format!("m{n}")), Reply::Claimed(vec![start]));
    }
    script.done(100..101, id, "M2").ends(id, State::Completed);
    script.breaks(&[Kind::LimitExceeded]);
    script.with(Options::default().limit(limit()).claims_forgotten());
    script.is_fine();
}
