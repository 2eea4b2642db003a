//! `windlass enqueue --flow` and `windlass flows`.

use crate::support::Store;
use windlass_core::JobId;
use windlass_core::limits::DEPENDENCIES_MAX;

const GRAPH: &str = r#"{"flow":"f","nodes":{
    "a":{"kind":"one"},
    "b":{"kind":"two","after":[{"job":"a","on_failure":"cancel"}]}}}"#;

#[test]
fn a_flow_is_stored_shown_and_run_in_order() {
    let store = Store::new();
    assert_eq!(store.run(&["enqueue", "--flow", GRAPH]).ok(), "f\n");
    let shown = store.run(&["flows", "show", "f"]).ok();
    let lines: Vec<&str> = shown.lines().collect();
    assert_eq!(lines[0], "flow f: 2 jobs, 1 blocked, 1 available");
    assert!(lines[2].contains("one") && lines[3].contains("blocked"), "{shown}");
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
    let shown = store.run(&["flows", "show", "f"]).ok();
    assert!(shown.starts_with("flow f: 2 jobs, 2 completed\n"), "{shown}");
    let results: Vec<&str> = shown.lines().skip(2).map(|line| line.trim_end()).collect();
    assert!(results[0].ends_with("[1]") && results[1].ends_with("[2]"), "{shown}");
}

#[test]
fn a_flow_in_yaml_is_stored_like_one_in_json() {
    let store = Store::new();
    let file = store.path("flow.yaml");
    let yaml = "flow: g
nodes:
  small: {kind: resize, payload: {width: 100}}
  large: {kind: resize, payload: {width: 2000}}
  notify:
    kind: notify
    after: [small, {job: large, on_failure: run}]
";
    std::fs::write(&file, yaml).unwrap();
    let stored = store.json(&["enqueue", "--flow", &format!("@{}", file.display())]);
    assert_eq!(stored["flow"], "g");
    let id = stored["nodes"]["large"]["id"].as_str().unwrap();
    assert_eq!(store.json(&["jobs", "show", id])["payload"]["width"], 2000);
    let notify = store.json(&["jobs", "show", stored["nodes"]["notify"]["id"].as_str().unwrap()]);
    assert_eq!(notify["state"], "blocked");
    let flow = store.json(&["flows", "show", "g"]);
    let shown = flow["jobs"].as_array().unwrap().iter().find(|job| job["kind"] == "notify");
    let after = &shown.unwrap()["after"];
    assert_eq!(after[0]["name"], "small", "{flow}");
    assert_eq!(after[1]["on_failure"], "run", "{flow}");
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
    let unknown = "01890a5d-ac96-774b-bcce-b302099a8057";
    let after = |what: &str| format!("nodes: {{a: {{kind: k}}, b: {{kind: k, after: [{what}]}}}}");
    let many: Vec<String> = (0..=DEPENDENCIES_MAX as u128)
        .map(|n| JobId::from_bytes(n.to_be_bytes()).to_string())
        .collect();
    let file = store.path("many.yaml");
    std::fs::write(&file, after(&many.join(", "))).unwrap();
    for (flow, hints) in [
        (after(unknown), &["nodes.b.after", unknown, "no job has this id"][..]),
        (after("c"), &["nodes.b.after", "neither a node of this flow"]),
        (after("b"), &["nodes.b.after", "itself"]),
        (after("a, a"), &["nodes.b.after", "once"]),
        (after("{job: a, on_failure: ignore}"), &["nodes.b.after", "ignore"]),
        (format!("@{}", file.display()), &["after", "50000"]),
        ("nodes: {a: {kind: k, delay: 1}}".to_owned(), &["nodes.a", "delay"]),
        ("nodes: {a: {}}".to_owned(), &["nodes.a", "kind"]),
        ("nodes: [a]".to_owned(), &["nodes", "object of jobs by name"]),
    ] {
        store.run(&["enqueue", "--flow", &flow]).refused(1, hints);
    }
    let listed = store.json(&["jobs", "list"]);
    assert_eq!(listed["jobs"].as_array().map(Vec::len), Some(0), "nothing is stored");
    store.run(&["flows", "show", "none"]).refused(1, &["no jobs belong to flow"]);
    store.run(&["enqueue", "kind", "--flow", GRAPH]).refused(2, &["cannot be used with"]);
}
