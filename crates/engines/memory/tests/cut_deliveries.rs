//! The memory engine with the queue as its largest atomic step, and deliveries that are cut off and repeated.

mod common;

/// Number of stories in an ordinary test run.
const CASES: u32 = 400;

#[test]
fn random_graphs_over_queues_release_every_dependent_once_and_none_early() {
    windlass_kit::model::run_flows(CASES, common::by_queue);
}

#[test]
fn random_graphs_over_queues_do_so_if_deliveries_are_cut_off_and_repeated() {
    windlass_kit::model::run_flows(CASES, common::cut_off);
}

/// The topics in which jobs of several queues depend on each other.
const TOPICS: [&str; 6] =
    ["across_queues", "children", "dependencies", "flows", "follow_ups", "signals"];

#[test]
fn promises_across_queues_are_kept_if_deliveries_are_cut_off_and_repeated() {
    let topics = windlass_kit::SUITE.iter().filter(|topic| TOPICS.contains(&topic.name));
    let checks: Vec<_> = topics
        .flat_map(|topic| topic.checks.iter().map(|check| (topic.name, check.name)))
        .collect();
    assert!(checks.len() > 70, "{checks:?}");
    for seed in 0..5 {
        for (topic, check) in &checks {
            windlass_kit::run(topic, check, || common::cut_by(seed));
        }
    }
}

windlass_kit::histories!(0..10, common::cut_off);
