//! `windlass bench` on a server that takes fewer connections than some workloads open.

use crate::database::server;
use serde_json::Value;
use std::process::{Command, Output};
use tokio_postgres::NoTls;

/// A database that takes few connections, dropped with its guard.
struct Small {
    name: String,
}

/// Enough for the bench itself, and not for 64 engines.
const CONNECTIONS: u32 = 20;

impl Small {
    fn new() -> Self {
        let name = format!("bench_small_{}", std::process::id());
        run(&format!("CREATE ROLE {name} LOGIN"));
        run(&format!("CREATE DATABASE {name} OWNER {name} CONNECTION LIMIT {CONNECTIONS}"));
        Self { name }
    }

    fn url(&self) -> String {
        let server = server();
        let (_, place) = server.rsplit_once('@').unwrap();
        let (host, _) = place.split_once('/').unwrap();
        format!("postgres://{0}@{host}/{0}", self.name)
    }
}

impl Drop for Small {
    fn drop(&mut self) {
        run(&format!("DROP DATABASE {} WITH (FORCE)", self.name));
        run(&format!("DROP ROLE {}", self.name));
    }
}

/// Runs a statement on the shared server.
fn run(sql: &str) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let (client, connection) = tokio_postgres::connect(&server(), NoTls).await.unwrap();
        tokio::spawn(connection);
        client.batch_execute(sql).await.unwrap();
    });
}

fn bench(url: &str, arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_windlass"));
    let command = command.args(["bench", url, "--profile", "tiny", "--only", "C256own,W1p64,W3"]);
    let output = command.args(arguments).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    output
}

#[test]
fn workloads_that_need_more_connections_than_there_are_left_are_skipped_and_the_others_run() {
    let small = Small::new();
    let rows: Value = serde_json::from_slice(&bench(&small.url(), &["--json"]).stdout).unwrap();
    let skipped = |name: &str| {
        let rows = rows.as_array().unwrap();
        rows.iter().find(|row| row["name"] == name).unwrap()["skipped"].clone()
    };
    let limit = format!("CONNECTION LIMIT of database {} = {CONNECTIONS}", small.name);
    for (name, needed) in [("C256own", "518"), ("W1p64", "134")] {
        let reason = skipped(name);
        let reason = reason.as_str().unwrap_or_else(|| panic!("{name} is skipped: {rows}"));
        assert!(
            reason.starts_with(&format!("needs {needed} connections, the server allows ")),
            "{reason}"
        );
        assert!(reason.contains(&limit), "{reason}");
    }
    assert_eq!(skipped("W3"), Value::Null);
    let table = bench(&small.url(), &[]).stdout;
    assert!(String::from_utf8_lossy(&table).contains("skipped: needs 518 connections"));
}
