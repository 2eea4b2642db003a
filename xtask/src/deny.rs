//! `cargo xtask deny`: checks the dependencies against deny.toml. Licences, duplicates and sources are checked
//! here, without tools or network. Advisories require cargo-deny and its database: if either is missing, the
//! step is reported as not checked, not as passed.

mod licence;
mod rules;

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context as _, Result, bail};
use serde::Deserialize;

use crate::process;
use crate::steps::{Outcome, Steps};
use rules::Rules;

/// Prefix of the source of a crate from a registry, in the output of `cargo metadata`.
const REGISTRY: &str = "registry+";

pub(crate) fn run() -> Result<()> {
    let mut steps = Steps::default();
    add_steps(&mut steps);
    steps.finish()
}

/// Adds the steps, also for `cargo xtask lint`.
pub(crate) fn add_steps(steps: &mut Steps) {
    steps.run("deny", "cargo xtask deny", check);
    steps.run_if_possible("advisories", "cargo deny check advisories", advisories);
}

/// A crate in the dependency graph.
#[derive(Deserialize)]
struct Package {
    name: String,
    version: String,
    /// Licence in its manifest; `None` if the manifest names a licence file.
    license: Option<String>,
    /// Source; `None` for crates of this repository.
    source: Option<String>,
}

#[derive(Deserialize)]
struct Metadata {
    packages: Vec<Package>,
}

fn check() -> Result<()> {
    let rules = Rules::read(&process::root()?.join("deny.toml"))?;
    let args = ["metadata", "--format-version", "1", "--all-features"];
    let json = process::capture(&mut process::cargo_locked(&args)?)?;
    let metadata: Metadata =
        serde_json::from_str(&json).context("cannot parse the output of `cargo metadata`")?;
    let findings = findings(&rules, &metadata.packages);
    if !findings.is_empty() {
        bail!("{} findings, see deny.toml:\n  {}", findings.len(), findings.join("\n  "));
    }
    eprintln!("{} crates: licences, duplicates and sources are fine", metadata.packages.len());
    Ok(())
}

fn findings(rules: &Rules, packages: &[Package]) -> Vec<String> {
    let foreign = || packages.iter().filter(|package| package.source.is_some());
    let mut findings: Vec<String> = foreign().filter_map(|it| licence(rules, it)).collect();
    findings.extend(foreign().filter_map(|package| source(rules, package)));
    findings.extend(duplicates(rules, packages));
    findings
}

fn licence(rules: &Rules, Package { name, version, license, .. }: &Package) -> Option<String> {
    let Some(license) = license else {
        return Some(format!("{name} {version} names no licence: use another crate"));
    };
    match licence::is_allowed(license, &rules.licenses.allow) {
        true => None,
        false => {
            Some(format!("{name} {version} has the licence {license:?}, which is not allowed"))
        }
    }
}

fn source(rules: &Rules, Package { name, version, source, .. }: &Package) -> Option<String> {
    let source = source.as_deref().unwrap_or_default();
    let known = source.strip_prefix(REGISTRY).is_some_and(|registry| {
        rules.sources.allow_registry.iter().any(|allowed| allowed == registry)
    });
    (!known).then(|| format!("{name} {version} comes from {source}: use a released crate"))
}

fn duplicates(rules: &Rules, packages: &[Package]) -> Vec<String> {
    let mut versions = BTreeMap::<&str, BTreeSet<&str>>::new();
    for Package { name, version, .. } in packages {
        versions.entry(name).or_default().insert(version);
    }
    let mut findings = Vec::new();
    for skip in &rules.bans.skip {
        let (name, version) = skip.name.split_once('@').unwrap_or((&skip.name, ""));
        let there = versions.get_mut(name).is_some_and(|versions| versions.remove(version));
        if !there {
            findings
                .push(format!("{}: this duplicate no longer exists, remove the entry", skip.name));
        } else if versions[name].is_empty() {
            findings.push(format!("{}: it is the only version left, remove the entry", skip.name));
        }
    }
    let several = versions.into_iter().filter(|(_, versions)| versions.len() > 1);
    findings.extend(several.map(|(name, versions)| {
        let versions: Vec<_> = versions.into_iter().collect();
        format!("{name} has {} versions: {}", versions.len(), versions.join(", "))
    }));
    findings
}

/// Checks security advisories, yanked versions, and all rules again, with cargo-deny.
fn advisories() -> Result<Outcome> {
    if !process::has_cargo_subcommand("deny")? {
        let why = "cargo-deny is not installed (cargo install --locked cargo-deny)";
        return Ok(Outcome::NotChecked(why.to_owned()));
    }
    if !process::stream_status(&mut process::cargo(&["deny", "fetch", "db"])?)?.success() {
        let why = "the advisory database cannot be fetched";
        return Ok(Outcome::NotChecked(why.to_owned()));
    }
    process::stream(&mut process::cargo(&["deny", "check"])?)?;
    Ok(Outcome::Checked)
}

#[cfg(test)]
mod tests {
    use super::*;

    const CRATES_IO: &str = "https://github.com/rust-lang/crates.io-index";

    fn package(name: &str, version: &str, license: &str) -> Package {
        Package {
            name: name.to_owned(),
            version: version.to_owned(),
            license: Some(license.to_owned()),
            source: Some(format!("{REGISTRY}{CRATES_IO}")),
        }
    }

    fn found(skip: &[&str], packages: &[Package]) -> Vec<String> {
        findings(&Rules::of(&["MIT"], skip, &[CRATES_IO]), packages)
    }

    #[test]
    fn crates_by_the_rules_are_fine() {
        let packages = [package("a", "1.0.0", "MIT"), package("a", "0.9.0", "GPL-3.0 OR MIT")];
        assert!(found(&["a@0.9.0"], &packages).is_empty());
    }

    #[test]
    fn each_rule_is_held_and_names_the_crate() {
        let alone = |packages: &[Package]| found(&[], packages).join("\n");
        assert!(alone(&[package("a", "1.0.0", "GPL-3.0")]).contains("a 1.0.0 has the licence"));
        let mut silent = package("a", "1.0.0", "");
        silent.license = None;
        assert!(alone(&[silent]).contains("names no licence"));
        let mut git = package("a", "1.0.0", "MIT");
        git.source = Some("git+https://example.org/a".to_owned());
        assert!(alone(&[git]).contains("git+https://example.org/a"));
        let twice = [package("a", "1.0.0", "MIT"), package("a", "2.0.0", "MIT")];
        assert!(alone(&twice).contains("a has 2 versions: 1.0.0, 2.0.0"));
    }

    #[test]
    fn an_exception_that_is_not_needed_any_more_is_found() {
        let packages = [package("a", "1.0.0", "MIT")];
        assert!(found(&["b@1.0.0"], &packages)[0].contains("remove the entry"));
        assert!(found(&["a@1.0.0"], &packages)[0].contains("only version"));
    }
}
