//! File lengths: a file beyond the limit must state the reason in its first lines.

use super::Finding;
use super::tree::{File, Tree};

const MAX_LINES: usize = 500;
/// Number of lines at the top of the file in which the reason is searched.
const REASON_WITHIN_LINES: usize = 10;
const REASON: &str = "tidy: long because ";

pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let too_long = tree
        .with_extension(&["rs", "sql", "lua", "ts"])
        .filter(|file| file.text.lines().count() > MAX_LINES && !gives_a_reason(file));
    too_long
        .map(|file| Finding {
            path: file.path.clone(),
            line: MAX_LINES + 1,
            what: format!("{} lines, limit {MAX_LINES}", file.text.lines().count()),
            way_out: format!("split it, or add `{REASON}<reason>` in a comment at its top"),
        })
        .collect()
}

fn gives_a_reason(file: &File) -> bool {
    let mut top = file.text.lines().take(REASON_WITHIN_LINES);
    top.any(|line| line.split_once(REASON).is_some_and(|(_, reason)| !reason.trim().is_empty()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(count: usize) -> String {
        "x\n".repeat(count)
    }

    #[test]
    fn a_file_past_the_limit_is_found() {
        let tree = Tree::of(&[("a.rs", &lines(500)), ("b.sql", &lines(501))]);
        let found = check(&tree);
        assert_eq!(found.len(), 1);
        assert_eq!((found[0].path.as_str(), found[0].line), ("b.sql", 501));
    }

    #[test]
    fn a_reason_at_the_top_excuses_a_long_file_and_an_empty_one_does_not() {
        let table = format!("//! A table.\n// {REASON}it is one table\n{}", lines(600));
        let empty = format!("// {REASON}\n{}", lines(600));
        let late = format!("{}// {REASON}too late in the file\n{}", lines(300), lines(300));
        let tree = Tree::of(&[("table.rs", &table), ("empty.rs", &empty), ("late.rs", &late)]);
        let found: Vec<_> = check(&tree).into_iter().map(|finding| finding.path).collect();
        assert_eq!(found, ["empty.rs", "late.rs"]);
    }

    #[test]
    fn other_files_may_be_long() {
        assert!(check(&Tree::of(&[("Cargo.lock", &lines(9_000))])).is_empty());
    }
}
