//! Lessons: every test named in `docs/lessons-held.md` must exist in the given file.

use super::Finding;
use super::tree::{File, Tree};

/// The page that names tests.
const PAGE: &str = "docs/lessons-held.md";
/// Separator between a file and the test in it.
const MARK: &str = ".rs::";

pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let pages = tree.files().filter(|file| file.path == PAGE);
    pages.flat_map(|page| in_page(tree, page)).collect()
}

fn in_page(tree: &Tree, page: &File) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (line, text) in page.lines() {
        for (path, test) in named(text) {
            if !tree.text_of(&path).is_some_and(|text| defines(text, test)) {
                findings.push(Finding {
                    path: page.path.clone(),
                    line,
                    what: format!("there is no test `{test}` in {path}"),
                    way_out: "name an existing test, or state that there is none yet".to_owned(),
                });
            }
        }
    }
    findings
}

/// The tests in a line: code spans of the form `path/file.rs::test`.
fn named(line: &str) -> impl Iterator<Item = (String, &str)> {
    let spans = line.split('`').skip(1).step_by(2);
    spans.filter_map(|span| span.split_once(MARK)).map(|(path, test)| (format!("{path}.rs"), test))
}

/// Whether a file defines a function of this name. The kit's checks are functions that its macro turns into
/// tests.
fn defines(text: &str, test: &str) -> bool {
    let is_name = |rest: &str| rest.starts_with(['(', '<']);
    text.split("fn ").skip(1).any(|rest| rest.strip_prefix(test).is_some_and(is_name))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(page: &str) -> Vec<String> {
        let tests =
            ("crates/kit/tests/a.rs", "#[test]\nfn it_holds() {}\nasync fn checked<T>() {}");
        let tree = Tree::of(&[(PAGE, page), tests]);
        check(&tree).into_iter().map(|finding| finding.to_string()).collect()
    }

    #[test]
    fn a_test_that_is_there_is_fine_whatever_else_the_line_says() {
        let page =
            "| a | `b` | `crates/kit/tests/a.rs::it_holds`, `crates/kit/tests/a.rs::checked` |";
        assert!(found(page).is_empty());
    }

    #[test]
    fn a_test_or_a_file_that_is_not_there_is_found_on_its_line() {
        let found = found("fine\n`crates/kit/tests/a.rs::it` `crates/gone.rs::it_holds`\n");
        assert_eq!(found.len(), 2);
        assert!(found[0].starts_with("docs/lessons-held.md:2: there is no test `it`"), "{found:?}");
    }
}
