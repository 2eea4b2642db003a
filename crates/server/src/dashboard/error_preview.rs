//! The part of an error that a table shows. Tracebacks name the cause at their end, after the
//! stack frames (Python), or before them (Java, JavaScript).

use windlass_core::model::JobError;

/// Maximum characters of a preview.
const CHARS_MAX: usize = 200;
/// Maximum lines of a preview.
const LINES_MAX: usize = 3;

/// The code of an error, and the end of its message without stack frames.
pub(super) fn error_preview(error: &JobError) -> String {
    let lines: Vec<&str> = error.message.lines().filter(|line| !line.trim().is_empty()).collect();
    let ending = ending(&lines);
    let start = if ending.len() < lines.len() { "… " } else { "" };
    shortened(&format!("{}: {start}{}", error.code, ending.join("\n")))
}

/// The last unindented line, and those directly before it. Stack frames are indented.
fn ending<'a>(lines: &[&'a str]) -> Vec<&'a str> {
    let is_frame = |line: &str| line.starts_with([' ', '\t']);
    let frames = lines.iter().rev().take_while(|line| is_frame(line)).count();
    // A message of indented lines only has no frames.
    let end = if frames < lines.len() { lines.len() - frames } else { frames };
    let first = &lines[end.saturating_sub(LINES_MAX)..end];
    let shown = first.iter().rev().take_while(|line| frames == lines.len() || !is_frame(line));
    let mut shown: Vec<&str> = shown.map(|line| line.trim()).collect();
    shown.reverse();
    shown
}

fn shortened(text: &str) -> String {
    let mut chars = text.chars();
    let mut short: String = chars.by_ref().take(CHARS_MAX).collect();
    if chars.next().is_some() {
        short.push('…');
    }
    short
}

#[cfg(test)]
mod tests {
    use super::*;

    fn preview(message: &str) -> String {
        error_preview(&JobError::new("code", message))
    }

    #[test]
    fn the_cause_of_a_traceback_is_shown() {
        let python = "Traceback (most recent call last):\n  File \"a.py\", line 1, in <module>\n    \
                      boom()\nValueError: no such user\n";
        assert_eq!(preview(python), "code: … ValueError: no such user");
        let java = "java.lang.RuntimeException: outer\n\tat a.B.c(B.java:1)\n\
                    Caused by: java.io.IOException: disk full\n\tat d.E.f(E.java:2)\n\t... 3 more";
        assert_eq!(preview(java), "code: … Caused by: java.io.IOException: disk full");
        assert_eq!(preview("Error: boom\n    at f (a.js:1:2)"), "code: … Error: boom");
    }

    #[test]
    fn short_messages_are_shown_as_they_are() {
        assert_eq!(preview("try later"), "code: try later");
        assert_eq!(preview("one\ntwo\nthree"), "code: one\ntwo\nthree");
        assert_eq!(preview("zero\none\ntwo\nthree"), "code: … one\ntwo\nthree");
        assert_eq!(preview(""), "code: ");
        assert_eq!(preview("  indented\n  only"), "code: indented\nonly");
        let long = preview(&"x".repeat(5_000));
        assert_eq!(long.chars().count(), CHARS_MAX + 1);
    }
}
