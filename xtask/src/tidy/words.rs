//! Plain words: comments, guides, SQL, templates, test names and messages use the terms of the glossary instead of
//! vague ones.

use super::Finding;
use super::prose::{self, Kind, Prose};
use super::tree::{File, Tree};

/// Words that hide what a sentence is about, and what to write instead.
const VAGUE: [(&str, &str); 21] = [
    ("whoever", "name the caller, the process or the owner"),
    ("somebody", "name the caller, the process or the owner"),
    ("anybody", "name the caller, the process or the owner"),
    ("nobody", "say what is absent: no worker, no listener, no caller"),
    ("everybody", "name all processes, workers or callers"),
    ("so many", "give the number or name the limit"),
    ("mend", "write fix or repair"),
    ("mended", "write fixed or repaired"),
    ("mends", "write fixes or repairs"),
    ("foresee", "write preview"),
    ("honoured", "write accepted"),
    ("told", "write reported, sent, returned or notified"),
    ("tells", "write reports, sends or returns"),
    ("believes", "write trusts or assumes"),
    ("believed", "write trusted or assumed"),
    ("looked at", "write read, checked or scanned"),
    ("looks at", "write reads, checks or scans"),
    ("handed over", "write enqueued, passed or returned"),
    ("hands over", "write enqueues, passes or returns"),
    ("in good order", "write without an error, or graceful"),
    ("of this sort", "write matching"),
];

/// Words of other queues in help texts, errors and log lines, and our term for the same concept.
const SYNONYMS: [(&str, &str); 11] = [
    ("dequeue", "claim"),
    ("dequeued", "claim"),
    ("consumer", "worker"),
    ("consumers", "worker"),
    ("visibility timeout", "lease"),
    ("dead letter queue", "dead letter"),
    ("dlq", "dead letter"),
    ("requeue", "retry"),
    ("requeued", "retry"),
    ("redrive", "replay"),
    ("deduplication key", "unique key"),
];

/// Files that consist of prose, besides Rust.
const TEXTS: [&str; 10] = ["md", "sql", "html", "js", "css", "py", "mjs", "toml", "yml", "sh"];
/// The file with the glossary, a table of `| term | meaning |`.
const GLOSSARY: &str = "ARCHITECTURE.md";
/// This list itself.
const THIS: &str = "xtask/src/tidy/words.rs";

pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let files = tree.files().filter(|file| file.path != THIS && is_prose(file));
    let found = files.flat_map(|file| {
        let prose = prose::of(file);
        prose.into_iter().flat_map(|prose| findings(file, &prose)).collect::<Vec<_>>()
    });
    found.chain(undefined(tree)).collect()
}

fn is_prose(file: &File) -> bool {
    file.has_extension(&["rs"]) || file.has_extension(&TEXTS)
}

fn findings(file: &File, prose: &Prose) -> Vec<Finding> {
    let text = prose.text.to_lowercase();
    let finding = |what: String, way_out: String| Finding {
        path: file.path.clone(),
        line: prose.line,
        what,
        way_out,
    };
    let vague = VAGUE.iter().filter(|(word, _)| has_word(&text, word));
    let vague =
        vague.map(|(word, instead)| finding(format!("`{word}` is vague"), (*instead).to_owned()));
    let synonyms =
        SYNONYMS.iter().filter(|(word, _)| is_shown(file, prose) && has_word(&text, word));
    let synonyms = synonyms.map(|(word, term)| {
        finding(format!("`{word}` is not our term"), format!("write {term}, as in the glossary"))
    });
    vague.chain(synonyms).collect()
}

/// Whether users see this text: messages of the programs, and documentation that becomes help.
fn is_shown(file: &File, prose: &Prose) -> bool {
    match prose.kind {
        // A single word is a value, not a sentence.
        Kind::Message => file.path.contains("/src/") && prose.text.contains(' '),
        Kind::Doc => file.path.starts_with("crates/cli/src/"),
        Kind::Text | Kind::Name => false,
    }
}

/// Terms that the list of synonyms recommends and the glossary does not define.
fn undefined(tree: &Tree) -> Vec<Finding> {
    let Some(text) = tree.text_of(GLOSSARY) else { return Vec::new() };
    let defined = |term: &str| text.lines().any(|line| line.starts_with(&format!("| {term} |")));
    let missing = SYNONYMS.iter().filter(|(_, term)| !defined(term));
    missing
        .map(|(_, term)| Finding {
            path: GLOSSARY.to_owned(),
            line: 1,
            what: format!("the glossary does not define `{term}`"),
            way_out: format!("add a row `| {term} | … |`"),
        })
        .collect()
}

fn has_word(text: &str, word: &str) -> bool {
    let is_part = |c: char| c.is_alphanumeric() || c == '_';
    text.match_indices(word).any(|(start, _)| {
        let (before, after) = (&text[..start], &text[start + word.len()..]);
        !before.ends_with(is_part) && !after.starts_with(is_part)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(files: &[(&str, &str)]) -> Vec<(String, usize, String)> {
        let findings = check(&Tree::of(files)).into_iter();
        findings.map(|it| (it.path, it.line, it.what)).collect()
    }

    fn vague(path: &str, line: usize, word: &str) -> (String, usize, String) {
        (path.to_owned(), line, format!("`{word}` is vague"))
    }

    #[test]
    fn vague_words_are_found_in_sources_tests_sql_templates_and_guides() {
        let files = [
            ("crates/core/src/a.rs", "//! Leases.\n// Whoever claims: at most so many.\n"),
            ("crates/core/tests/b.rs", "//! Nobody.\nfn whoever_waits() {}\n"),
            ("crates/engines/local/sql/c.sql", "-- Anybody.\n"),
            ("crates/server/templates/d.html", "<p>Somebody waits.</p>\n"),
            ("crates/server/assets/e.js", "// What users are told.\n"),
            ("docs/f.md", "It looks at jobs.\n"),
        ];
        let expected = [
            vague("crates/core/src/a.rs", 2, "whoever"),
            vague("crates/core/src/a.rs", 2, "so many"),
            vague("crates/core/tests/b.rs", 1, "nobody"),
            vague("crates/core/tests/b.rs", 2, "whoever"),
            vague("crates/engines/local/sql/c.sql", 1, "anybody"),
            vague("crates/server/templates/d.html", 1, "somebody"),
            vague("crates/server/assets/e.js", 1, "told"),
            vague("docs/f.md", 1, "looks at"),
        ];
        assert_eq!(found(&files), expected);
    }

    #[test]
    fn vague_words_are_found_in_messages() {
        let files = [
            ("crates/cli/src/a.rs", "    /// At most so many jobs.\n"),
            ("crates/core/src/b.rs", "#[error(\"mend the reason\")]\n"),
            ("crates/server/src/c.rs", "warn!(?error, \"nobody\n    answers\");\n"),
        ];
        let expected = [
            vague("crates/cli/src/a.rs", 1, "so many"),
            vague("crates/core/src/b.rs", 1, "mend"),
            vague("crates/server/src/c.rs", 1, "nobody"),
        ];
        assert_eq!(found(&files), expected);
    }

    #[test]
    fn identifiers_code_spans_and_parts_of_words_are_not_prose() {
        let source = "//! Amended by `nobody`.\nlet told = somebody(\"{told:?}\");\n";
        assert_eq!(found(&[("crates/core/src/a.rs", source)]), []);
    }

    #[test]
    fn foreign_terms_are_found_in_help_texts_errors_and_log_lines() {
        let files = [
            ("crates/cli/src/a.rs", "    /// Jobs to dequeue.\n"),
            ("crates/core/src/b.rs", "bail!(\"no consumer\");\n// A consumer.\n"),
            ("crates/core/tests/c.rs", "assert!(ok, \"no consumer\");\n"),
        ];
        let expected = [
            ("crates/cli/src/a.rs".to_owned(), 1, "`dequeue` is not our term".to_owned()),
            ("crates/core/src/b.rs".to_owned(), 1, "`consumer` is not our term".to_owned()),
        ];
        assert_eq!(found(&files), expected);
    }

    #[test]
    fn a_recommended_term_must_be_in_the_glossary() {
        let terms = ["claim", "worker", "lease", "dead letter", "retry", "replay", "unique key"];
        let rows = |terms: &[&str]| {
            terms.iter().map(|term| format!("| {term} | meaning |\n")).collect::<String>()
        };
        assert_eq!(found(&[(GLOSSARY, &rows(&terms))]), []);
        let missing = (GLOSSARY.to_owned(), 1, "the glossary does not define `lease`".to_owned());
        let without: Vec<&str> = terms.into_iter().filter(|term| *term != "lease").collect();
        assert_eq!(found(&[(GLOSSARY, &rows(&without))]), [missing]);
    }
}
