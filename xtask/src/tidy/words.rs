//! Plain words: sources and guides use the terms of the glossary instead of vague ones.

use super::Finding;
use super::tree::Tree;

/// Words that hide what a sentence is about, and what to write instead.
const VAGUE: [(&str, &str); 10] = [
    ("whoever", "name the caller, the process or the owner"),
    ("somebody", "name the caller, the process or the owner"),
    ("nobody", "say what is absent: no worker, no listener, no caller"),
    ("everybody", "name all processes, workers or callers"),
    ("so many", "give the number or name the limit"),
    ("mend", "write fix or repair"),
    ("mended", "write fixed or repaired"),
    ("mends", "write fixes or repairs"),
    ("foresee", "write preview"),
    ("honoured", "write accepted"),
];
/// This list itself.
const THIS: &str = "xtask/src/tidy/words.rs";

pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let sources = tree.with_extension(&["rs"]).filter(|file| file.path.contains("/src/"));
    let files = sources.chain(tree.with_extension(&["md"])).filter(|file| file.path != THIS);
    let lines = files.flat_map(|file| file.text.lines().enumerate().map(move |line| (file, line)));
    lines
        .flat_map(|(file, (index, line))| {
            vague(line).map(move |(word, instead)| Finding {
                path: file.path.clone(),
                line: index + 1,
                what: format!("`{word}` is vague"),
                way_out: (*instead).to_owned(),
            })
        })
        .collect()
}

fn vague(line: &str) -> impl Iterator<Item = &'static (&'static str, &'static str)> {
    let line = line.to_lowercase();
    VAGUE.iter().filter(move |(word, _)| has_word(&line, word))
}

fn has_word(line: &str, word: &str) -> bool {
    let is_part = |c: char| c.is_alphanumeric() || c == '_';
    line.match_indices(word).any(|(start, _)| {
        let (before, after) = (&line[..start], &line[start + word.len()..]);
        !before.ends_with(is_part) && !after.starts_with(is_part)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn vague_words_are_found_in_sources_and_guides_and_not_inside_others() {
        let tree = Tree::of(&[
            ("crates/core/src/a.rs", "//! Leases.\n// Whoever claims: at most so many.\n"),
            ("crates/core/src/b.rs", "//! Amended by `nobody_else`.\n"),
            ("crates/core/tests/c.rs", "//! Nobody.\n"),
            ("docs/d.md", "Somebody waits.\n"),
        ]);
        let found: Vec<_> =
            check(&tree).into_iter().map(|it| (it.path, it.line, it.what)).collect();
        let at = |path: &str, line, word| (path.to_owned(), line, format!("`{word}` is vague"));
        assert_eq!(
            found,
            [
                at("crates/core/src/a.rs", 2, "whoever"),
                at("crates/core/src/a.rs", 2, "so many"),
                at("docs/d.md", 1, "somebody"),
            ]
        );
    }
}
