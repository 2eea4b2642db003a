//! Manifests: every crate inherits its lints, edition, Rust version and licence from the workspace, and can be published.

use super::Finding;
use super::tree::{File, Tree};

const INHERITED: &[(&str, &str)] =
    &[("package", "edition"), ("package", "rust-version"), ("package", "license"), ("", "lints")];

pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let manifests = tree
        .files()
        .filter(|file| file.path.starts_with("crates/") && file.path.ends_with("/Cargo.toml"));
    manifests.flat_map(|it| in_manifest(it).into_iter().chain(cycles(it))).collect()
}

/// Crates of ours under `[dev-dependencies]` that have a version: cargo removes those without one when it publishes a
/// crate, and the tests of a crate may need crates that depend on it.
fn cycles(manifest: &File) -> Vec<Finding> {
    let mut in_tests = false;
    let mut findings = Vec::new();
    for (line, text) in manifest.lines() {
        if text.starts_with('[') {
            in_tests = text.starts_with("[dev-dependencies");
        }
        if in_tests && text.starts_with("windlass") && !text.contains("path = ") {
            findings.push(Finding {
                path: manifest.path.clone(),
                line,
                what: "a crate for tests has a version, so this one cannot be published".to_owned(),
                way_out: "name its path instead: `windlass-x = { path = \"../x\" }`".to_owned(),
            });
        }
    }
    findings
}

fn in_manifest(manifest: &File) -> Vec<Finding> {
    let missing = INHERITED.iter().filter(|(table, key)| !inherits(&manifest.text, table, key));
    missing
        .map(|(table, key)| {
            let way_out = match *table {
                "" => format!("add `[{key}]` with `workspace = true`"),
                table => format!("write `{key}.workspace = true` under `[{table}]`"),
            };
            Finding {
                path: manifest.path.clone(),
                line: 1,
                what: format!("`{key}` is not inherited from the workspace"),
                way_out,
            }
        })
        .collect()
}

/// Whether `key` of `table` is inherited, in any one-line TOML syntax.
fn inherits(manifest: &str, table: &str, key: &str) -> bool {
    let mut current = String::new();
    for line in manifest.lines() {
        let line: String = line.split('#').next().unwrap_or_default().split_whitespace().collect();
        if let Some(name) = line.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
            current = name.to_owned();
            continue;
        }
        let in_own_table = current == key && line == "workspace=true";
        let dotted = line == format!("{key}.workspace=true");
        let inline = line == format!("{key}={{workspace=true}}");
        if (table.is_empty() && in_own_table) || (current == table && (dotted || inline)) {
            return true;
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = "[package]\nname = \"x\"\nedition.workspace = true # ours\n\
        rust-version = { workspace = true }\nlicense.workspace=true\n\n[lints]\nworkspace = true\n";

    fn found(path: &str, manifest: &str) -> Vec<String> {
        check(&Tree::of(&[(path, manifest)])).into_iter().map(|finding| finding.what).collect()
    }

    #[test]
    fn a_manifest_that_inherits_everything_is_fine() {
        assert!(found("crates/core/Cargo.toml", GOOD).is_empty());
    }

    #[test]
    fn each_setting_made_by_the_crate_itself_is_found() {
        let own = [
            ("edition.workspace = true", "edition = \"2021\"", "edition"),
            ("rust-version = { workspace = true }", "", "rust-version"),
            ("license.workspace=true", "license = \"MIT\"", "license"),
            ("[lints]\nworkspace = true", "[lints.rust]\nunsafe_code = \"allow\"", "lints"),
        ];
        for (theirs, its_own, key) in own {
            let what = format!("`{key}` is not inherited from the workspace");
            let manifest = GOOD.replace(theirs, its_own);
            assert_eq!(found("crates/engines/memory/Cargo.toml", &manifest), [what]);
        }
    }

    #[test]
    fn inheriting_under_another_table_does_not_count() {
        let manifest = GOOD.replace("[package]", "[package.metadata]");
        assert_eq!(found("crates/core/Cargo.toml", &manifest).len(), 3);
    }

    #[test]
    fn crates_of_ours_for_tests_have_a_path_and_no_version() {
        let bad = format!("{GOOD}\n[dev-dependencies]\nwindlass-kit.workspace = true\n");
        let found_in_bad = found("crates/x/Cargo.toml", &bad);
        assert_eq!(found_in_bad.len(), 1, "{found_in_bad:?}");
        let good = format!("{GOOD}\n[dev-dependencies]\nwindlass-kit = {{ path = \"../kit\" }}\n");
        assert!(found("crates/x/Cargo.toml", &good).is_empty());
    }
}
