//! The documents are correct: every command in them is run.

use crate::shell::Shell;
use serde_json::{Value, json};

#[test]
fn the_readme_leads_from_nothing_to_processed_jobs() {
    let mut shell = Shell::new();
    shell.follow("README.md");
    let jobs = shell.jobs();
    let seen: Vec<_> = jobs.iter().map(|job| (&job["kind"], &job["state"])).collect();
    assert_eq!(seen, [(&json!("greet"), &json!("completed"))], "by work --exec");
    for part in ["serve", "/v1/jobs", "work --exec", "jobs show ID"] {
        assert!(shell.ran.iter().any(|command| command.contains(part)), "README.md shows {part}");
    }
    let shown = shell.sh(&format!("'{}' jobs show ID --json", env!("CARGO_BIN_EXE_windlass")));
    assert!(shown.contains("hello, {"), "the job has its result: {shown}");
}

#[test]
fn the_commands_of_the_configuration_guide_do_what_it_says() {
    let mut shell = Shell::new();
    shell.follow("docs/guides/configuration.md");
    assert!(shell.ran.len() >= 4, "{:?}", shell.ran);
    let shown = shell.sh(&format!("'{}' config show", env!("CARGO_BIN_EXE_windlass")));
    assert!(shown.contains("# windlass.toml:"), "the file of the first command is read: {shown}");
}

#[test]
fn the_commands_of_the_installation_write_what_they_say() {
    let mut shell = Shell::new();
    shell.follow("docs/install.md");
    shell.sh("test -s windlass.bash && test -s man/windlass-enqueue.1");
}

#[test]
fn the_examples_of_the_protocol_are_answered_as_it_says() {
    let mut shell = Shell::new();
    shell.serve();
    shell.follow("docs/protocol.md");
    let curls = shell.ran.iter().filter(|command| command.starts_with("curl ")).count();
    assert!(curls >= 5, "{:?}", shell.ran);
    let states: Vec<_> = shell.jobs().into_iter().map(|job| job["state"].clone()).collect();
    assert_eq!(states.first(), Some(&json!("completed")), "the first job goes all the way");
}

#[test]
fn the_guide_to_troubleshooting_leads_from_a_blocked_job_to_its_end() {
    let mut shell = Shell::new();
    shell.serve();
    shell.follow("docs/guides/troubleshooting.md");
    let asked = shell.ran.iter().filter(|command| command.contains("jobs why ID")).count();
    assert_eq!(asked, 3, "{:?}", shell.ran);
    let why = shell.sh(&format!("'{}' jobs why ID", env!("CARGO_BIN_EXE_windlass")));
    assert!(why.contains("1. ended: A handler completed the job."), "{why}");
}

#[test]
fn the_commands_of_the_guide_to_limits_do_what_it_says() {
    let mut shell = Shell::new();
    shell.serve();
    shell.follow("docs/guides/limits.md");
    for part in ["limits simulate", "limits show", "/take", "--floor", "--kind-rate", "--cost"] {
        assert!(shell.ran.iter().any(|command| command.contains(part)), "the guide shows {part}");
    }
    let windlass = env!("CARGO_BIN_EXE_windlass");
    let limits = shell.sh(&format!("'{windlass}' limits --json"));
    assert!(limits.contains("per-customer") && !limits.contains("stripe"), "{limits}");
    let jobs = shell.jobs();
    let of =
        |kind: &str| -> Vec<&Value> { jobs.iter().filter(|job| job["kind"] == kind).collect() };
    assert!(of("resize").iter().all(|job| job["state"] == "completed"), "{jobs:?}");
    assert_eq!(
        (&of("report")[0]["group"], &of("import")[0]["tenant"]),
        (&json!("acme"), &json!("acme"))
    );
    assert_eq!(of("summarise")[0]["cost"], json!(1200));
}

/// A shell with a server, and its address in `U` as in the protocol.
fn served() -> Shell {
    let mut shell = Shell::new();
    shell.serve();
    shell.follow_line("U=http://127.0.0.1:7474");
    shell
}

fn windlass(arguments: &str) -> String {
    format!("'{}' {arguments}", env!("CARGO_BIN_EXE_windlass"))
}

#[test]
fn the_commands_of_the_guide_to_bulk_changes_do_what_it_says() {
    let mut shell = served();
    for queue in ["mail", "old-queue"] {
        let job =
            format!(r#"{{"kind":"send_email","queue":"{queue}","payload":{{"customer":41}}}}"#);
        shell.follow_line(&format!("curl --json '{job}' $U/v1/jobs"));
    }
    shell.follow("docs/guides/bulk.md");
    let jobs = shell.jobs();
    let queues: Vec<&Value> = jobs.iter().map(|job| &job["queue"]).collect();
    assert_eq!(queues, [&json!("mail-slow")], "moved, and the other queue is obliterated");
}

#[test]
fn the_commands_of_the_guide_to_events_do_what_it_says() {
    let mut shell = served();
    shell.follow_line("windlass queues set mail --events on");
    shell.follow_line(r#"curl --json '{"kind":"send_email","queue":"mail"}' $U/v1/jobs"#);
    shell.follow_line("curl $U/v1/queues/mail/events");
    shell.follow("docs/guides/events.md");
    let shown = shell.sh(&windlass("events mail --json"));
    assert!(shown.contains("send_email"), "{shown}");
}

#[test]
fn the_commands_of_the_guide_to_topics_do_what_it_says() {
    let mut shell = served();
    shell.follow("docs/guides/topics.md");
    let jobs = shell.jobs();
    let queues: Vec<&Value> = jobs.iter().map(|job| &job["queue"]).collect();
    assert_eq!(queues, [&json!("orders.billing"); 2], "published twice, to one subscription");
}

#[test]
fn the_commands_of_the_guide_to_flows_do_what_it_says() {
    let mut shell = served();
    shell.copy("docs/guides/flows.md", "yaml", "flow.yaml");
    shell.follow_line(r#"curl --json '{"kind":"resize"}' $U/v1/jobs"#);
    shell.follow("docs/guides/flows.md");
    let flow = shell.sh(&windlass("flows show order-789 --json"));
    let flow: Value = serde_json::from_str(&flow).unwrap();
    assert_eq!(flow["states"], json!({"available": 2, "blocked": 1}), "cancelled and replayed");
}

#[test]
fn the_commands_of_the_guide_to_kinds_do_what_it_says() {
    let mut shell = served();
    shell.write("send_email.schema.json", r#"{"type":"object","required":["to"]}"#);
    shell.follow("docs/guides/kinds.md");
    let kinds: Value = serde_json::from_str(&shell.sh(&windlass("kinds --json"))).unwrap();
    let registered =
        kinds["kinds"].as_array().unwrap().iter().filter(|it| it["registered"] == true);
    let names: Vec<&Value> = registered.map(|it| &it["name"]).collect();
    assert_eq!(names, [&json!("charge_card"), &json!("invoice"), &json!("resize")]);
}

#[test]
fn the_commands_of_the_guides_to_order_and_search_do_what_they_say() {
    let mut shell = served();
    let job = r#"{"kind":"send_email","queue":"mail","payload":{"customer":42}}"#;
    shell.follow_line(&format!("curl --json '{job}' $U/v1/jobs"));
    shell.follow("docs/guides/order.md");
    shell.follow("docs/guides/search.md");
    let queue: Value =
        serde_json::from_str(&shell.sh(&windlass("queues show shared --json"))).unwrap();
    assert_eq!(
        (&queue["settings"]["order"], &queue["counts"]["depth"]),
        (&json!("fair"), &json!(1))
    );
    let found = shell.sh(&windlass("jobs --where payload.customer=42 --json"));
    assert!(found.contains("send_email"), "{found}");
}
