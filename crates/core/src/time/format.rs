//! Timestamps as text: RFC 3339 in UTC, with milliseconds.

use super::Timestamp;
use serde::de::{Error, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::fmt;
use std::str::FromStr;

use chrono::{DateTime, Datelike as _, NaiveDate, Timelike as _};

/// Length of `2030-01-31T09:00:00.000Z`.
const LENGTH: usize = 24;

/// The text of a time, without allocating: every job on the wire has three times and more.
struct Text([u8; LENGTH]);

impl Text {
    /// `None` if the year has not four digits, which RFC 3339 requires.
    fn of(at: Timestamp) -> Option<Self> {
        let at = DateTime::from_timestamp_millis(at.0)?.naive_utc();
        let year = u32::try_from(at.year()).ok().filter(|year| *year <= 9_999)?;
        let mut text = *b"0000-00-00T00:00:00.000Z";
        let parts = [
            (0, 4, year),
            (5, 2, at.month()),
            (8, 2, at.day()),
            (11, 2, at.hour()),
            (14, 2, at.minute()),
            (17, 2, at.second()),
            (20, 3, at.nanosecond() / 1_000_000),
        ];
        for (start, digits, mut number) in parts {
            for place in text[start..start + digits].iter_mut().rev() {
                *place = b'0' + (number % 10) as u8;
                number /= 10;
            }
        }
        Some(Self(text))
    }

    fn as_str(&self) -> &str {
        // Cannot fail: all bytes are ASCII.
        std::str::from_utf8(&self.0).unwrap_or_default()
    }
}

impl fmt::Display for Timestamp {
    /// RFC 3339 in UTC; the bare number if the year does not have four digits.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match Text::of(*self) {
            Some(text) => f.write_str(text.as_str()),
            None => write!(f, "{}ms", self.0),
        }
    }
}

/// The text of a time is invalid.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InvalidTime(String);

impl fmt::Display for InvalidTime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "invalid time {:?}; write it like 2030-01-31T09:00:00Z", self.0)
    }
}

impl std::error::Error for InvalidTime {}

impl FromStr for Timestamp {
    type Err = InvalidTime;

    /// Parses RFC 3339 with any zone; rounds down to whole milliseconds.
    fn from_str(text: &str) -> Result<Self, InvalidTime> {
        if let Some(at) = quick(text.as_bytes()) {
            return Ok(at);
        }
        DateTime::parse_from_rfc3339(text)
            .map(|at| Self(at.timestamp_millis()))
            .map_err(|_| InvalidTime(text.to_owned()))
    }
}

/// Parses the format that [`Text`] writes; `None` for all others.
fn quick(text: &[u8]) -> Option<Timestamp> {
    let text: &[u8; LENGTH] = text.try_into().ok()?;
    let template = b"0000-00-00T00:00:00.000Z";
    let is_alike = |(byte, like): (&u8, &u8)| match like {
        b'0' => byte.is_ascii_digit(),
        like => byte == like,
    };
    if !text.iter().zip(template).all(is_alike) {
        return None;
    }
    let number = |start: usize, digits: usize| {
        let digits = text[start..start + digits].iter();
        digits.fold(0, |number, digit| number * 10 + u32::from(digit - b'0'))
    };
    let date = NaiveDate::from_ymd_opt(number(0, 4).cast_signed(), number(5, 2), number(8, 2))?;
    let at = date.and_hms_milli_opt(number(11, 2), number(14, 2), number(17, 2), number(20, 3))?;
    Some(Timestamp(at.and_utc().timestamp_millis()))
}

impl Serialize for Timestamp {
    /// The text; the bare number if the year does not have four digits.
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match Text::of(*self) {
            Some(text) => serializer.serialize_str(text.as_str()),
            None => serializer.serialize_i64(self.0),
        }
    }
}

impl<'de> Deserialize<'de> for Timestamp {
    /// From RFC 3339, or from milliseconds since the Unix epoch.
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Any)
    }
}

struct Any;

impl Visitor<'_> for Any {
    type Value = Timestamp;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a time like \"2030-01-31T09:00:00Z\", or milliseconds since the Unix epoch")
    }

    fn visit_i64<E: Error>(self, ms: i64) -> Result<Timestamp, E> {
        Ok(Timestamp(ms))
    }

    fn visit_u64<E: Error>(self, ms: u64) -> Result<Timestamp, E> {
        i64::try_from(ms).map(Timestamp).map_err(|_| E::custom("the time is too late"))
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Timestamp, E> {
        // Queries are text: a number arrives as its digits.
        match text.parse() {
            Ok(ms) => Ok(Timestamp(ms)),
            Err(_) => text.parse().map_err(E::custom),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_written_as_rfc_3339_and_read_back() {
        let nines = "9999-12-31T23:59:59.999Z";
        let last: Timestamp = nines.parse().unwrap();
        assert_eq!(last.to_string(), nines);
        for ms in [0, 1, 999, 1_893_456_000_123, -1, -62_135_596_800_000, last.0] {
            let at = Timestamp(ms);
            assert_eq!(at.to_string().parse(), Ok(at), "{ms}");
            let json = serde_json::to_string(&at).unwrap();
            assert_eq!(json, format!("\"{at}\""));
            assert_eq!(serde_json::from_str::<Timestamp>(&json).unwrap(), at);
            assert_eq!(serde_json::from_str::<Timestamp>(&ms.to_string()).unwrap(), at);
        }
    }

    #[test]
    fn years_without_four_digits_are_numbers() {
        for ms in [i64::MIN, i64::MAX, 253_402_300_800_000, -62_167_219_200_001] {
            assert_eq!(serde_json::to_string(&Timestamp(ms)).unwrap(), ms.to_string());
            let read = serde_json::from_str::<Timestamp>(&ms.to_string());
            assert_eq!(read.unwrap(), Timestamp(ms));
        }
    }

    #[test]
    fn times_of_other_zones_and_fractions_are_read() {
        let at = Timestamp(1_893_456_000_000);
        for text in
            ["2030-01-01T00:00:00Z", "2030-01-01T01:00:00+01:00", "2030-01-01T00:00:00.0004Z"]
        {
            assert_eq!(text.parse(), Ok(at), "{text}");
        }
        for wrong in ["", "now", "2030-01-01", "2030-02-30T00:00:00.000Z", "2030-01-01 00:00"] {
            assert!(wrong.parse::<Timestamp>().is_err(), "{wrong}");
            assert!(serde_json::from_str::<Timestamp>(&format!("\"{wrong}\"")).is_err());
        }
    }
}
