//! `windlass enqueue --flow` and `windlass flows`.

use crate::support::Store;

const GRAPH: &str = r#"{"flow":"f","nodes":{
    "a":{"kind":"one"},
    "b":{"kind":"two","after":[{"job":"a","on_failure":"cancel"}]}}}"#;

#[test]
fn a_flow_is_stored_shown_and_run_in_order() {
    let store = Store::new();
    assert_eq!(store.run(&["enqueue", "--flow", GRAPH]).ok(), "f\n");
    let shown = store.run(&["flows", "show", "f"]).ok();
    let lines: Vec<&str> = shown.lines().collect();
    assert!(lines[1].contains("one") && lines[2].contains("blocked"), "{shown}");
    let dot = store.run(&["flows", "show", "f", "--dot"]).ok();
    assert!(dot.contains("n1 -> n2 [label=\"cancel\"];"), "{dot}");
    let mermaid = store.run(&["flows", "show", "f", "--mermaid"]).ok();
    assert!(mermaid.contains("n1 -->|cancel| n2"), "{mermaid}");
    store.work(&["--exec", "one=printf '[1]'", "--exec", "two=printf '[2]'"]);
    let flow = store.json(&["flows", "show", "f"]);
    assert_eq!(flow["states"]["completed"], 2, "{flow}");
    let listed = store.json(&["jobs", "list", "--flow", "f"]);
    assert_eq!(listed["jobs"].as_array().map(Vec::len), Some(2), "{listed}");
    assert_eq!(flow["jobs"][1]["after"][0]["result"], serde_json::json!([1]), "{flow}");
}

#[test]
fn a_flow_is_cancelled_and_replayed() {
    let store = Store::new();
    let file = store.path("flow.json");
    std::fs::write(&file, GRAPH).unwrap();
    store.run(&["enqueue", "--flow", &format!("@{}", file.display())]).ok();
    assert_eq!(store.run(&["flows", "cancel", "f"]).ok(), "cancelled 2\n");
    assert_eq!(store.run(&["flows", "replay", "f"]).ok(), "replayed 2\n");
    let flow = store.json(&["flows", "show", "f"]);
    assert_eq!((&flow["states"]["available"], &flow["states"]["blocked"]), (&1.into(), &1.into()));
    let why = store.run(&["jobs", "why", flow["jobs"][1]["id"].as_str().unwrap()]).ok();
    assert!(why.contains("1 dependency of the job has not ended"), "{why}");
}

#[test]
fn bad_flows_are_refused() {
    let store = Store::new();
    let cycle = r#"{"nodes":{"a":{"kind":"k","after":["b"]},"b":{"kind":"k","after":["a"]}}}"#;
    store.run(&["enqueue", "--flow", cycle]).refused(1, &["after", "lead back to itself"]);
    store.run(&["flows", "show", "none"]).refused(1, &["no jobs belong to flow"]);
    store.run(&["enqueue", "kind", "--flow", GRAPH]).refused(2, &["cannot be used with"]);
}
