//! The prose in a file: text that people read, without the identifiers around it.

use super::tree::File;

/// A piece of prose and the line at which it begins.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Prose {
    pub(super) line: usize,
    pub(super) kind: Kind,
    pub(super) text: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// A line of a comment, a guide, a template or a query.
    Text,
    /// A documentation comment, which may become a help text.
    Doc,
    /// A string literal: an error, a log line, a help text.
    Message,
    /// The words of a function's name.
    Name,
}

/// The prose of a file. In Rust: comments, string literals and function names; in other files: every line.
pub(super) fn of(file: &File) -> Vec<Prose> {
    if file.has_extension(&["rs"]) {
        return of_rust(&file.text);
    }
    let lines = file.lines().map(|(line, text)| (line, without_code(text)));
    lines.map(|(line, text)| Prose { line, kind: Kind::Text, text }).collect()
}

/// A line without its `code spans`: they quote names and commands.
fn without_code(line: &str) -> String {
    line.split('`').step_by(2).collect::<Vec<_>>().join(" ")
}

fn of_rust(text: &str) -> Vec<Prose> {
    let mut found = Vec::new();
    let (mut rest, mut line) = (text, 1);
    while let Some(at) = rest.find(['/', '"', '\'', 'f', 'r']) {
        line += newlines(&rest[..at]);
        let after_word = rest[..at].ends_with(|c: char| c.is_alphanumeric() || c == '_');
        rest = &rest[at..];
        let (length, prose) = match token(rest) {
            Some((length, prose)) if !after_word || rest.starts_with(['"', '\'']) => {
                (length, prose)
            }
            _ => (1, None),
        };
        found.extend(prose.map(|(kind, text)| Prose { line, kind, text }));
        line += newlines(&rest[..length]);
        rest = &rest[length..];
    }
    found
}

/// The comment, literal or function name at the start of the text: its length, and its prose.
fn token(rest: &str) -> Option<(usize, Option<(Kind, String)>)> {
    if rest.starts_with("//") {
        let comment = rest.split('\n').next().unwrap_or(rest);
        let is_doc = comment.starts_with("///") || comment.starts_with("//!");
        let kind = if is_doc { Kind::Doc } else { Kind::Text };
        return Some((comment.len(), Some((kind, without_code(comment)))));
    }
    if let Some(raw) = rest.strip_prefix('r') {
        let hashes = raw.len() - raw.trim_start_matches('#').len();
        let content = raw[hashes..].strip_prefix('"')?;
        let length = content.find(&format!("\"{}", "#".repeat(hashes)))?;
        let text = message(&content[..length]);
        return Some((hashes * 2 + 3 + length, Some((Kind::Message, text))));
    }
    if let Some(content) = rest.strip_prefix('"') {
        let length = end_of_string(content)?;
        return Some((length + 2, Some((Kind::Message, message(&content[..length])))));
    }
    if rest.starts_with('\'') {
        return Some((end_of_char(rest)?, None));
    }
    let name = rest.strip_prefix("fn ")?;
    let name = name.split(|c: char| !(c.is_alphanumeric() || c == '_')).next()?;
    Some((3 + name.len(), Some((Kind::Name, name.replace('_', " ")))))
}

/// The position of the closing quote.
fn end_of_string(content: &str) -> Option<usize> {
    let mut escaped = false;
    content.char_indices().find_map(|(at, c)| {
        let ends = c == '"' && !escaped;
        escaped = c == '\\' && !escaped;
        ends.then_some(at)
    })
}

/// The length of a character literal; `None` for a lifetime.
fn end_of_char(rest: &str) -> Option<usize> {
    let content = &rest[1..];
    if content.starts_with('\\') {
        return content[2..].find('\'').map(|at| at + 4);
    }
    let first = content.chars().next()?;
    content[first.len_utf8()..].starts_with('\'').then_some(first.len_utf8() + 2)
}

/// The text of a string literal in one line, without its placeholders.
fn message(literal: &str) -> String {
    let outside = literal.split('{').map(|part| part.rsplit('}').next().unwrap_or(part));
    let text = without_code(&outside.collect::<Vec<_>>().join(" "));
    text.replace("\\n", " ")
        .split_whitespace()
        .filter(|word| *word != "\\")
        .collect::<Vec<_>>()
        .join(" ")
}

fn newlines(text: &str) -> usize {
    text.matches('\n').count()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rust(text: &str) -> Vec<(usize, Kind, String)> {
        of_rust(text).into_iter().map(|it| (it.line, it.kind, it.text)).collect()
    }

    #[test]
    fn comments_strings_and_function_names_of_rust_are_found_with_their_lines() {
        let source = "//! A `code` span.\nfn a_name() {\n    let name = '\"'; // why\n    \
            warn!(\"a \\\"b\\\"\n        c {name:?} d\");\n    r#\"raw \"x\"\"#;\n}\n";
        let expected = [
            (1, Kind::Doc, "//! A   span."),
            (2, Kind::Name, "a name"),
            (3, Kind::Text, "// why"),
            (4, Kind::Message, "a \\\"b\\\" c d"),
            (6, Kind::Message, "raw \"x\""),
        ];
        assert_eq!(rust(source), expected.map(|(line, kind, text)| (line, kind, text.to_owned())));
    }

    #[test]
    fn lifetimes_and_words_that_end_like_tokens_are_no_literals() {
        let source = "fn f<'a>(x: &'a str) -> &'a str { offer(x, '\\'', b\"bytes of it\") }";
        let expected =
            [(1, Kind::Name, "f".to_owned()), (1, Kind::Message, "bytes of it".to_owned())];
        assert_eq!(rust(source), expected);
    }

    #[test]
    fn other_files_are_prose_except_for_code_spans() {
        let file = File { path: "a.md".into(), text: "Use `nobody`\nhere\n".into() };
        let texts: Vec<_> = of(&file).into_iter().map(|it| (it.line, it.text)).collect();
        assert_eq!(texts, [(1, "Use  ".to_owned()), (2, "here".to_owned())]);
    }
}
