//! Tests the report with made-up results.

use super::super::cell::Cell;
use super::super::results::{Answer, Missing, Outcome};
use super::*;

fn answer(jobs: u64, seconds: f64, p50_ms: f64) -> Outcome {
    Outcome::Measured(Answer {
        jobs,
        seconds,
        others: 200_000,
        p50_ms: Some(p50_ms),
        p99_ms: Some(p50_ms * 3.0),
        cpu_s: seconds / 2.0,
        rss_mb: 40.0,
        version: "1.2.3".into(),
        settings: "as documented".into(),
    })
}

/// Results of Windlass, the peer and Windlass again in each of these workloads.
fn results(rows: &[(Workload, [Outcome; 3])]) -> Results {
    let machine = vec!["2 cores".to_owned()];
    let mut results = Results::new(machine, "cargo xtask bench --peers".to_owned(), Vec::new());
    let (ours, peer) = (named("windlass-postgres"), named("pg-boss"));
    for (workload, outcomes) in rows {
        for (contender, outcome) in [ours, peer, ours].into_iter().zip(outcomes) {
            results.add(&Cell { workload: *workload, contender }, outcome.clone());
        }
    }
    results
}

fn named(name: &str) -> Contender {
    *Contender::named(name).unwrap()
}

fn section<'a>(text: &'a str, title: &str) -> &'a str {
    let from = text.find(&format!("## {title}")).unwrap_or_else(|| panic!("no {title} in {text}"));
    let rest = &text[from + 3..];
    &rest[..rest.find("\n## ").unwrap_or(rest.len())]
}

#[test]
fn a_peer_that_wins_is_named_before_anything_else() {
    let results = results(&[
        (
            Workload::W3,
            [answer(8_000, 1.0, 1.0), answer(10_000, 1.0, 1.0), answer(9_000, 1.0, 1.0)],
        ),
        (
            Workload::W2,
            [answer(90_000, 1.0, 1.0), answer(30_000, 1.0, 1.0), answer(60_000, 1.0, 1.0)],
        ),
    ]);
    let text = markdown(&results);
    assert!(text.find("Where a peer wins") < text.find("On PostgreSQL"), "{text}");
    let wins = section(&text, "Where a peer wins");
    assert!(wins.contains("**W3**") && wins.contains("pg-boss (Node) is ahead"), "{wins}");
    assert!(wins.contains("10,000/s against 8,500/s; the ratio is 0.85 × (0.80–0.90)"), "{wins}");
    assert!(!wins.contains("**W2**"), "{wins}");
    assert!(section(&text, "On PostgreSQL").contains("2.50 × (2.00–3.00)"), "{text}");
}

#[test]
fn contenders_on_redis_are_compared_at_the_same_durability() {
    let mut results = results(&[]);
    let (ours, peer) = (named("windlass-redis-everysec"), named("bullmq-redis-everysec"));
    for (contender, jobs) in [(ours, 9_000), (peer, 10_000)] {
        results.add(&Cell { workload: Workload::W3, contender }, answer(jobs, 1.0, 1.0));
    }
    let text = markdown(&results);
    assert!(section(&text, "Where a peer wins").contains("is ahead"), "{text}");
    assert!(text.contains("On Redis, synced every second"), "{text}");
    assert!(!text.contains("On Redis, synced at every write"), "{text}");
}

#[test]
fn a_lower_latency_is_the_better_one() {
    let w4 = [answer(100, 2.0, 2.0), answer(100, 2.0, 5.0), answer(100, 2.0, 2.0)];
    let text = markdown(&results(&[(Workload::W4, w4)]));
    assert!(section(&text, "Where a peer wins").contains("Nowhere"), "{text}");
    assert!(section(&text, "On PostgreSQL").contains("| 2.50 × | 2.50 × |"), "{text}");
    assert!(section(&text, "On PostgreSQL").contains("2.00 ms | 6.00 ms"), "{text}");
}

#[test]
fn differences_within_the_spread_are_called_close() {
    let w3 = [answer(9_000, 1.0, 1.0), answer(10_000, 1.0, 1.0), answer(12_000, 1.0, 1.0)];
    let text = markdown(&results(&[(Workload::W3, w3)]));
    let wins = section(&text, "Where a peer wins");
    assert!(wins.contains("Too close to call") && wins.contains("1.05 × (0.90–1.20)"), "{wins}");
}

#[test]
fn a_failed_or_missing_peer_is_reported_and_the_other_results_remain() {
    let w3 =
        [answer(9_000, 1.0, 1.0), Outcome::Failed("it ran dry".into()), answer(9_000, 1.0, 1.0)];
    let mut results = results(&[(Workload::W3, w3)]);
    results.missing.push(Missing { contender: "awa", why: "no such crate".into() });
    results.left_out = 7;
    let text = markdown(&results);
    let not_measured = section(&text, "Not measured");
    assert!(not_measured.contains("W3 pg-boss: it ran dry"), "{text}");
    assert!(not_measured.contains("awa could not be installed: no such crate"), "{text}");
    assert!(not_measured.contains("7 cells were left out"), "{text}");
    assert!(section(&text, "On PostgreSQL").contains("9,000/s"), "{text}");
}

#[test]
fn fewer_others_than_ordered_are_confessed() {
    let full = answer(50_000, 1.0, 1.0);
    let mut short = full.clone();
    if let Outcome::Measured(answer) = &mut short {
        answer.others = 12_345;
    }
    let text = markdown(&results(&[(Workload::W5, [full.clone(), short, full])]));
    assert!(text.contains("W5, pg-boss (Node): only 12,345 others waited"), "{text}");
}

#[test]
fn a_report_comes_with_its_charts_and_raw_results() {
    let directory = std::env::temp_dir().join(format!("windlass-report-{}", std::process::id()));
    let w4 = [answer(100, 2.0, 2.0), answer(100, 2.0, 5.0), answer(100, 2.0, 2.0)];
    write(&results(&[(Workload::W4, w4)]), &directory).unwrap();
    let text = fs::read_to_string(directory.join("README.md")).unwrap();
    for chart in ["W4-p50.svg", "W4-p99.svg"] {
        assert!(text.contains(chart), "{text}");
        assert!(
            fs::read_to_string(directory.join(chart)).unwrap().contains("Windlass, postgres://")
        );
    }
    let raw = fs::read_to_string(directory.join("results.json")).unwrap();
    let raw: serde_json::Value = serde_json::from_str(&raw).unwrap();
    assert_eq!(raw["entries"].as_array().unwrap().len(), 3);
    fs::remove_dir_all(directory).unwrap();
}
