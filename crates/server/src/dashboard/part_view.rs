//! Displays the parts of a job: JSON indented, text unchanged, other bytes as hex. The displayed
//! size is limited; a link leads to the whole part.

use super::format::size;
use serde::de::IgnoredAny;
use windlass_core::JobId;
use windlass_core::model::{Codec, Location, Part};

/// Maximum bytes of text to display.
const TEXT_BYTES_MAX: usize = 16 * 1024;
/// Maximum bytes of binary data to display.
const BINARY_BYTES_MAX: usize = 64;

/// A part of a job.
#[derive(Debug)]
pub(super) struct PartView {
    pub(super) name: &'static str,
    pub(super) size: String,
    /// The type of the bytes, and their encoding and location.
    pub(super) what: String,
    pub(super) text: String,
    /// Whether the displayed text is truncated.
    pub(super) cut: bool,
    /// URL of the whole part.
    pub(super) href: String,
}

impl PartView {
    pub(super) fn new(id: JobId, name: &'static str, part: &Part) -> Self {
        let bytes = &*part.bytes;
        let (what, (text, cut)) = match (part.envelope(), std::str::from_utf8(bytes)) {
            (Some(envelope), _) => {
                let mut what = match &envelope.codec {
                    Codec::Plain => "sealed".to_owned(),
                    Codec::Zstd => "zstd".to_owned(),
                    Codec::Other(name) => name.clone(),
                    _ => "sealed".to_owned(),
                };
                if let Location::At(address) = &envelope.location {
                    what = format!("{what}, at {address}");
                }
                if let Some(key) = &envelope.key_id {
                    what = format!("{what}, key {key}");
                }
                (what, hex(bytes))
            }
            (None, Ok(text)) if is_json(bytes) => ("JSON".to_owned(), laid_out(text)),
            (None, Ok(text)) if is_readable(text) => ("text".to_owned(), shortened(text)),
            (None, _) => ("binary".to_owned(), hex(bytes)),
        };
        let query = if name == "result" { String::new() } else { format!("?parts={name}") };
        Self {
            name,
            size: size(bytes.len()),
            what,
            text,
            cut,
            href: format!("/v1/jobs/{id}{query}"),
        }
    }
}

fn is_json(bytes: &[u8]) -> bool {
    serde_json::from_slice::<IgnoredAny>(bytes).is_ok()
}

fn is_readable(text: &str) -> bool {
    !text.chars().any(|c| c.is_control() && !matches!(c, '\n' | '\r' | '\t'))
}

fn shortened(text: &str) -> (String, bool) {
    let end = text.floor_char_boundary(TEXT_BYTES_MAX);
    (text[..end].to_owned(), end < text.len())
}

fn hex(bytes: &[u8]) -> (String, bool) {
    let shown: Vec<_> =
        bytes.iter().take(BINARY_BYTES_MAX).map(|byte| format!("{byte:02x}")).collect();
    let lines: Vec<_> = shown.chunks(16).map(|line| line.join(" ")).collect();
    (lines.join("\n"), bytes.len() > BINARY_BYTES_MAX)
}

/// Indents JSON without other changes: the order of keys and the digits of numbers are preserved.
/// The text must be valid JSON.
fn laid_out(json: &str) -> (String, bool) {
    let mut out = String::new();
    let (mut depth, mut in_text, mut escaped) = (0_usize, false, false);
    let mut chars = json.chars().peekable();
    while let Some(c) = chars.next() {
        if out.len() >= TEXT_BYTES_MAX {
            return (out, true);
        }
        if in_text {
            out.push(c);
            in_text = escaped || c != '"';
            escaped = !escaped && c == '\\';
            continue;
        }
        match c {
            '"' => {
                in_text = true;
                out.push(c);
            }
            '{' | '[' => {
                out.push(c);
                while chars.next_if(|next| next.is_ascii_whitespace()).is_some() {}
                match chars.next_if(|next| matches!(next, '}' | ']')) {
                    Some(close) => out.push(close),
                    None => {
                        depth += 1;
                        line(&mut out, depth);
                    }
                }
            }
            '}' | ']' => {
                depth = depth.saturating_sub(1);
                line(&mut out, depth);
                out.push(c);
            }
            ',' => {
                out.push(c);
                line(&mut out, depth);
            }
            ':' => out.push_str(": "),
            c if c.is_ascii_whitespace() => {}
            c => out.push(c),
        }
    }
    (out, false)
}

fn line(out: &mut String, depth: usize) {
    out.push('\n');
    (0..depth).for_each(|_| out.push_str("  "));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_is_laid_out_and_otherwise_kept_to_the_byte() {
        let json = r#"{"z":1.10, "a": ["x, {y}", "\"\\"] ,"e":{ },"n":12345678901234567890}"#;
        let expected = "{\n  \"z\": 1.10,\n  \"a\": [\n    \"x, {y}\",\n    \"\\\"\\\\\"\n  ],\n  \
                        \"e\": {},\n  \"n\": 12345678901234567890\n}";
        assert_eq!(laid_out(json), (expected.to_owned(), false));
    }

    #[test]
    fn the_shown_part_is_bounded_for_any_content() {
        let json = format!("[{}1]", "[],".repeat(20_000));
        let (text, cut) = laid_out(&json);
        assert!(cut && text.len() < TEXT_BYTES_MAX + 512);
        assert!(shortened(&"ü".repeat(20_000)).1);
        assert_eq!(hex(&[0, 255, 16]), ("00 ff 10".to_owned(), false));
    }

    #[test]
    fn bytes_are_called_what_they_are() {
        let id = "0199b2c8-0000-7000-8000-000000000000".parse().unwrap();
        let what = |bytes: &'static [u8]| PartView::new(id, "payload", &Part::new(bytes)).what;
        assert_eq!((what(b"{}"), what(b"hello there")), ("JSON".into(), "text".into()));
        assert_eq!((what(b"\x00\x01"), what(b"\xff")), ("binary".into(), "binary".into()));
    }
}
