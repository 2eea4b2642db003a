//! `windlass serve` as a person meets it: a process that says where it is, keeps what it acknowledged
//! and stops at a signal.

mod serving;

use serving::{Serving, serve};
use std::process::Command;

#[test]
fn acknowledged_jobs_survive_a_stop_and_a_kill() {
    let dir = tempfile::tempdir().unwrap();
    let server = Serving::start(dir.path());
    let created = server.request("POST", "/v1/jobs", r#"{"kind":"first","payload":{"n":1}}"#);
    assert!(created.starts_with("HTTP/1.1 201"), "{created}");
    server.terminate();

    let server = Serving::start(dir.path());
    assert!(server.request("POST", "/v1/jobs", r#"{"kind":"second"}"#).starts_with("HTTP/1.1 201"));
    drop(server);

    let server = Serving::start(dir.path());
    let claimed = server.request("POST", "/v1/claim", r#"{"queues":["default"],"limit":10}"#);
    assert!(claimed.contains(r#""payload":{"n":1}"#), "{claimed}");
    assert!(claimed.contains("first") && claimed.contains("second"), "{claimed}");
}

#[test]
fn a_store_that_is_served_names_the_address_to_go_to() {
    let dir = tempfile::tempdir().unwrap();
    let server = Serving::start(dir.path());
    let second = serve(dir.path(), "127.0.0.1:0").output().unwrap();
    let said = String::from_utf8_lossy(&second.stderr);
    assert!(!second.status.success());
    assert!(said.contains(&format!("connect to http://{}", server.address)), "{said}");
}

#[test]
fn an_address_that_others_can_reach_is_refused_without_keys() {
    let mut command = Command::new(env!("CARGO_BIN_EXE_windlass"));
    let refused = command.args(["serve", "--store", "memory:", "--listen", "0.0.0.0:0"]).output();
    let refused = refused.unwrap();
    let said = String::from_utf8_lossy(&refused.stderr);
    assert!(!refused.status.success() && said.contains("--insecure"), "{said}");
}

#[test]
fn a_public_address_is_refused_while_it_is_unknown_whether_keys_exist() {
    let mut command = Command::new(env!("CARGO_BIN_EXE_windlass"));
    let store = "postgres://user@127.0.0.1:1/missing";
    let refused = command.args(["serve", "--store", store, "--listen", "0.0.0.0:0"]).output();
    let refused = refused.unwrap();
    let said = String::from_utf8_lossy(&refused.stderr);
    assert!(!refused.status.success() && said.contains("while it is unavailable"), "{said}");
    assert!(said.contains("--insecure") && said.contains("127.0.0.1"), "{said}");
}

#[test]
fn the_other_commands_go_through_the_server_that_owns_the_directory() {
    let dir = tempfile::tempdir().unwrap();
    let server = Serving::start(dir.path());
    let store = format!("file:{}", dir.path().display());
    let windlass = |args: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_windlass"));
        let output = command.args(args).args(["--store", &store]).output().unwrap();
        assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    };
    windlass(&["enqueue", "greet", r#"{"name":"Ada"}"#]);
    let jobs = server.request("GET", "/v1/jobs", "");
    assert!(jobs.contains("greet"), "{jobs}");
    let worked = windlass(&["work", "--exec", "greet=cat", "--until-empty"]);
    let listed = windlass(&["jobs", "list", "--json"]);
    assert!(listed.contains("completed"), "{listed} after {worked}");
    server.terminate();
    assert!(
        windlass(&["jobs", "list", "--json"]).contains("completed"),
        "and it is in the directory"
    );
}
