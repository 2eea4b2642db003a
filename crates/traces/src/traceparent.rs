//! The text form of a trace context, W3C Trace Context version 00: `00-<trace: 32 digits>-<parent: 16
//! digits>-<flags: 2 digits>`, with lower-case hexadecimal digits.

use opentelemetry::trace::{SpanContext, SpanId, TraceFlags, TraceId, TraceState};

/// Parses a remote span context; `None` if the text is invalid and must be ignored.
pub(crate) fn read(text: &str) -> Option<SpanContext> {
    let mut fields = text.split('-');
    let (version, trace) = (fields.next()?, fields.next()?);
    let (parent, flags) = (fields.next()?, fields.next()?);
    if version != "00" || fields.next().is_some() {
        return None;
    }
    let trace = TraceId::from_bytes(digits(trace)?);
    let parent = SpanId::from_bytes(digits(parent)?);
    let [flags] = digits(flags)?;
    // Flags unknown to this version are not propagated.
    let flags = TraceFlags::new(flags) & TraceFlags::SAMPLED;
    let context = SpanContext::new(trace, parent, flags, true, TraceState::default());
    // Neither id may be all zeros.
    context.is_valid().then_some(context)
}

/// Formats a context.
pub(crate) fn write(context: &SpanContext) -> String {
    let sampled = u8::from(context.is_sampled());
    format!("00-{}-{}-{sampled:02x}", context.trace_id(), context.span_id())
}

/// Parses exactly `BYTES` bytes, two digits each.
fn digits<const BYTES: usize>(text: &str) -> Option<[u8; BYTES]> {
    let digit = |byte: u8| match byte {
        b'0'..=b'9' => Some(byte - b'0'),
        b'a'..=b'f' => Some(byte - b'a' + 10),
        _ => None,
    };
    let (pairs, []) = text.as_bytes().as_chunks::<2>() else { return None };
    let mut bytes = [0; BYTES];
    if pairs.len() != BYTES {
        return None;
    }
    for (byte, [high, low]) in bytes.iter_mut().zip(pairs) {
        *byte = (digit(*high)? << 4) | digit(*low)?;
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";
    const PARENT: &str = "00f067aa0ba902b7";

    #[test]
    fn a_trace_context_is_written_as_it_was_read() {
        for flags in ["00", "01"] {
            let text = format!("00-{TRACE}-{PARENT}-{flags}");
            let context = read(&text).unwrap();
            assert!(context.is_remote());
            assert_eq!(context.is_sampled(), flags == "01");
            assert_eq!(write(&context), text);
        }
    }

    #[test]
    fn unknown_flags_are_accepted_and_not_forwarded() {
        let context = read(&format!("00-{TRACE}-{PARENT}-ff")).unwrap();
        assert_eq!(write(&context), format!("00-{TRACE}-{PARENT}-01"));
    }

    #[test]
    fn an_invalid_trace_context_is_none() {
        let upper = TRACE.to_uppercase();
        let (no_trace, no_parent) = ("0".repeat(32), "0".repeat(16));
        let wrong = [
            String::new(),
            "00".to_owned(),
            "no-trace-at-all".to_owned(),
            format!("00-{TRACE}-{PARENT}"),
            format!("00-{TRACE}-{PARENT}-1"),
            format!("00-{TRACE}-{PARENT}-001"),
            format!("00-{TRACE}-{PARENT}-01-more"),
            format!("00-{TRACE}-{PARENT}-01 "),
            format!("01-{TRACE}-{PARENT}-01"),
            format!("ff-{TRACE}-{PARENT}-01"),
            format!("0-{TRACE}-{PARENT}-01"),
            format!("00-{upper}-{PARENT}-01"),
            format!("00-+{}-{PARENT}-01", &TRACE[1..]),
            format!("00-{}-{PARENT}-01", &TRACE[1..]),
            format!("00-{TRACE}-{}-01", &PARENT[1..]),
            format!("00-{TRACE}-{PARENT}0-01"),
            format!("00-{no_trace}-{PARENT}-01"),
            format!("00-{TRACE}-{no_parent}-01"),
            format!("00-{TRACE}-{PARENT}-é"),
        ];
        for text in wrong {
            assert!(read(&text).is_none(), "{text}");
        }
    }
}
