//! Links: every link in Markdown to a file in the repository, and to a heading of a page, must resolve.

use super::Finding;
use super::tree::{File, Tree};

pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let pages = tree.with_extension(&["md"]).filter(|file| {
        let places = ["docs/", "ops/"];
        !file.path.contains('/') || places.iter().any(|place| file.path.starts_with(place))
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
            let way_out = match is_local(&target).then(|| resolve(&page.path, &target)) {
                None => continue,
                Some(Some(path)) if tree.holds(&path) && has_heading(tree, &path, &target) => {
                    continue;
                }
                Some(Some(path)) if tree.holds(&path) => {
                    "point it at a heading of that page, in lower case with hyphens"
                }
                Some(_) => "point it at a file of this repository",
            };
            findings.push(Finding {
                path: page.path.clone(),
                line,
                what: format!("the link to `{target}` is broken"),
                way_out: way_out.to_owned(),
            });
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
    !target.contains("://") && !target.starts_with("mailto:")
}

/// Whether the page has the heading that the target names, if it names one.
fn has_heading(tree: &Tree, path: &str, target: &str) -> bool {
    let Some((_, anchor)) = target.split_once('#') else { return true };
    let Some(page) = tree.with_extension(&["md"]).find(|file| file.path == path) else {
        return true;
    };
    let mut in_code = false;
    page.lines().any(|(_, text)| {
        in_code ^= text.trim_start().starts_with("```");
        let heading = text.trim_start_matches('#');
        !in_code && heading.len() < text.len() && anchor_of(heading) == anchor
    })
}

/// The name that Markdown renderers give to a heading.
fn anchor_of(heading: &str) -> String {
    let kept = heading.trim().chars().filter(|c| c.is_alphanumeric() || " -_".contains(*c));
    kept.flat_map(char::to_lowercase).map(|c| if c == ' ' { '-' } else { c }).collect()
}

/// The target as a path relative to the repository root; `None` if it is outside the repository.
fn resolve(page: &str, target: &str) -> Option<String> {
    let target = target.split('#').next().unwrap_or_default();
    if target.is_empty() {
        return Some(page.to_owned());
    }
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
        let adr = "# 001\n## Why, and `how`\n```\n# code\n```\n";
        let others = [("docs/adr/001-traits.md", adr), ("crates/core/src/lib.rs", "")];
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
        let good = "[a](adr/001-traits.md#001) [b](../crates/core) [c](/docs/) [d](#here)\n# Here";
        assert!(found("docs/guide.md", good).is_empty());
        assert_eq!(found("docs/guide.md", "[a](docs/adr/001-traits.md)").len(), 1);
        assert_eq!(found("docs/guide.md", "[a](../../elsewhere.md)").len(), 1);
    }

    #[test]
    fn a_link_to_a_heading_needs_that_heading() {
        let found =
            |anchor: &str| found("README.md", &format!("[a](docs/adr/001-traits.md#{anchor})"));
        assert!(found("why-and-how").is_empty());
        for missing in ["why", "code", ""] {
            assert_eq!(found(missing).len(), 1, "{missing}");
        }
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
