//! Parses TOML into a tree whose entries know their line numbers. The only module that uses the TOML parser; it
//! must not know which keys exist.

use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// A table: keys in the order of the file.
pub(super) type Table = Vec<Entry>;

/// A key and its value.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Entry {
    pub(super) key: String,
    /// Line number, counted from 1.
    pub(super) line: usize,
    pub(super) raw: Raw,
}

/// A value that has not been matched with a setting yet.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Raw {
    Text(String),
    Whole(i64),
    /// A fraction, or an integer out of range, in its original notation.
    Number(String),
    Flag(bool),
    Date(String),
    List(Vec<Raw>),
    Table(Table),
}

/// A syntax error.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Unreadable {
    pub(super) line: usize,
    pub(super) column: usize,
    /// The parser's message. It contains nothing of the text, which may have a password on that line.
    pub(super) reason: String,
}

/// Parses a text; returns all syntax errors if there are any.
pub(super) fn read(text: &str) -> Result<Table, Vec<Unreadable>> {
    let (table, errors) = DeTable::parse_recoverable(text);
    let unreadable = |error: &toml::de::Error| {
        let at = error.span().map_or(0, |span| span.start).min(text.len());
        let before = text.get(..at).unwrap_or(text);
        let column = before.rsplit('\n').next().map_or(0, |line| line.chars().count()) + 1;
        let reason = error.message().replace('\n', ", ");
        Unreadable { line: line_of(text, at), column, reason }
    };
    match errors.is_empty() {
        true => Ok(own_table(text, table.get_ref())),
        false => Err(errors.iter().map(unreadable).collect()),
    }
}

fn line_of(text: &str, at: usize) -> usize {
    text.as_bytes().iter().take(at).filter(|byte| **byte == b'\n').count() + 1
}

fn own_table(text: &str, table: &DeTable<'_>) -> Table {
    let entry = |(key, value): (&Spanned<_>, &Spanned<DeValue<'_>>)| {
        let key: &Spanned<std::borrow::Cow<'_, str>> = key;
        let line = line_of(text, key.span().start);
        Entry { key: key.get_ref().to_string(), line, raw: own(text, value.get_ref()) }
    };
    let mut entries: Table = table.iter().map(entry).collect();
    entries.sort_by_key(|entry| entry.line);
    entries
}

fn own(text: &str, value: &DeValue<'_>) -> Raw {
    match value {
        DeValue::String(value) => Raw::Text(value.to_string()),
        DeValue::Integer(value) => {
            let whole = i64::from_str_radix(value.as_str(), value.radix());
            whole.map_or_else(|_| Raw::Number(value.to_string()), Raw::Whole)
        }
        DeValue::Float(value) => Raw::Number(value.as_str().to_owned()),
        DeValue::Boolean(value) => Raw::Flag(*value),
        DeValue::Datetime(value) => Raw::Date(value.to_string()),
        DeValue::Array(values) => {
            Raw::List(values.iter().map(|value| own(text, value.get_ref())).collect())
        }
        DeValue::Table(table) => Raw::Table(own_table(text, table)),
    }
}

impl Raw {
    /// The value as shown in error messages: lists and tables are not expanded.
    pub(super) fn shown(&self) -> String {
        match self {
            Self::Text(text) | Self::Number(text) | Self::Date(text) => text.clone(),
            Self::Whole(number) => number.to_string(),
            Self::Flag(flag) => flag.to_string(),
            Self::List(_) => "a list".to_owned(),
            Self::Table(_) => "a table".to_owned(),
        }
    }

    /// The value as JSON; dates become strings.
    pub(super) fn json(&self) -> serde_json::Value {
        match self {
            Self::Text(text) | Self::Date(text) => text.as_str().into(),
            Self::Whole(number) => (*number).into(),
            Self::Number(text) => {
                // `inf` and `nan`, which JSON cannot represent as numbers, become strings.
                let number = text.parse().ok().and_then(serde_json::Number::from_f64);
                number.map_or_else(|| text.as_str().into(), Into::into)
            }
            Self::Flag(flag) => (*flag).into(),
            Self::List(values) => values.iter().map(Self::json).collect(),
            Self::Table(table) => {
                let members = table.iter().map(|entry| (entry.key.clone(), entry.raw.json()));
                serde_json::Value::Object(members.collect())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everything_knows_its_line() {
        let table =
            read("# first\n[server]\nlisten = \"x\"\n\n[queues.mail]\nmax_depth = 5\n").unwrap();
        let lines: Vec<_> = table.iter().map(|entry| (&*entry.key, entry.line)).collect();
        assert_eq!(lines, [("server", 2), ("queues", 5)]);
        let Raw::Table(server) = &table[0].raw else { panic!("{table:?}") };
        assert_eq!(server[0], Entry { key: "listen".into(), line: 3, raw: Raw::Text("x".into()) });
    }

    #[test]
    fn unreadable_files_are_reported_with_the_position_and_without_their_text() {
        let errors = read("[store]\nurl = \"postgres://ada:s3cr3t@db\n").unwrap_err();
        assert_eq!(errors[0].line, 2, "{errors:?}");
        assert!(errors[0].column > 6, "{errors:?}");
        assert!(!format!("{errors:?}").contains("s3cr3t"), "{errors:?}");
        let twice = read("a = 1\na = 2\n").unwrap_err();
        assert_eq!((twice[0].line, &*twice[0].reason), (2, "duplicate key"));
    }

    #[test]
    fn a_value_can_become_json() {
        let table = read("p = { to = \"ada\", n = [1, 2.5, true], at = 2030-01-31 }\n").unwrap();
        let json = r#"{"at":"2030-01-31","n":[1,2.5,true],"to":"ada"}"#;
        assert_eq!(table[0].raw.json(), serde_json::from_str::<serde_json::Value>(json).unwrap());
    }
}
