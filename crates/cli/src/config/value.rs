//! Types of setting values: how they are parsed from a file or from text, and how they are printed. It must not
//! know which settings exist.

use super::tree::Raw;
use crate::values;
use std::fmt;
use std::ops::RangeInclusive;
use windlass_core::time::DAY_MS;

/// The value that removes a limit.
const NONE: &str = "none";

/// The value of a setting.
#[derive(Clone, PartialEq, Eq)]
pub(crate) enum Value {
    /// A count, a size in bytes, or a time in milliseconds, depending on the kind of the setting.
    Number(u64),
    /// A number that may be negative.
    Signed(i32),
    Flag(bool),
    Text(String),
    /// A text that contains a secret, and its redacted form.
    Secret {
        whole: String,
        shown: String,
    },
    List(Vec<String>),
    /// A user-defined value, as JSON.
    Json(String),
    /// No limit, or not set.
    None,
}

/// Why a value is invalid.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Wrong {
    /// The redacted form of the value, if it must not be shown as it is.
    pub(crate) shown: Option<String>,
    /// The accepted values, for the error message.
    pub(crate) expected: String,
}

impl From<String> for Wrong {
    fn from(expected: String) -> Self {
        Self { shown: None, expected }
    }
}

impl From<windlass_core::Error> for Wrong {
    /// Keeps only the expected value: the caller adds the setting and its value.
    fn from(error: windlass_core::Error) -> Self {
        match error {
            windlass_core::Error::Invalid { expected, .. } => expected.into_owned().into(),
            error => error.to_string().into(),
        }
    }
}

impl From<&str> for Wrong {
    fn from(expected: &str) -> Self {
        expected.to_owned().into()
    }
}

/// The type of a setting and its accepted range.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Kind {
    shape: Shape,
    /// Whether `none` is accepted.
    lifts: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Shape {
    Time(RangeInclusive<u64>),
    Size(RangeInclusive<u64>),
    Count(RangeInclusive<u64>),
    Signed,
    Flag,
    Words(&'static [&'static str]),
    Text,
    List,
    Json,
}

impl Kind {
    pub(crate) const FLAG: Self = Self::of(Shape::Flag);
    /// A whole number that may be negative.
    pub(crate) const SIGNED: Self = Self::of(Shape::Signed);
    /// A text, validated by the type that stores it.
    pub(crate) const TEXT: Self = Self::of(Shape::Text);
    /// A list of texts.
    pub(crate) const LIST: Self = Self::of(Shape::List);
    /// Any value.
    pub(crate) const JSON: Self = Self::of(Shape::Json);

    const fn of(shape: Shape) -> Self {
        Self { shape, lifts: false }
    }

    /// A duration, with its range in milliseconds.
    pub(crate) const fn time(range: RangeInclusive<u64>) -> Self {
        Self::of(Shape::Time(range))
    }

    /// A size, with its range in bytes.
    pub(crate) const fn size(range: RangeInclusive<u64>) -> Self {
        Self::of(Shape::Size(range))
    }

    pub(crate) const fn count(range: RangeInclusive<u64>) -> Self {
        Self::of(Shape::Count(range))
    }

    /// One of these words.
    pub(crate) const fn words(words: &'static [&'static str]) -> Self {
        Self::of(Shape::Words(words))
    }

    /// Also accepts `none`.
    pub(crate) const fn or_none(mut self) -> Self {
        self.lifts = true;
        self
    }

    /// Parses a value from the file.
    pub(super) fn read(&self, raw: &Raw) -> Result<Value, Wrong> {
        let quoted = |what: &str| Wrong::from(format!("write {what}, in quotes"));
        match (&self.shape, raw) {
            (Shape::Json, raw) => Ok(Value::Json(raw.json().to_string())),
            (_, Raw::Text(text)) if self.lifts && text == NONE => Ok(Value::None),
            (Shape::Time(_), Raw::Whole(number @ 0..)) => {
                Err(format!("write it with its unit and in quotes, as in \"{number}s\"").into())
            }
            (Shape::Time(_) | Shape::Size(_), Raw::Text(text)) => self.parse(text),
            (Shape::Time(_), _) => Err(quoted("a duration, like \"30s\"")),
            (Shape::Size(_) | Shape::Count(_), Raw::Whole(number)) => {
                let number = u64::try_from(*number).map_err(|_| Wrong::from(self.range()))?;
                self.within(number)
            }
            (Shape::Size(_), _) => Err("write bytes, or a size in quotes, like \"64M\"".into()),
            (Shape::Count(_), _) => {
                let or = if self.lifts { ", or \"none\" in quotes" } else { "" };
                Err(format!("write a whole number without quotes{or}; {}", self.range()).into())
            }
            (Shape::Signed, Raw::Whole(number)) => self.parse(&number.to_string()),
            (Shape::Signed, _) => {
                Err(format!("write a whole number without quotes; {}", self.range()).into())
            }
            (Shape::Flag, Raw::Flag(flag)) => Ok(Value::Flag(*flag)),
            (Shape::Flag, _) => Err("write true or false, without quotes".into()),
            (Shape::Words(_) | Shape::Text, Raw::Text(text)) => self.parse(text),
            (Shape::Words(_) | Shape::Text, _) => Err(quoted("a text")),
            (Shape::List, Raw::List(items)) => {
                let text = |raw: &Raw| match raw {
                    Raw::Text(text) => Ok(text.clone()),
                    _ => Err(Wrong::from("write a list of texts, like [\"one\", \"two\"]")),
                };
                items.iter().map(text).collect::<Result<_, _>>().map(Value::List)
            }
            (Shape::List, _) => Err("write a list of texts, like [\"one\", \"two\"]".into()),
        }
    }

    /// Parses a value from a flag or an environment variable.
    pub(crate) fn parse(&self, text: &str) -> Result<Value, Wrong> {
        match &self.shape {
            _ if self.lifts && text == NONE => Ok(Value::None),
            Shape::Time(_) => {
                values::duration_ms(text).map_err(hint_of).and_then(|it| self.within(it))
            }
            Shape::Size(_) => values::bytes(text).map_err(hint_of).and_then(|it| self.within(it)),
            Shape::Count(_) => match text.parse() {
                Ok(number) => self.within(number),
                Err(_) => Err(format!("write a whole number; {}", self.range()).into()),
            },
            Shape::Signed => match text.parse() {
                Ok(number) => Ok(Value::Signed(number)),
                Err(_) => Err(format!("write a whole number; {}", self.range()).into()),
            },
            Shape::Flag => match text {
                "true" => Ok(Value::Flag(true)),
                "false" => Ok(Value::Flag(false)),
                _ => Err("write true or false".into()),
            },
            Shape::Words(words) => match words.contains(&text) {
                true => Ok(Value::Text(text.to_owned())),
                false => Err(format!("use one of {}", words.join(", ")).into()),
            },
            Shape::Text => Ok(Value::Text(text.to_owned())),
            Shape::List => {
                let items = text.split(',').map(str::trim).filter(|item| !item.is_empty());
                Ok(Value::List(items.map(str::to_owned).collect()))
            }
            Shape::Json => match serde_json::from_str::<serde_json::Value>(text) {
                Ok(value) => Ok(Value::Json(value.to_string())),
                Err(error) => Err(format!("it is not JSON: {error}").into()),
            },
        }
    }

    fn within(&self, number: u64) -> Result<Value, Wrong> {
        let (Shape::Time(range) | Shape::Size(range) | Shape::Count(range)) = &self.shape else {
            return Ok(Value::Number(number));
        };
        match range.contains(&number) {
            true => Ok(Value::Number(number)),
            false => Err(self.range().into()),
        }
    }

    /// The accepted range as text; empty if the setting's documentation states it.
    pub(crate) fn range(&self) -> String {
        let or = if self.lifts { ", or \"none\"" } else { "" };
        let (low, high) = match &self.shape {
            Shape::Time(range) => (time(*range.start()), time(*range.end())),
            Shape::Size(range) => (size(*range.start()), size(*range.end())),
            Shape::Count(range) => (range.start().to_string(), range.end().to_string()),
            Shape::Signed => (i32::MIN.to_string(), i32::MAX.to_string()),
            Shape::Flag => return "true or false".to_owned(),
            Shape::Words(words) => return format!("one of {}{or}", words.join(", ")),
            Shape::Text | Shape::List | Shape::Json => return String::new(),
        };
        format!("it must be between {low} and {high}{or}")
    }

    /// Formats a value as in a file, with secrets redacted.
    pub(crate) fn written(&self, value: &Value) -> String {
        let quoted = |text: &str| serde_json::Value::from(text).to_string();
        match (value, &self.shape) {
            (Value::Number(number), Shape::Time(_)) => quoted(&time(*number)),
            (Value::Number(number), Shape::Size(_)) => quoted(&size(*number)),
            (Value::Number(number), _) => number.to_string(),
            (Value::Signed(number), _) => number.to_string(),
            (Value::Flag(flag), _) => flag.to_string(),
            (Value::Text(text), _) => quoted(text),
            (Value::Secret { shown, .. }, _) => quoted(shown),
            (Value::List(items), _) => {
                format!(
                    "[{}]",
                    items.iter().map(|item| quoted(item)).collect::<Vec<_>>().join(", ")
                )
            }
            (Value::Json(json), _) => {
                serde_json::from_str(json).map_or_else(|_| quoted(json), inline)
            }
            (Value::None, _) => quoted(NONE),
        }
    }
}

/// Formats JSON as inline TOML.
fn inline(json: serde_json::Value) -> String {
    let joined = |parts: Vec<String>| parts.join(", ");
    match json {
        serde_json::Value::Array(items) => {
            format!("[{}]", joined(items.into_iter().map(inline).collect()))
        }
        serde_json::Value::Object(members) => {
            let member =
                |(key, value)| format!("{} = {}", serde_json::Value::String(key), inline(value));
            format!("{{ {} }}", joined(members.into_iter().map(member).collect()))
        }
        plain => plain.to_string(),
    }
}

/// The hint at the end of a message, after the last semicolon, without the value.
fn hint_of(message: String) -> Wrong {
    let way_out = message.rsplit_once("; ").map_or(&*message, |(_, way_out)| way_out);
    way_out.into()
}

/// Formats a duration so that it parses to the same value, in units up to days: `1h30m`, `90d`.
pub(crate) fn time(ms: u64) -> String {
    let up_to_days = values::TIME_UNITS.iter().filter(|(_, unit)| *unit <= DAY_MS).rev();
    let in_units = up_to_days.scan(ms, |rest, (name, unit)| {
        let count = *rest / unit;
        *rest %= unit;
        Some((count, *name))
    });
    let parts: Vec<_> = in_units.filter(|(count, _)| *count > 0).collect();
    match parts.is_empty() {
        true => "0s".to_owned(),
        false => parts.iter().map(|(count, name)| format!("{count}{name}")).collect(),
    }
}

/// Formats a size so that it parses to the same value, in the largest unit without a remainder.
pub(crate) fn size(bytes: u64) -> String {
    let whole = |unit: &&(&str, u64)| bytes > 0 && bytes.is_multiple_of(unit.1);
    match values::SIZE_UNITS.iter().rev().find(whole) {
        Some((name, unit)) => format!("{}{name}", bytes / unit),
        None => bytes.to_string(),
    }
}

impl fmt::Debug for Value {
    /// Redacts secrets.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&Kind::TEXT.written(self))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn written_values_can_be_read_again() {
        for ms in [0, 1, 999, 1_000, 90_000, 5_400_000, 604_800_000, 86_400_001] {
            assert_eq!(values::duration_ms(&time(ms)), Ok(ms));
        }
        for bytes in [0, 1, 1_024, 1_500, 64 << 20, 3 << 30] {
            assert_eq!(values::bytes(&size(bytes)), Ok(bytes));
        }
        assert_eq!((time(5_400_000), size(64 << 20)), ("1h30m".into(), "64M".into()));
    }

    #[test]
    fn a_limit_can_be_lifted_only_where_there_may_be_none() {
        let kind = Kind::count(1..=9);
        assert!(kind.parse("none").is_err());
        assert_eq!(kind.clone().or_none().parse("none"), Ok(Value::None));
        assert_eq!(kind.or_none().read(&Raw::Text("none".into())), Ok(Value::None));
    }

    #[test]
    fn files_have_types_and_texts_do_not() {
        let count = Kind::count(1..=9);
        assert_eq!(count.read(&Raw::Whole(5)), Ok(Value::Number(5)));
        assert_eq!(count.parse("5"), Ok(Value::Number(5)));
        assert!(
            count.read(&Raw::Text("5".into())).unwrap_err().expected.contains("without quotes")
        );
        for wrong in [-1, 0, 10] {
            let range = "it must be between 1 and 9";
            assert_eq!(count.read(&Raw::Whole(wrong)), Err(range.into()));
        }
        assert_eq!(Kind::LIST.parse("a, b"), Ok(Value::List(vec!["a".into(), "b".into()])));
    }
}
