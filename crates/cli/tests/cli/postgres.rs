//! The same commands on PostgreSQL, by its URL alone.

use crate::database::Database;
use std::process::Command;

impl Database {
    fn run(&self, arguments: &[&str]) -> String {
        let mut command = Command::new(env!("CARGO_BIN_EXE_windlass"));
        let output = command.args(arguments).env("WINDLASS_STORE", self.url()).output().unwrap();
        assert!(output.status.success(), "{arguments:?}: {output:?}");
        String::from_utf8(output.stdout).unwrap()
    }

    /// The error message of a command that must fail.
    fn refusal(&self, arguments: &[&str]) -> String {
        let mut command = Command::new(env!("CARGO_BIN_EXE_windlass"));
        let output = command.args(arguments).env("WINDLASS_STORE", self.url()).output().unwrap();
        assert!(!output.status.success(), "{arguments:?}: {output:?}");
        String::from_utf8(output.stderr).unwrap()
    }
}

#[test]
fn a_job_is_enqueued_run_and_shown_on_postgresql() {
    let database = Database::new();
    let id = database.run(&["enqueue", "greet", r#"{"name":"Ada"}"#]).trim().to_owned();
    database.run(&["work", "--exec", "greet=cat", "--until-empty"]);
    let shown: serde_json::Value =
        serde_json::from_str(&database.run(&["jobs", "show", &id, "--json"])).unwrap();
    assert_eq!(shown["state"], "completed");
    assert_eq!(shown["result"], serde_json::json!({ "name": "Ada" }));
    let checked: serde_json::Value =
        serde_json::from_str(&database.run(&["check", "--json"])).unwrap();
    assert_eq!((&checked["ok"], &checked["jobs"]), (&true.into(), &1.into()));
}

#[test]
fn migrations_are_printed_applied_or_left_to_another_role() {
    let database = Database::new();
    // `migrate=off` and `--no-migrate` prevent migrations by accident.
    let off = format!("{}&migrate=off", database.url());
    let refused = database.refusal(&["jobs", "list", "--store", &off]);
    assert!(refused.contains("version 0") && refused.contains("windlass migrate"), "{refused}");
    let serve = ["serve", "--listen", "127.0.0.1:0", "--no-migrate", "--store", &database.url()];
    let refused = database.refusal(&serve);
    assert!(refused.contains("windlass migrate"), "{refused}");
    let refused = database.refusal(&["serve", "--no-migrate", "--store", "memory:"]);
    assert!(refused.contains("--no-migrate"), "{refused}");

    let would = database.run(&["migrate", "--dry-run"]);
    assert!(would.starts_with("would migrate") && would.contains("version 0 to "), "{would}");
    let sql = database.run(&["migrate", "--print-sql"]);
    assert!(
        sql.starts_with("BEGIN ISOLATION LEVEL READ COMMITTED;") && sql.contains(&database.schema),
        "{sql}"
    );
    let done: serde_json::Value =
        serde_json::from_str(&database.run(&["migrate", "--json"])).unwrap();
    assert_eq!((&done["from"], &done["done"]), (&0.into(), &true.into()));
    let nothing = database.run(&["migrate", &database.server, "--schema", &database.schema]);
    assert!(nothing.contains("nothing to do"), "{nothing}");
    assert_eq!(database.run(&["migrate", "--print-sql"]), "");
    let indexed =
        database.run(&["migrate", "--store", &database.url(), "--index", "payload.customer"]);
    assert!(indexed.contains("indexed payload.customer"), "{indexed}");
    let twice = database.refusal(&["migrate", &database.server, "--store", "memory:"]);
    assert!(twice.contains("given twice"), "{twice}");
    database.run(&["jobs", "list", "--store", &off]);
}

#[test]
fn failed_migrations_and_grants_are_reported_without_a_secret() {
    let database = Database::new();
    let refused = database.refusal(&["migrate", "file:./jobs"]);
    assert!(refused.contains("nothing to migrate"), "{refused}");
    let refused = database.refusal(&["migrate", "postgres://ada:s3cr3t@127.0.0.1:1/x?sslmod=a"]);
    assert!(refused.contains("sslmod") && !refused.contains("s3cr3t"), "{refused}");
    let refused = database.refusal(&["migrate", "--grant-worker", "no such; role"]);
    assert!(refused.contains("no such; role") && refused.contains("CREATE ROLE"), "{refused}");
    let (_, place) = database.server.split_once("//").unwrap();
    let (user, _) = place.split_once(['@', ':']).unwrap();
    let granted = database.run(&["migrate", "--grant-viewer", user]);
    assert!(granted.contains("GRANT SELECT ON"), "{granted}");
}
