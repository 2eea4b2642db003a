//! The nesting depth of JSON. Parsers recurse, and most stop at a depth of 128: one job with more deeply
//! nested bytes makes every response that contains it unreadable, including the other jobs in it.

use crate::error::{Error, Result};
use crate::limits::JSON_DEPTH_MAX;

/// The depth of these bytes if they are JSON nested more deeply than [`JSON_DEPTH_MAX`]; `None` otherwise.
///
/// One pass over the bytes without recursion or allocation, and a second one only if brackets nest too
/// deeply: bytes that are not JSON may contain any number of brackets.
pub fn too_deep(bytes: &[u8]) -> Option<usize> {
    let text = bytes.trim_ascii_start();
    if !matches!(text.first(), Some(b'[' | b'{')) {
        return None;
    }
    let depth = deepest(text);
    (depth > JSON_DEPTH_MAX && looks_like_json(text)).then_some(depth)
}

/// Refuses JSON that is nested too deeply.
pub(crate) fn check_depth(field: &'static str, bytes: &[u8]) -> Result<()> {
    match too_deep(bytes) {
        None => Ok(()),
        Some(depth) => Err(Error::invalid(
            field,
            format!("JSON nested {depth} levels deep"),
            format!(
                "nest at most {JSON_DEPTH_MAX} levels: flatten it, or put the inner part into a string"
            ),
        )),
    }
}

/// The effect of a byte of JSON on the nesting.
#[derive(PartialEq, Eq)]
enum Token {
    Open,
    Close,
    /// Anything else outside of a string.
    Other(u8),
    /// A byte of a string, with its quotes.
    InString,
}

/// Calls `seen` for each byte; returns whether the text ends outside of a string.
fn scan(text: &[u8], mut seen: impl FnMut(Token)) -> bool {
    let (mut in_string, mut escaped) = (false, false);
    for &byte in text {
        let token = match byte {
            _ if escaped => {
                escaped = false;
                Token::InString
            }
            b'\\' if in_string => {
                escaped = true;
                Token::InString
            }
            b'"' => {
                in_string = !in_string;
                Token::InString
            }
            _ if in_string => Token::InString,
            b'[' | b'{' => Token::Open,
            b']' | b'}' => Token::Close,
            other => Token::Other(other),
        };
        seen(token);
    }
    !in_string
}

/// The highest number of brackets that are open at the same time.
fn deepest(text: &[u8]) -> usize {
    let (mut depth, mut deepest) = (0usize, 0);
    scan(text, |token| match token {
        Token::Open => {
            depth += 1;
            deepest = deepest.max(depth);
        }
        Token::Close => depth = depth.saturating_sub(1),
        Token::Other(_) | Token::InString => {}
    });
    deepest
}

/// Whether the brackets balance at the end and only there, and all other bytes outside of strings are valid
/// in JSON.
fn looks_like_json(text: &[u8]) -> bool {
    let (mut depth, mut ended, mut good) = (0usize, false, true);
    let closed = scan(text.trim_ascii_end(), |token| {
        good &= !ended;
        match token {
            Token::Open => depth += 1,
            Token::Close => {
                depth = depth.saturating_sub(1);
                ended = depth == 0;
            }
            Token::Other(byte) => {
                good &= byte.is_ascii_alphanumeric() || b" \t\r\n,:+-.".contains(&byte);
            }
            Token::InString => {}
        }
    });
    good && closed && ended && std::str::from_utf8(text).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn nested(depth: usize) -> String {
        format!("{}{}", "[".repeat(depth), "]".repeat(depth))
    }

    #[test]
    fn json_is_refused_one_level_beyond_the_limit() {
        let objects = |depth| format!("{}0{}", r#"{"a":"#.repeat(depth), "}".repeat(depth));
        for text in [nested, objects].map(|make: fn(usize) -> String| make) {
            check_depth("payload", text(JSON_DEPTH_MAX).as_bytes()).unwrap();
            let error = check_depth("payload", text(JSON_DEPTH_MAX + 1).as_bytes()).unwrap_err();
            assert_eq!(error.field(), Some("payload"));
            assert!(error.to_string().contains("101 levels"), "{error}");
            assert!(error.to_string().contains("at most 100"), "{error}");
        }
        let padded = format!(" \n{}\t", nested(10_000));
        assert_eq!(too_deep(padded.as_bytes()), Some(10_000));
    }

    #[test]
    fn brackets_in_strings_and_side_by_side_do_not_count() {
        let quoted = format!(r#"["{}\"{}"]"#, "[".repeat(500), "{".repeat(500));
        assert_eq!(too_deep(quoted.as_bytes()), None);
        let beside = format!("[{}[]]", "[],".repeat(500));
        assert_eq!(too_deep(beside.as_bytes()), None);
    }

    #[test]
    fn bytes_that_are_not_json_may_contain_any_number_of_brackets() {
        let open = "[".repeat(500);
        let strange = format!("{}\u{1}{}", "[".repeat(500), "]".repeat(500));
        let twice = format!("{}{}", nested(500), nested(500));
        let text = format!("x{}", nested(500));
        for bytes in [open, strange, twice, text] {
            assert_eq!(too_deep(bytes.as_bytes()), None, "{bytes:.20}");
        }
        let mut binary = nested(500).into_bytes();
        binary.insert(500, 0xff);
        assert_eq!(too_deep(&binary), None);
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..Default::default() })]

        #[test]
        fn json_deeper_than_a_parser_with_128_levels_reads_is_too_deep(
            levels in proptest::collection::vec(any::<bool>(), 1..300),
        ) {
            let open: String = levels.iter().map(|array| if *array { "[" } else { r#"{"[":"# }).collect();
            let close: String = levels.iter().rev().map(|array| if *array { "]" } else { "}" }).collect();
            let text = format!("{open}\"]\"{close}");
            let readable = serde_json::from_str::<serde_json::Value>(&text).is_ok();
            prop_assert_eq!(too_deep(text.as_bytes()), (levels.len() > JSON_DEPTH_MAX).then_some(levels.len()));
            prop_assert!(readable || too_deep(text.as_bytes()).is_some());
        }
    }
}
