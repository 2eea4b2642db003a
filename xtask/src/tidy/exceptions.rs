//! Lint exceptions: every silenced lint must have a reason.

use super::Finding;
use super::tree::{File, Tree};

/// Concatenated, so that this file does not match itself.
const OPENINGS: &[&str] = &[
    concat!("#[al", "low("),
    concat!("#![al", "low("),
    concat!("#[ex", "pect("),
    concat!("#![ex", "pect("),
];

pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    tree.with_extension(&["rs"]).flat_map(in_file).collect()
}

fn in_file(file: &File) -> Vec<Finding> {
    let mut findings = Vec::new();
    for opening in OPENINGS {
        for (start, _) in file.text.match_indices(opening) {
            let line_start = file.text[..start].rfind('\n').map_or(0, |newline| newline + 1);
            let in_comment = file.text[line_start..start].trim_start().starts_with("//");
            // An attribute may span lines; it ends at the first `)]`. If that is inside the attribute, the
            // reason must precede it.
            let attribute = file.text[start..].split(")]").next().unwrap_or_default();
            if !in_comment && !attribute.contains("reason =") {
                findings.push(Finding {
                    path: file.path.clone(),
                    line: file.text[..start].matches('\n').count() + 1,
                    what: format!("`{opening}…)]` without a reason"),
                    way_out: "add `reason = \"…\"`, or fix what the lint reports".to_owned(),
                });
            }
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_exception_without_a_reason_is_found_on_its_line() {
        for opening in OPENINGS {
            let text = format!("//! Docs.\n\n    {opening}dead_code)]\nfn f() {{}}\n");
            let found = check(&Tree::of(&[("a.rs", &text)]));
            assert_eq!(found.len(), 1, "{opening}");
            assert_eq!(found[0].line, 3, "{opening}");
        }
    }

    #[test]
    fn the_reason_of_one_exception_does_not_excuse_the_next() {
        let opening = OPENINGS[0];
        let text = format!("{opening}a)]\n{opening}b, reason = \"why\")]\n");
        let found = check(&Tree::of(&[("a.rs", &text)]));
        assert_eq!(found.iter().map(|finding| finding.line).collect::<Vec<_>>(), [1]);
    }

    #[test]
    fn a_reason_over_several_lines_and_talk_in_comments_are_fine() {
        let opening = OPENINGS[2];
        let text = format!("{opening}\n  a,\n  reason = \"see [x(y)]\"\n)]\n/// {opening}a)]\n");
        assert!(check(&Tree::of(&[("a.rs", &text)])).is_empty());
    }
}
