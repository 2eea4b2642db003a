//! Module docs: the first line of every Rust file must be a module doc.

use super::Finding;
use super::tree::Tree;

pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let undocumented = tree.with_extension(&["rs"]).filter(|file| {
        let first = file.text.lines().find(|line| !line.trim().is_empty());
        let words = first.and_then(|line| line.strip_prefix("//!"));
        words.is_none_or(|words| words.trim().is_empty())
    });
    undocumented
        .map(|file| Finding {
            path: file.path.clone(),
            line: 1,
            what: "no module doc in the first line".to_owned(),
            way_out: "start the file with `//!` and what it is responsible for".to_owned(),
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_without_a_first_line_that_speaks_is_found() {
        let tree = Tree::of(&[
            ("good.rs", "\n//! Leases.\nuse x;\n"),
            ("tests/late.rs", "use x;\n//! Leases.\n"),
            ("silent.rs", "//!\n"),
            ("empty.rs", ""),
        ]);
        let found: Vec<_> = check(&tree).into_iter().map(|finding| finding.path).collect();
        assert_eq!(found, ["tests/late.rs", "silent.rs", "empty.rs"]);
    }
}
