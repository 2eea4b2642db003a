//! Parses values of the command line: durations, sizes, times, and limits that can be removed.

use std::str::FromStr;
use std::time::Duration;
use windlass_core::Timestamp;
use windlass_core::engine::Field;
use windlass_core::limits::CHECK_PER_MILLE;
use windlass_core::model::Order;
use windlass_core::policy::Backoff;
use windlass_core::time::InvalidTime;

/// Units of time, in milliseconds.
pub(crate) const TIME_UNITS: [(&str, u64); 6] = [
    ("ms", 1),
    ("s", 1_000),
    ("m", 60_000),
    ("h", 3_600_000),
    ("d", 86_400_000),
    ("w", 604_800_000),
];
/// Units of size, in bytes.
pub(crate) const SIZE_UNITS: [(&str, u64); 4] =
    [("K", 1 << 10), ("M", 1 << 20), ("G", 1 << 30), ("T", 1 << 40)];

/// Parses a rate such as `100/1m`: a number, and a period in milliseconds.
pub(crate) fn rate(text: &str) -> Result<(u32, u64), String> {
    let wrong = || format!("invalid rate {text:?} (try 100/1m, 5/1s)");
    let (amount, per) = text.split_once('/').ok_or_else(wrong)?;
    let amount = amount.trim().parse().map_err(|_| wrong())?;
    Ok((amount, duration_ms(per.trim())?))
}

/// Parses a duration: `500ms`, `10s`, `5m`, `1h30m`, `7d`.
pub(crate) fn duration(text: &str) -> Result<Duration, String> {
    let wrong = || format!("invalid duration {text:?}; write it like 500ms, 10s, 5m, 1h30m or 7d");
    let (mut rest, mut total) = (text, 0_u64);
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit()).ok_or_else(wrong)?;
        let (number, unit) = rest.split_at(digits);
        let end = unit.find(|c: char| c.is_ascii_digit()).unwrap_or(unit.len());
        let (unit, after) = unit.split_at(end);
        let (_, ms) = TIME_UNITS.iter().find(|(name, _)| *name == unit).ok_or_else(wrong)?;
        let number: u64 = number.parse().map_err(|_| wrong())?;
        total = number.checked_mul(*ms).and_then(|ms| total.checked_add(ms)).ok_or_else(wrong)?;
        rest = after;
    }
    if text.is_empty() { Err(wrong()) } else { Ok(Duration::from_millis(total)) }
}

/// Parses a duration into milliseconds.
pub(crate) fn duration_ms(text: &str) -> Result<u64, String> {
    duration(text).map(|time| u64::try_from(time.as_millis()).unwrap_or(u64::MAX))
}

/// Parses the delay after a failure: `10s` (always), `10s..1h` (doubling up to the second), each with an optional
/// jitter at the end, as in `10s..1h~5s`.
pub(crate) fn backoff(text: &str) -> Result<Backoff, String> {
    let wrong = |_| format!("invalid backoff {text:?}; write it like 10s, 10s..1h or 10s..1h~5s");
    let (delay, jitter) = text.split_once('~').unwrap_or((text, "0s"));
    let jitter_ms = duration_ms(jitter).map_err(wrong)?;
    match delay.split_once("..") {
        Some((base, cap)) => {
            let (base_ms, cap_ms) = (duration_ms(base), duration_ms(cap));
            let (base_ms, cap_ms) = (base_ms.map_err(wrong)?, cap_ms.map_err(wrong)?);
            Ok(Backoff::Exponential { base_ms, cap_ms, jitter_ms })
        }
        None => Ok(Backoff::Fixed { delay_ms: duration_ms(delay).map_err(wrong)?, jitter_ms }),
    }
}

/// Parses a size in bytes: `65536`, `512K`, `64M`, `2G`.
pub(crate) fn bytes(text: &str) -> Result<u64, String> {
    let wrong = || format!("invalid size {text:?}; write it like 65536, 512K, 64M or 2G");
    let unit = SIZE_UNITS.iter().find(|(name, _)| text.ends_with(name));
    let (number, unit) =
        unit.map_or((text, 1), |(name, unit)| (text.trim_end_matches(name), *unit));
    number.parse::<u64>().ok().and_then(|number| number.checked_mul(unit)).ok_or_else(wrong)
}

/// Parses a share in percent, with up to one decimal, as a number out of 1,000.
pub(crate) fn per_mille(text: &str) -> Result<u32, String> {
    let wrong = || format!("invalid share {text:?}; write it in percent, from 0.1% to 100%");
    let number = text.strip_suffix('%').ok_or_else(wrong)?;
    let (whole, tenths) = number.split_once('.').unwrap_or((number, "0"));
    let is_number = |part: &str, length| {
        (1..=length).contains(&part.len()) && part.bytes().all(|byte| byte.is_ascii_digit())
    };
    if !is_number(whole, 3) || !is_number(tenths, 1) {
        return Err(wrong());
    }
    let share = format!("{whole}{tenths}").parse().map_err(|_| wrong())?;
    if CHECK_PER_MILLE.contains(&u64::from(share)) { Ok(share) } else { Err(wrong()) }
}

/// Parses a time in RFC 3339 format.
pub(crate) fn instant(text: &str) -> Result<Timestamp, String> {
    text.parse().map_err(|error: InvalidTime| error.to_string())
}

/// A time: absolute, or relative to now on the store's clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum When {
    At(Timestamp),
    Ago(u64),
    Ahead(u64),
}

impl When {
    /// The time, if it is `now`.
    pub(crate) const fn at(self, now: Timestamp) -> Timestamp {
        match self {
            Self::At(at) => at,
            Self::Ago(ms) => now.minus(ms),
            Self::Ahead(ms) => now.plus(ms),
        }
    }
}

/// Parses a time: `2030-01-31T09:00:00Z`, `1h` (an hour ago), `+1h` (in an hour) or `now`.
pub(crate) fn when(text: &str) -> Result<When, String> {
    let relative = match text.strip_prefix('+') {
        Some(ahead) => duration_ms(ahead).map(When::Ahead),
        None if text == "now" => Ok(When::Ago(0)),
        None => duration_ms(text).map(When::Ago),
    };
    relative.or_else(|_| instant(text).map(When::At)).map_err(|_| {
        format!(
            "invalid time {text:?}; write it like 2030-01-31T09:00:00Z, 1h (an hour ago) or +1h (in an hour)"
        )
    })
}

/// Parses a field and its value: `payload.customer=42`.
pub(crate) fn field(text: &str) -> Result<(Field, String), String> {
    let Some((field, value)) = text.split_once('=') else {
        return Err(format!("invalid condition {text:?}; write it like payload.customer=42"));
    };
    let field = field.parse().map_err(|error: windlass_core::Error| error.to_string())?;
    Ok((field, value.to_owned()))
}

/// Parses the order of ready jobs: `strict`, `lifo`, `fair`, `ageing=10s`.
pub(crate) fn order(text: &str) -> Result<Order, String> {
    match text.split_once('=') {
        None if text == "strict" => Ok(Order::Strict),
        None if text == "lifo" => Ok(Order::Lifo),
        None if text == "fair" => Ok(Order::Fair),
        Some(("ageing", time)) => duration_ms(time).map(|quantum_ms| Order::Ageing { quantum_ms }),
        _ => Err(format!("unknown order {text:?}; use strict, lifo, fair or ageing=TIME")),
    }
}

/// A limit; `None` removes it, which is written `none`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Limit<T>(pub(crate) Option<T>);

/// Parses a count, or `none`.
pub(crate) fn count_limit<T: FromStr>(text: &str) -> Result<Limit<T>, String> {
    if text == "none" {
        return Ok(Limit(None));
    }
    let wrong =
        || format!("invalid limit {text:?}; write a whole number, or `none` to remove the limit");
    text.parse().map(|count| Limit(Some(count))).map_err(|_| wrong())
}

/// Parses a size in bytes, or `none`.
pub(crate) fn bytes_limit(text: &str) -> Result<Limit<u64>, String> {
    if text == "none" { Ok(Limit(None)) } else { bytes(text).map(|bytes| Limit(Some(bytes))) }
}

/// Whether a queue has events, and how many it keeps; `None` for as many as before, or the default.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Events {
    Off,
    On(Option<u64>),
}

/// Parses `on`, `off` or a number of events.
pub(crate) fn events(text: &str) -> Result<Events, String> {
    let wrong = || format!("invalid value {text:?}; write on, off, or how many events to keep");
    match text {
        "off" | "none" => Ok(Events::Off),
        "on" => Ok(Events::On(None)),
        number => number.parse().map(|max| Events::On(Some(max))).map_err(|_| wrong()),
    }
}

/// Parses a duration into milliseconds, or `none`.
pub(crate) fn time_limit(text: &str) -> Result<Limit<u64>, String> {
    match text {
        "none" => Ok(Limit(None)),
        text => duration_ms(text).map(|ms| Limit(Some(ms))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_read_in_percent() {
        for (text, share) in [("10%", 100), ("2.5%", 25), ("0.1%", 1), ("100%", 1_000)] {
            assert_eq!(per_mille(text), Ok(share));
        }
        for wrong in ["", "%", "10", "0%", "0.05%", "101%", "-1%", "1.%", ".5%", "1e1%"] {
            assert!(per_mille(wrong).unwrap_err().contains("in percent"), "{wrong}");
        }
    }

    #[test]
    fn times_are_read_as_people_write_them() {
        assert_eq!(duration("1h30m"), Ok(Duration::from_secs(5_400)));
        assert_eq!(duration("500ms"), Ok(Duration::from_millis(500)));
        for wrong in ["", "10", "h", "10 s", "-1s", "1y", "99999999999999999999s", "1s2"] {
            assert!(duration(wrong).unwrap_err().contains("1h30m"), "{wrong}");
        }
    }

    #[test]
    fn sizes_are_read_as_people_write_them() {
        assert_eq!(bytes("64M"), Ok(64 << 20));
        assert_eq!(bytes("10"), Ok(10));
        for wrong in ["", "M", "64MB", "-1", "99999999T", "1.5G"] {
            assert!(bytes(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn limits_can_be_lifted() {
        assert_eq!(count_limit::<u64>("none"), Ok(Limit(None)));
        assert_eq!(count_limit::<u64>("5"), Ok(Limit(Some(5))));
        assert!(count_limit::<u64>("few").unwrap_err().contains("none"));
        assert_eq!(time_limit("2s"), Ok(Limit(Some(2_000))));
    }

    #[test]
    fn a_condition_has_a_field_and_a_value() {
        let (name, value) = field("payload.customer=a=b").unwrap();
        assert_eq!((&*name.to_string(), &*value), ("payload.customer", "a=b"));
        for bad in ["payload.customer", "customer=1", "blob.x=1", "payload.=1"] {
            assert!(field(bad).unwrap_err().contains("payload.customer"), "{bad}");
        }
    }

    #[test]
    fn times_are_absolute_or_relative() {
        let now = Timestamp::from_millis(10_000);
        let at = |text| when(text).map(|when| when.at(now).as_millis());
        assert_eq!(at("1970-01-01T00:00:01Z"), Ok(1_000));
        assert_eq!((at("2s"), at("+2s"), at("now")), (Ok(8_000), Ok(12_000), Ok(10_000)));
        for wrong in ["", "+", "-1h", "yesterday", "2030-01-31", "1"] {
            assert!(when(wrong).unwrap_err().contains("+1h"), "{wrong}");
        }
    }

    #[test]
    fn instants_have_a_zone() {
        assert_eq!(instant("1970-01-01T00:00:01Z"), Ok(Timestamp::from_millis(1_000)));
        assert!(instant("2030-01-31 09:00").is_err());
    }
}
