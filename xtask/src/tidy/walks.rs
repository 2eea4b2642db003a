//! Walks: every hop in ARCHITECTURE.md that names code and its file, as in "`Writer::serve` (`src/writer.rs`)", must match
//! the tree.

use super::Finding;
use super::tree::{File, Tree};

const PAGE: &str = "ARCHITECTURE.md";
/// Begins the sentence that names the directory of a walk's paths.
const BELOW: &str = "Paths are below `";

/// A name and the file that should contain it.
struct Hop<'a> {
    line: usize,
    name: &'a str,
    path: &'a str,
}

pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let Some(page) = tree.files().find(|file| file.path == PAGE) else { return Vec::new() };
    let mut findings = Vec::new();
    let mut base = "";
    for (first, text) in paragraphs(page) {
        if let Some(rest) = text.strip_prefix(BELOW) {
            base = rest.split('`').next().unwrap_or("");
        }
        let missing = hops(first, text).filter(|hop| !is_in(tree, base, hop));
        findings.extend(missing.map(|hop| Finding {
            path: PAGE.to_owned(),
            line: hop.line,
            what: format!("`{}` is not in `{}`", hop.name, hop.path),
            way_out: "name the function and the file that do this hop now".to_owned(),
        }));
    }
    findings
}

/// The paragraphs of the section "Walks", each with the number of its first line.
fn paragraphs(page: &File) -> impl Iterator<Item = (usize, &str)> {
    let start = page.text.find("\n## Walks\n").map_or(page.text.len(), |at| at + 1);
    let section = &page.text[start..];
    let section = section.find("\n## ").map_or(section, |end| &section[..=end]);
    let mut line = 1 + page.text[..start].matches('\n').count();
    section.split("\n\n").map(move |text| {
        let first = line;
        line += text.matches('\n').count() + 2;
        (first, text)
    })
}

/// Names that are followed by a Rust file in parentheses.
fn hops(first: usize, text: &str) -> impl Iterator<Item = Hop<'_>> {
    let pieces: Vec<&str> = text.split('`').collect();
    let hop = move |at: usize| {
        let [name, between, path] = pieces.get(at..at + 3)? else { return None };
        let is_hop = between.split_whitespace().eq(["("]) && path.ends_with(".rs");
        let line = first + pieces[..at].iter().map(|it| it.matches('\n').count()).sum::<usize>();
        is_hop.then_some(Hop { line, name, path })
    };
    (1..text.matches('`').count()).step_by(2).filter_map(hop)
}

/// Whether the file, below the base or by its complete path, has the last part of the name.
fn is_in(tree: &Tree, base: &str, hop: &Hop<'_>) -> bool {
    let path = hop.path;
    let text = tree.text_of(&format!("{base}/{path}")).or_else(|| tree.text_of(path));
    let name = hop.name.rsplit("::").next().unwrap_or(hop.name);
    let defines = |text: &str| {
        ["fn ", "struct ", "enum ", "trait "].iter().any(|keyword| {
            text.match_indices(&format!("{keyword}{name}")).any(|(at, found)| {
                let rest = &text[at + found.len()..];
                !rest.starts_with(|c: char| c.is_alphanumeric() || c == '_')
            })
        })
    };
    text.is_some_and(defines)
}

#[cfg(test)]
mod tests {
    use super::*;

    const CODE: (&str, &str) =
        ("crates/engines/local/src/writer.rs", "impl Writer {\n    fn serve<T>() {}\n}\n");

    fn found(walk: &str) -> Vec<(usize, String)> {
        let page =
            format!("# A\n\n`gone` (`gone.rs`)\n\n## Walks\n\n{walk}\n\n## B\n\n`c` (`d.rs`)\n");
        let findings = check(&Tree::of(&[(PAGE, &page), CODE])).into_iter();
        findings.map(|finding| (finding.line, finding.what)).collect()
    }

    #[test]
    fn hops_that_match_the_code_are_accepted() {
        let below = "Paths are below `crates/engines/local`.\n\n1. `Writer::serve`\n   (`src/writer.rs`) runs.";
        assert_eq!(found(below), []);
        assert_eq!(found("`serve` (`crates/engines/local/src/writer.rs`), `sql` (`a.sql`)"), []);
    }

    #[test]
    fn a_missing_function_or_file_is_found_with_its_line() {
        let walk = "Paths are below `crates/engines/local`.\n\n1. First.\n2. `Writer::ser` (`src/writer.rs`).\n\
            3. `Writer::serve` (`src/reader.rs`).";
        let missing = |line, name: &str, file: &str| (line, format!("`{name}` is not in `{file}`"));
        assert_eq!(
            found(walk),
            [
                missing(10, "Writer::ser", "src/writer.rs"),
                missing(11, "Writer::serve", "src/reader.rs")
            ]
        );
    }
}
