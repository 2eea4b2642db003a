//! `cargo xtask tidy`: checks style rules. Runs every check and reports all findings at once.

mod direction;
mod exceptions;
mod leftovers;
mod length;
mod lessons;
mod links;
mod machine;
mod manifests;
mod module_docs;
mod prose;
mod purity;
mod tree;
mod walks;
mod words;

use std::fmt;

use anyhow::{Result, bail};

use crate::process;
use tree::Tree;

/// One violation of a style rule, and how to fix it.
#[derive(Debug)]
struct Finding {
    path: String,
    line: usize,
    what: String,
    way_out: String,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}; {}", self.path, self.line, self.what, self.way_out)
    }
}

pub(crate) fn run() -> Result<()> {
    let root = process::root()?;
    let tree = Tree::of_repository(&root)?;
    let mut findings = Vec::new();
    findings.extend(length::check(&tree));
    findings.extend(leftovers::check(&tree));
    findings.extend(direction::check(&tree)?);
    findings.extend(purity::check()?);
    findings.extend(manifests::check(&tree));
    findings.extend(module_docs::check(&tree));
    findings.extend(exceptions::check(&tree));
    findings.extend(machine::check(&tree));
    findings.extend(links::check(&tree));
    findings.extend(lessons::check(&tree));
    findings.extend(walks::check(&tree));
    findings.extend(words::check(&tree));

    findings.sort_by(|a, b| (&a.path, a.line).cmp(&(&b.path, b.line)));
    for finding in &findings {
        eprintln!("{finding}");
    }
    match findings.len() {
        0 => {
            eprintln!("tidy: {} files, no findings", tree.files().count());
            Ok(())
        }
        1 => bail!("tidy has 1 finding, listed above"),
        count => bail!("tidy has {count} findings, listed above"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_finding_says_where_what_and_the_way_out() {
        let finding = Finding {
            path: "crates/core/src/lib.rs".into(),
            line: 7,
            what: "too long".into(),
            way_out: "split it".into(),
        };
        assert_eq!(finding.to_string(), "crates/core/src/lib.rs:7: too long; split it");
    }
}
