//! The same commands on PostgreSQL, by its URL alone.

use std::process::Command;

/// Where the server is; `cargo xtask test` starts one and sets it.
const VARIABLE: &str = "WINDLASS_TEST_POSTGRES";

/// A schema of its own, removed at the end.
struct Database {
    server: String,
    schema: String,
}

impl Database {
    fn new() -> Self {
        let server = std::env::var(VARIABLE).unwrap_or_else(|_| {
            panic!("{VARIABLE} is not set: run `cargo xtask test`, or set it to a database's URL")
        });
        Self { server, schema: format!("cli_{}", std::process::id()) }
    }

    fn run(&self, arguments: &[&str]) -> String {
        let url = format!("{}?schema={}", self.server, self.schema);
        let mut command = Command::new(env!("CARGO_BIN_EXE_windlass"));
        let output = command.args(arguments).env("WINDLASS_STORE", url).output().unwrap();
        assert!(output.status.success(), "{arguments:?}: {output:?}");
        String::from_utf8(output.stdout).unwrap()
    }
}

impl Drop for Database {
    fn drop(&mut self) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let _ = runtime.block_on(windlass_postgres::remove(&self.server, &self.schema));
    }
}

#[test]
fn a_job_is_enqueued_run_and_looked_at_on_postgresql() {
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
