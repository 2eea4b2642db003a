//! Parses backoffs: `exponential(30s, 1h)`, `fixed(10s, jitter 1s)`.

use crate::duration::{self, parse_ms};
use crate::limits::{BACKOFF_JITTER_DEFAULT_MS, BACKOFF_MAX_MS};

/// The expected form, for error messages.
const FORM: &str = "write \"exponential(30s, 1h)\" for first delay and longest, or \"fixed(10s)\"; \
                    both take a jitter, as in \"fixed(10s, jitter 1s)\"";

/// A backoff in milliseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Backoff {
    Exponential { base_ms: u64, cap_ms: u64, jitter_ms: u64 },
    Fixed { delay_ms: u64, jitter_ms: u64 },
}

/// Parses a backoff; the error says what is wrong and what the expected form is.
pub(crate) fn parse(text: &str) -> Result<Backoff, String> {
    let wrong = || format!("{text:?} is not a backoff: {FORM}");
    let (name, rest) = text.trim().split_once('(').ok_or_else(wrong)?;
    let inside = rest.strip_suffix(')').ok_or_else(wrong)?;
    let mut parts: Vec<&str> = inside.split(',').map(str::trim).collect();
    let jitter = parts.last().and_then(|last| last.strip_prefix("jitter ")).map(str::trim);
    if jitter.is_some() {
        parts.pop();
    }
    let backoff = match (name.trim(), parts.as_slice()) {
        ("exponential", [base, cap]) => {
            let (base_ms, cap_ms) = (delay(base)?, delay(cap)?);
            let jitter_ms = jitter.map_or(Ok(usual_jitter_ms(base_ms)), delay)?;
            Backoff::Exponential { base_ms, cap_ms, jitter_ms }
        }
        ("fixed", [fixed]) => {
            let delay_ms = delay(fixed)?;
            let jitter_ms = jitter.map_or(Ok(usual_jitter_ms(delay_ms)), delay)?;
            Backoff::Fixed { delay_ms, jitter_ms }
        }
        _ => return Err(wrong()),
    };
    match backoff {
        Backoff::Exponential { base_ms, cap_ms, .. } if cap_ms < base_ms => {
            Err(format!("in {text:?} the longest delay is shorter than the first one"))
        }
        _ => Ok(backoff),
    }
}

/// The default jitter: half of the first delay, at most the default of the contract.
fn usual_jitter_ms(delay_ms: u64) -> u64 {
    (delay_ms / 2).min(BACKOFF_JITTER_DEFAULT_MS)
}

fn delay(text: &str) -> Result<u64, String> {
    let ms =
        parse_ms(text).ok_or_else(|| format!("{text:?} is not a duration: {}", duration::FORM))?;
    if ms > BACKOFF_MAX_MS {
        return Err(format!("a delay of {text:?} is longer than the limit of 365d"));
    }
    Ok(ms)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_forms_are_read_with_and_without_jitter() {
        let exponential =
            Backoff::Exponential { base_ms: 30_000, cap_ms: 3_600_000, jitter_ms: 15_000 };
        assert_eq!(parse("exponential(30s, 1h)"), Ok(exponential));
        assert_eq!(parse("fixed(1s)"), Ok(Backoff::Fixed { delay_ms: 1_000, jitter_ms: 500 }));
        let exact = Backoff::Fixed { delay_ms: 1_000, jitter_ms: 0 };
        assert_eq!(parse(" fixed( 1s , jitter 0s ) "), Ok(exact));
    }

    #[test]
    fn errors_show_the_form_to_write() {
        let wrong = |text| parse(text).unwrap_err();
        assert!(wrong("linear(1s)").contains("exponential(30s, 1h)"));
        assert!(wrong("exponential(30s)").contains("is not a backoff"));
        assert!(wrong("fixed(10)").contains("\"10\" is not a duration"));
        assert!(wrong("exponential(1h, 30s)").contains("shorter"));
        assert!(wrong("fixed(366d)").contains("365d"));
    }
}
