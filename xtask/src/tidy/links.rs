//! Links: every link in Markdown to a file in the repository must resolve.

use super::Finding;
use super::tree::{File, Tree};

pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let pages = tree.with_extension(&["md"]).filter(|file| {
        let front = ["README.md", "ARCHITECTURE.md", "CHANGELOG.md"];
        front.contains(&file.path.as_str()) || file.path.starts_with("docs/")
    });
    pages.flat_map(|page| in_page(tree, page)).collect()
}

fn in_page(tree: &Tree, page: &File) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut in_code = false;
    for (line, text) in page.lines() {
        if text.trim_start().starts_with("```") {
            in_code = !in_code;
        }
        if in_code {
            continue;
        }
        for target in targets(&without_code(text)) {
            if is_local(&target) && !resolve(&page.path, &target).is_some_and(|it| tree.holds(&it))
            {
                findings.push(Finding {
                    path: page.path.clone(),
                    line,
                    what: format!("the link to `{target}` is broken"),
                    way_out: "point it at a file of this repository".to_owned(),
                });
            }
        }
    }
    findings
}

/// The line without its `code spans`, which may contain text that looks like a link.
fn without_code(line: &str) -> String {
    line.split('`').step_by(2).collect::<Vec<_>>().join("`")
}

/// The targets of the line's links: `[text](target)` and `[name]: target`.
fn targets(line: &str) -> Vec<String> {
    let inline = line.split("](").skip(1).filter_map(|rest| rest.split([')', ' ']).next());
    let definition = line.strip_prefix('[').and_then(|rest| rest.split_once("]: "));
    let defined = definition.and_then(|(_, rest)| rest.split_whitespace().next());
    let targets = inline.chain(defined).map(|target| target.trim_matches(['<', '>']));
    targets.filter(|target| !target.is_empty()).map(String::from).collect()
}

fn is_local(target: &str) -> bool {
    !target.contains("://") && !target.starts_with("mailto:") && !target.starts_with('#')
}

/// The target as a path relative to the repository root; `None` if it is outside the repository.
fn resolve(page: &str, target: &str) -> Option<String> {
    let target = target.split('#').next().unwrap_or_default();
    let mut path: Vec<&str> = page.split('/').collect();
    path.pop();
    if target.starts_with('/') {
        path.clear();
    }
    for part in target.split('/') {
        match part {
            "" | "." => {}
            ".." => {
                path.pop()?;
            }
            name => path.push(name),
        }
    }
    Some(path.join("/"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(page: &str, text: &str) -> Vec<String> {
        let others = [("docs/adr/001-traits.md", ""), ("crates/core/src/lib.rs", "")];
        let tree = Tree::of(&[(page, text), others[0], others[1]]);
        check(&tree).into_iter().map(|finding| finding.to_string()).collect()
    }

    #[test]
    fn a_link_to_nothing_is_found_on_its_line() {
        let text = "fine\n[a](docs/adr/001-traits.md) and [b](docs/adr/002-gone.md#why)\n";
        let found = found("README.md", text);
        assert_eq!(found.len(), 1);
        assert!(found[0].starts_with("README.md:2: the link to `docs/adr/002-gone.md#why`"));
    }

    #[test]
    fn links_resolve_from_their_page_and_may_name_directories() {
        let good = "[a](adr/001-traits.md#x) [b](../crates/core) [c](/docs/) [d](#here)";
        assert!(found("docs/guide.md", good).is_empty());
        assert_eq!(found("docs/guide.md", "[a](docs/adr/001-traits.md)").len(), 1);
        assert_eq!(found("docs/guide.md", "[a](../../elsewhere.md)").len(), 1);
    }

    #[test]
    fn reference_definitions_are_links_too() {
        assert_eq!(found("CHANGELOG.md", "[0.1.0]: docs/gone.md\n").len(), 1);
    }

    #[test]
    fn the_web_and_code_are_left_alone() {
        let text = "[a](https://x.example/y.md)\n`[b](c.md)`\n```\n[d](e.md)\n```\n";
        assert!(found("README.md", text).is_empty());
    }
}
