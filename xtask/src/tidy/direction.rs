//! Crate directions: which crate may depend on which. Engines must not depend on each other.

use std::path::PathBuf;

use anyhow::{Context as _, Result};
use serde::Deserialize;

use super::Finding;
use super::tree::Tree;
use crate::process;

/// The workspace crates that a crate may depend on.
enum May {
    /// Only those in these directories.
    Only(&'static [&'static str]),
    /// Any: crates that combine the others, and the only ones that may name concrete engines.
    Any,
}

/// Rules by directory; `/*` matches every crate directly below. The first match applies.
const RULES: &[(&str, May)] = &[
    ("crates/core", May::Only(&[])),
    ("crates/kit", May::Only(&["crates/core"])),
    ("crates/executor", May::Only(&["crates/core"])),
    ("crates/workset", May::Only(&["crates/core", "crates/executor"])),
    ("crates/wire", May::Only(&["crates/core"])),
    // The engine that is an HTTP client shares only the JSON types with the server.
    ("crates/engines/remote", May::Only(&["crates/core", "crates/wire"])),
    ("crates/engines/*", May::Only(&["crates/core", "crates/executor", "crates/workset"])),
    ("crates/layers", May::Only(&["crates/core"])),
    ("crates/services", May::Only(&["crates/core"])),
    ("crates/traces", May::Only(&[])),
    ("crates/worker", May::Only(&["crates/core", "crates/services", "crates/traces"])),
    ("crates/macros", May::Only(&[])),
    ("crates/windlass", May::Any),
    ("crates/server", May::Any),
    ("crates/cli", May::Any),
    ("bindings/*", May::Any),
    ("examples", May::Any),
    ("bench/*", May::Any),
    ("xtask", May::Any),
];

#[derive(Deserialize)]
struct Metadata {
    packages: Vec<Package>,
    workspace_root: PathBuf,
}

#[derive(Deserialize)]
struct Package {
    name: String,
    manifest_path: PathBuf,
    dependencies: Vec<Dependency>,
}

#[derive(Deserialize)]
struct Dependency {
    name: String,
    /// `dev`, `build`, or none for a normal dependency.
    kind: Option<String>,
}

pub(super) fn check(tree: &Tree) -> Result<Vec<Finding>> {
    let args = ["metadata", "--no-deps", "--format-version", "1"];
    let json = process::capture(&mut process::cargo_locked(&args)?)?;
    let metadata: Metadata =
        serde_json::from_str(&json).context("cannot parse the output of `cargo metadata`")?;
    Ok(among_ours(&metadata, tree))
}

impl Metadata {
    /// The package's directory, relative to the repository root.
    fn directory(&self, package: &Package) -> String {
        let directory = package.manifest_path.parent().unwrap_or(&self.workspace_root);
        let inside = directory.strip_prefix(&self.workspace_root).unwrap_or(directory);
        inside.to_string_lossy().replace('\\', "/")
    }
}

fn among_ours(metadata: &Metadata, tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for package in &metadata.packages {
        let from = metadata.directory(package);
        let path = format!("{from}/Cargo.toml");
        let Some(may) = rule_for(&from) else {
            findings.push(Finding {
                path,
                line: 1,
                what: format!("no rule says what {} may depend on", package.name),
                way_out: "add its directory to RULES in xtask/src/tidy/direction.rs".to_owned(),
            });
            continue;
        };
        for dependency in &package.dependencies {
            let Some(ours) = metadata.packages.iter().find(|it| it.name == dependency.name) else {
                continue;
            };
            let to = metadata.directory(ours);
            if !allows(may, &from, &to, dependency.kind.as_deref()) {
                findings.push(Finding {
                    line: line_of(tree, &path, &dependency.name),
                    path: path.clone(),
                    what: format!("{} must not depend on {}", package.name, dependency.name),
                    way_out: "depend on the traits in core (see ARCHITECTURE.md)".into(),
                });
            }
        }
    }
    findings
}

fn rule_for(directory: &str) -> Option<&'static May> {
    RULES.iter().find(|(pattern, _)| matches(pattern, directory)).map(|(_, may)| may)
}

fn matches(pattern: &str, directory: &str) -> bool {
    match pattern.strip_suffix("/*") {
        Some(parent) => directory.rsplit_once('/').is_some_and(|(above, _)| above == parent),
        None => pattern == directory,
    }
}

fn allows(may: &May, from: &str, to: &str, kind: Option<&str>) -> bool {
    if kind == Some("dev") {
        // Tests may depend on any crate, but tests of core must not depend on engines, which are built on core.
        return !(from == "crates/core" && to.starts_with("crates/engines/"));
    }
    match may {
        May::Any => true,
        May::Only(directories) => directories.iter().any(|pattern| matches(pattern, to)),
    }
}

fn line_of(tree: &Tree, manifest: &str, dependency: &str) -> usize {
    let text = tree.text_of(manifest).unwrap_or_default();
    text.lines().position(|line| line.trim_start().starts_with(dependency)).map_or(1, |it| it + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The findings if the crate in `from` depends on the crate in `to`.
    fn found(from: &str, to: &str, kind: &str) -> Vec<String> {
        let json = format!(
            r#"{{"workspace_root": "/repo", "packages": [
                {{"name": "a", "manifest_path": "/repo/{from}/Cargo.toml", "dependencies": [
                    {{"name": "serde", "kind": null}}, {{"name": "b", "kind": {kind}}}]}},
                {{"name": "b", "manifest_path": "/repo/{to}/Cargo.toml", "dependencies": []}}]}}"#
        );
        let manifest = "[dependencies]\nserde = \"1\"\nb.workspace = true\n";
        let tree = Tree::of(&[(&format!("{from}/Cargo.toml"), manifest)]);
        let findings = among_ours(&serde_json::from_str(&json).unwrap(), &tree);
        findings.iter().map(Finding::to_string).collect()
    }

    #[test]
    fn a_dependency_against_the_direction_is_found_on_its_line() {
        let against = [
            ("crates/core", "crates/kit"),
            ("crates/kit", "crates/engines/memory"),
            ("crates/engines/local", "crates/engines/memory"),
            ("crates/engines/memory", "crates/kit"),
            ("crates/layers", "crates/engines/memory"),
            ("crates/worker", "crates/engines/local"),
            ("crates/wire", "crates/server"),
            ("crates/engines/remote", "crates/server"),
            ("crates/engines/local", "crates/wire"),
        ];
        for (from, to) in against {
            for kind in ["null", r#""build""#] {
                let found = found(from, to, kind);
                assert_eq!(found.len(), 1, "{from} -> {to}");
                let expected = format!("{from}/Cargo.toml:3: a must not depend on b");
                assert!(found[0].starts_with(&expected), "{found:?}");
            }
        }
    }

    #[test]
    fn dependencies_along_the_direction_are_fine() {
        let along = [
            ("crates/engines/memory", "crates/core"),
            ("crates/kit", "crates/core"),
            ("crates/worker", "crates/services"),
            ("crates/engines/remote", "crates/wire"),
            ("crates/windlass", "crates/engines/memory"),
            ("bindings/node", "crates/windlass"),
        ];
        for (from, to) in along {
            assert!(found(from, to, "null").is_empty(), "{from} -> {to}");
        }
    }

    #[test]
    fn tests_may_use_anything_but_those_of_core_no_engine() {
        assert!(found("crates/engines/memory", "crates/kit", r#""dev""#).is_empty());
        assert_eq!(found("crates/core", "crates/engines/memory", r#""dev""#).len(), 1);
    }

    #[test]
    fn a_crate_without_a_place_is_found() {
        let found = found("crates/novel", "crates/core", "null");
        assert_eq!(found.len(), 1);
        assert!(found[0].contains("no rule says what a may depend on"), "{found:?}");
    }
}
