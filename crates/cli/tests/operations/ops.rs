//! The files in `ops/`: readable by those they are for, and about metrics that exist.

use crate::names::{self, root, text};
use promql_parser::parser;
use serde_json::Value;
use std::collections::BTreeSet;
use std::env;
use std::fs;
use std::process::Command;

/// Asserts that an expression is PromQL, and about metrics of ours.
fn assert_expression(expression: &str, of: &str) {
    parser::parse(expression).unwrap_or_else(|error| panic!("{of}: {expression}: {error}"));
    let used = names::in_text(expression);
    assert!(!used.is_empty(), "{of} asks for nothing: {expression}");
    let known = names::in_code();
    for name in used {
        let base = ["_bucket", "_sum", "_count"].iter().find_map(|it| name.strip_suffix(it));
        let exists = known.contains(&name) || base.is_some_and(|base| known.contains(base));
        assert!(exists, "{of} asks for {name}, which nothing emits");
    }
}

fn yaml(path: &str) -> Value {
    serde_yaml_ng::from_str(&text(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

fn rules() -> Vec<Value> {
    let groups = yaml("ops/prometheus/alerts.yml");
    let groups = groups["groups"].as_array().unwrap();
    groups.iter().flat_map(|group| group["rules"].as_array().unwrap().clone()).collect()
}

#[test]
fn every_alert_asks_for_what_exists_and_leads_to_a_runbook() {
    let (mut alerts, mut books) = (BTreeSet::new(), BTreeSet::new());
    for rule in rules() {
        let alert = rule["alert"].as_str().unwrap();
        assert!(alerts.insert(alert.to_owned()), "{alert} twice");
        assert_expression(rule["expr"].as_str().unwrap(), alert);
        assert!(["warning", "critical"].contains(&rule["labels"]["severity"].as_str().unwrap()));
        assert!(rule["annotations"]["summary"].is_string(), "{alert}");
        let book = rule["annotations"]["runbook_url"].as_str().unwrap();
        let content = text(book);
        assert!(content.contains(&format!("Alert: `{alert}`")), "{book} is not about {alert}");
        assert!(content.contains("## Look at") && content.contains("## Do"), "{book}");
        books.insert(book.rsplit('/').next().unwrap().to_owned());
    }
    let there = fs::read_dir(root().join("ops/runbooks")).unwrap().flatten();
    let there: BTreeSet<_> = there.map(|it| it.file_name().into_string().unwrap()).collect();
    assert_eq!(books, there, "each runbook has its alert");
}

#[test]
#[ignore = "long: needs promtool, which `cargo xtask test --long` provides"]
fn prometheus_accepts_the_rules_and_fires_them_as_expected() {
    let promtool = env::var_os("WINDLASS_PROMTOOL").expect("run `cargo xtask test --long`");
    for args in [
        ["check", "rules", "ops/prometheus/alerts.yml"],
        ["test", "rules", "ops/prometheus/alerts_test.yml"],
    ] {
        let output = Command::new(&promtool).args(args).current_dir(root()).output().unwrap();
        assert!(output.status.success(), "{output:?}");
    }
}

#[test]
fn the_dashboard_asks_for_what_exists() {
    let dashboard: Value = serde_json::from_str(&text("ops/grafana/windlass.json")).unwrap();
    let panels = dashboard["panels"].as_array().unwrap();
    assert!(panels.len() > 10);
    for panel in panels {
        let title = panel["title"].as_str().unwrap();
        for target in panel["targets"].as_array().unwrap() {
            // Grafana fills these in.
            let expression = target["expr"].as_str().unwrap();
            let filled = expression.replace("$__rate_interval", "1m").replace("$queue", "mail");
            assert_expression(&filled, title);
        }
    }
}

#[test]
fn the_scalers_ask_what_the_server_answers() {
    let keda = yaml("ops/kubernetes/keda.yaml");
    let trigger = &keda["spec"]["triggers"][0];
    assert_eq!(trigger["type"], "metrics-api");
    let (_, path) = trigger["metadata"]["url"].as_str().unwrap().split_once("7474").unwrap();
    let answer = crate::scale::ask(path);
    let place = trigger["metadata"]["valueLocation"].as_str().unwrap();
    assert!(answer[place].is_u64(), "{place} of {answer}");

    let hpa = yaml("ops/kubernetes/hpa.yaml");
    let metric = &hpa["spec"]["metrics"][0]["external"]["metric"]["name"];
    assert_expression(metric.as_str().unwrap(), "hpa.yaml");
}

/// The documents of a file with several.
fn documents(path: &str) -> Vec<Value> {
    use serde::Deserialize as _;
    let text = text(path);
    let documents = serde_yaml_ng::Deserializer::from_str(&text);
    documents.map(|it| Value::deserialize(it).unwrap_or_else(|e| panic!("{path}: {e}"))).collect()
}

/// Asserts that the command line accepts the flags of a container.
fn assert_arguments(container: &Value) {
    let args: Vec<&str> =
        container["args"].as_array().unwrap().iter().map(|it| it.as_str().unwrap()).collect();
    let help = Command::new(env!("CARGO_BIN_EXE_windlass")).args([args[0], "--help"]).output();
    let help = String::from_utf8(help.unwrap().stdout).unwrap();
    for flag in args[1..].iter().filter(|arg| arg.starts_with("--")) {
        assert!(help.contains(flag), "windlass {} has no {flag}", args[0]);
    }
    let settings = text("docs/windlass.example.toml");
    for variable in container["env"].as_array().unwrap() {
        let name = variable["name"].as_str().unwrap();
        assert!(name == "WINDLASS_KEY" || settings.contains(name), "{name} sets nothing");
    }
}

#[test]
fn the_manifests_run_the_image_as_it_is_built() {
    let image = text("ops/oci/Containerfile");
    let toolchain = text("Cargo.toml");
    let toolchain = toolchain.lines().find_map(|it| it.strip_prefix("rust-version = \""));
    let toolchain = toolchain.unwrap().trim_end_matches('"');
    assert!(image.contains(&format!("rust:{toolchain}-")), "built with Rust {toolchain}");
    let user = image.lines().find_map(|line| line.strip_prefix("USER ")).expect("not root");
    assert!(image.contains("\nHEALTHCHECK ") && image.contains("/healthz"));

    let server = documents("ops/kubernetes/server.yaml");
    let workers = documents("ops/kubernetes/workers.yaml");
    for deployment in [&server[0], &workers[0]] {
        let pod = &deployment["spec"]["template"]["spec"];
        assert_eq!(pod["securityContext"]["runAsUser"].to_string(), user);
        assert_eq!(pod["securityContext"]["runAsNonRoot"], true);
        assert_arguments(&pod["containers"][0]);
        let labels = &deployment["spec"]["template"]["metadata"]["labels"];
        assert_eq!(&deployment["spec"]["selector"]["matchLabels"], labels);
    }
    let labels = &server[0]["spec"]["template"]["metadata"]["labels"];
    assert_eq!(&server[1]["spec"]["selector"], labels, "the service finds the pods");
    let scaled = yaml("ops/kubernetes/keda.yaml")["spec"]["scaleTargetRef"]["name"].clone();
    assert_eq!(workers[0]["metadata"]["name"], scaled);
}

#[test]
fn the_unit_of_systemd_starts_the_server_of_the_package() {
    let unit = text("ops/systemd/windlass.service");
    for line in ["ExecStart=/usr/bin/windlass serve", "DynamicUser=yes", "ProtectSystem=strict"] {
        assert!(unit.lines().any(|it| it == line), "{line}");
    }
    let settings = text("docs/windlass.example.toml");
    for line in unit.lines().filter_map(|line| line.strip_prefix("Environment=")) {
        let (name, _) = line.split_once('=').unwrap();
        assert!(settings.contains(name), "{name} sets nothing");
    }
}

#[test]
fn the_commands_of_the_runbooks_exist() {
    let mut commands = 0;
    for entry in fs::read_dir(root().join("ops/runbooks")).unwrap().flatten() {
        let book = fs::read_to_string(entry.path()).unwrap().replace("\n  ", " ");
        for command in book.split('`').filter_map(|it| it.strip_prefix("windlass ")) {
            let mut words = command.split(' ').peekable();
            let is_name = |word: &&str| word.chars().all(|c| c.is_ascii_lowercase());
            let mut path = Vec::new();
            while let Some(word) = words.next_if(|word| is_name(word)) {
                path.push(word);
            }
            let help =
                Command::new(env!("CARGO_BIN_EXE_windlass")).args(&path).arg("--help").output();
            let help = help.unwrap();
            let said = String::from_utf8_lossy(&help.stdout);
            assert!(help.status.success(), "{:?}: windlass {command}", entry.path());
            for flag in words.filter(|word| word.starts_with("--")) {
                assert!(said.contains(flag), "{:?}: windlass {command}: no {flag}", entry.path());
            }
            commands += 1;
        }
    }
    assert!(commands > 10, "{commands}");
}
