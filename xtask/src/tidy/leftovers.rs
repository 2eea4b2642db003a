//! Leftovers: notes, debug output and ignored tests must not reach the main branch.

use super::Finding;
use super::tree::Tree;

const SOURCES: &[&str] = &["rs", "sql", "lua", "ts", "js", "py", "html", "css", "toml", "yml"];

/// Forbidden texts, and what to do instead. Concatenated, so that this file does not match itself.
const LEFTOVERS: &[(&str, &str)] = &[
    (concat!("TO", "DO"), "do it, or open an issue"),
    (concat!("FIX", "ME"), "fix it, or open an issue"),
    (concat!("XX", "X"), "settle it, or open an issue"),
    (concat!("todo", "!"), "write the code, or return an error"),
    (concat!("unimplemented", "!"), "write the code, or return an error"),
    (concat!("dbg", "!"), "remove it"),
    (concat!("#[ig", "nore]"), "give a reason: #[ignore = \"…\"]"),
];

pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for file in tree.with_extension(SOURCES) {
        for (line, text) in file.lines() {
            for (leftover, way_out) in LEFTOVERS {
                if has_word(text, leftover) {
                    findings.push(Finding {
                        path: file.path.clone(),
                        line,
                        what: format!("`{leftover}` left behind"),
                        way_out: (*way_out).to_owned(),
                    });
                }
            }
        }
    }
    findings
}

/// Whether the needle occurs as a whole word.
fn has_word(text: &str, needle: &str) -> bool {
    let is_word = |c: char| c.is_alphanumeric() || c == '_';
    text.match_indices(needle).any(|(start, _)| {
        let before = text[..start].chars().next_back();
        let after = text[start + needle.len()..].chars().next();
        let goes_on = needle.ends_with(is_word) && after.is_some_and(is_word);
        !before.is_some_and(is_word) && !goes_on
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_of_leftover_is_found_with_its_line() {
        for (leftover, _) in LEFTOVERS {
            let tree = Tree::of(&[("a.rs", &format!("fn a() {{\n    {leftover}(1)\n"))]);
            let found = check(&tree);
            assert_eq!(found.len(), 1, "{leftover}");
            assert_eq!(found[0].line, 2, "{leftover}");
        }
    }

    #[test]
    fn a_reasoned_ignore_and_longer_words_are_fine() {
        let (note, debug) = (LEFTOVERS[0].0, LEFTOVERS[5].0);
        let text = format!("#[ignore = \"takes an hour\"]\n{note}S MY_{note} my_{debug}(x)");
        assert!(check(&Tree::of(&[("a.rs", &text)])).is_empty(), "{text}");
    }

    #[test]
    fn prose_may_speak_of_them() {
        assert!(check(&Tree::of(&[("docs/a.md", LEFTOVERS[0].0)])).is_empty());
    }
}
