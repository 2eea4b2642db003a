//! Parses durations: `500ms`, `30s`, `1h30m`, `7d`.

/// The expected form, for error messages.
pub(crate) const FORM: &str =
    "write numbers with units, such as \"500ms\", \"30s\", \"5m\", \"1h30m\" or \"7d\"";

/// Milliseconds of `text`; `None` if it is not a duration or does not fit.
pub(crate) fn parse_ms(text: &str) -> Option<u64> {
    let mut rest = text.trim();
    let mut total: u64 = 0;
    if rest.is_empty() {
        return None;
    }
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit())?;
        let number: u64 = rest[..digits].parse().ok()?;
        rest = &rest[digits..];
        let unit = rest.find(|c: char| !c.is_ascii_alphabetic()).unwrap_or(rest.len());
        total = total.checked_add(number.checked_mul(unit_ms(&rest[..unit])?)?)?;
        rest = &rest[unit..];
    }
    Some(total)
}

fn unit_ms(unit: &str) -> Option<u64> {
    Some(match unit {
        "ms" => 1,
        "s" => 1_000,
        "m" => 60_000,
        "h" => 3_600_000,
        "d" => 86_400_000,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_read_as_people_write_them() {
        let read = [("500ms", 500), ("30s", 30_000), ("1h30m", 5_400_000), (" 7d ", 604_800_000)];
        for (text, ms) in read {
            assert_eq!(parse_ms(text), Some(ms), "{text}");
        }
    }

    #[test]
    fn missing_and_unknown_units_are_refused() {
        for text in ["", "30", "30 s", "s", "1w", "1.5h", "-1s", "99999999999999999999d", "30s5"] {
            assert_eq!(parse_ms(text), None, "{text}");
        }
    }
}
