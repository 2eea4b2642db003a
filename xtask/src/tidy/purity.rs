//! Purity: core, executor and workset must not depend on async runtimes, SQL or HTTP, not even transitively.

use anyhow::Result;

use super::Finding;
use crate::process;

const IMPURE: &[&str] = &[
    // Async runtimes.
    "async-executor",
    "async-io",
    "async-std",
    "mio",
    "smol",
    "tokio",
    // SQL and other databases.
    "diesel",
    "fred",
    "libsqlite3-sys",
    "postgres",
    "redis",
    "rusqlite",
    "sqlx",
    "sqlx-core",
    "tokio-postgres",
    // HTTP.
    "actix-web",
    "axum",
    "curl",
    "h2",
    "http",
    "hyper",
    "isahc",
    "reqwest",
    "tiny_http",
    "tonic",
    "tower",
    "ureq",
];

/// The crates that must stay pure.
const PURE: &[&str] = &["core", "executor", "workset"];

pub(super) fn check() -> Result<Vec<Finding>> {
    let mut findings = Vec::new();
    for name in PURE {
        let package = format!("windlass-{name}");
        let mut tree = process::cargo_locked(&["tree", "--package", &package])?;
        tree.args(["--edges", "normal", "--prefix", "none", "--all-features"]);
        findings.extend(impure(name, &process::capture(&mut tree)?));
    }
    Ok(findings)
}

/// Findings in the output of `cargo tree --prefix none`: one `name version …` per line.
fn impure(crate_name: &str, cargo_tree: &str) -> Vec<Finding> {
    let names = cargo_tree.lines().filter_map(|line| line.split_whitespace().next());
    let mut impure: Vec<_> = names.filter(|name| IMPURE.contains(name)).collect();
    impure.sort_unstable();
    impure.dedup();
    let findings = impure.into_iter().map(|name| Finding {
        path: format!("crates/{crate_name}/Cargo.toml"),
        line: 1,
        what: format!("{crate_name} pulls in {name}, but must not depend on runtimes, SQL or HTTP"),
        way_out: format!(
            "`cargo tree -p windlass-{crate_name} -e normal -i {name}` shows the path"
        ),
    });
    findings.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_runtime_deep_in_the_tree_is_found_once() {
        let tree = "windlass-core v0.1.0 (path)\nserde v1.0.0\ntokio v1.54.1\ntokio v1.54.1 (*)\n";
        let found = impure("core", tree);
        assert_eq!(found.len(), 1);
        assert!(found[0].what.contains("pulls in tokio"));
    }

    #[test]
    fn names_that_only_begin_alike_are_fine() {
        assert!(
            impure("core", "windlass-core v0.1.0\nhttparse v1.0.0\ntokio-macros v2.0.0\n")
                .is_empty()
        );
    }
}
