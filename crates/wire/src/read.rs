//! Parses and writes JSON and query strings. Parse errors name the field.

use crate::List;
use crate::reader::Unknown;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::error::Category;
use windlass_core::{Error, Result};

/// Parses JSON strictly.
///
/// Text that is not JSON fails with `Invalid` on `body`; an unknown, missing or mistyped field
/// fails with `Invalid` on the path of that field.
pub fn read<T: DeserializeOwned>(text: &[u8]) -> Result<T> {
    // Tracking the path costs time on every field, so it is done only after an error.
    parse(text, Unknown::AsTyped).or_else(|error| match error.classify() {
        Category::Data => located(text),
        Category::Io | Category::Syntax | Category::Eof => {
            Err(Error::invalid("body", first_line(text), format!("it must be JSON: {error}")))
        }
    })
}

/// Parses JSON from a peer that may be newer: ignores unknown fields.
pub fn read_reply<T: DeserializeOwned>(text: &[u8]) -> Result<T> {
    // Most replies have no unknown fields, and then the plain parser is faster.
    let read = serde_json::from_slice(text).or_else(|_| parse(text, Unknown::PassedOver));
    read.map_err(|error: serde_json::Error| misfit(String::new(), &error.to_string()))
}

fn parse<T: DeserializeOwned>(text: &[u8], unknown: Unknown) -> serde_json::Result<T> {
    let mut json = serde_json::Deserializer::from_slice(text);
    let value = T::deserialize(unknown.reader(&mut json))?;
    json.end()?;
    Ok(value)
}

/// Parses again to find the path of an error.
fn located<T: DeserializeOwned>(text: &[u8]) -> Result<T> {
    let mut json = serde_json::Deserializer::from_slice(text);
    serde_path_to_error::deserialize(Unknown::AsTyped.reader(&mut json)).map_err(|error| {
        let path = error.path().to_string();
        misfit(path, &error.into_inner().to_string())
    })
}

/// Parses a query string.
pub fn read_query<T: DeserializeOwned>(query: &str) -> Result<T> {
    let pairs = serde_urlencoded::Deserializer::new(form_urlencoded::parse(query.as_bytes()));
    serde_path_to_error::deserialize(pairs).map_err(|error| {
        let path = error.path().to_string();
        misfit(path, &error.into_inner().to_string())
    })
}

/// Parses the query of a list of jobs, in which the names of fields are free.
pub fn read_list(query: &str) -> Result<List> {
    let mut others = form_urlencoded::Serializer::new(String::new());
    let mut fields = Vec::new();
    for (name, value) in form_urlencoded::parse(query.as_bytes()) {
        match is_field(&name) {
            true => fields.push((name.parse()?, value.into_owned())),
            false => drop(others.append_pair(&name, &value)),
        }
    }
    let mut list: List = read_query(&others.finish())?;
    list.fields = fields;
    Ok(list)
}

/// Whether a parameter names a field of a part.
fn is_field(name: &str) -> bool {
    ["payload.", "metadata."].into_iter().any(|part| name.starts_with(part))
}

/// Writes the query of a list of jobs.
pub fn write_list(list: &List) -> String {
    let mut query = form_urlencoded::Serializer::new(write_query(list));
    for (field, value) in &list.fields {
        query.append_pair(&field.to_string(), value);
    }
    query.finish()
}

/// Writes JSON.
///
/// # Panics
/// Never: all types of this crate can be serialized.
#[expect(clippy::expect_used, reason = "maps with odd keys and failing writers do not occur here")]
pub fn write(value: &impl Serialize) -> Vec<u8> {
    serde_json::to_vec(value).expect("wire types can be written")
}

/// Writes a query string.
pub fn write_query(value: &impl Serialize) -> String {
    // Queries are flat structs of strings and numbers, which can be serialized.
    serde_urlencoded::to_string(value).unwrap_or_default()
}

/// Converts a serde error to a core error. Serde names an unknown or missing field only in its
/// message.
fn misfit(path: String, message: &str) -> Error {
    let what = message.split(" at line ").next().unwrap_or(message);
    let path = if path == "." { String::new() } else { path };
    let quoted = |prefix: &str| {
        what.strip_prefix(prefix).and_then(|rest| rest.split('`').nth(1).map(str::to_owned))
    };
    if let Some(field) = quoted("missing field") {
        let at = if path.is_empty() { field } else { format!("{path}.{field}") };
        return Error::invalid(at, "missing", "it is needed");
    }
    if let Some(field) = quoted("duplicate field") {
        return Error::invalid(field, "given twice", "give it once");
    }
    if let Some(field) = quoted("unknown field") {
        // A tracked path already ends with the unknown field.
        let at = if path.is_empty() { field.clone() } else { path };
        let known = what.split_once(", ").map_or("", |(_, known)| known);
        return Error::invalid(at, field, format!("no such field; {known}"));
    }
    let at = if path.is_empty() { "body".to_owned() } else { path };
    Error::invalid(at, "unfit", what.to_owned())
}

/// The beginning of a text, for an error message.
fn first_line(text: &[u8]) -> String {
    const SHOWN_BYTES_MAX: usize = 120;
    String::from_utf8_lossy(&text[..text.len().min(SHOWN_BYTES_MAX)]).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Enqueue, NewJob};
    use windlass_core::engine;

    fn refused<T: DeserializeOwned + std::fmt::Debug>(text: &str) -> (String, String) {
        let error = read::<T>(text.as_bytes()).unwrap_err();
        (error.field().unwrap().to_owned(), error.to_string())
    }

    #[test]
    fn errors_name_the_path_of_the_field() {
        let cases = [
            (r#"{"jobs": [{"kind": "a"}, {"kind": 7}]}"#, "jobs[1].kind", "string"),
            (r#"{"jobs": [{"kind": "a"}, {}]}"#, "jobs[1].kind", "needed"),
            (r#"{"jobs": [{"kind": "a", "colour": 1}]}"#, "jobs[0].colour", "no such field"),
            (r#"{"jobs": [], "atomc": true}"#, "atomc", "`atomic`"),
            (
                r#"{"jobs": [{"kind": "a", "unique": {"key": "k", "x": 1}}]}"#,
                "jobs[0].unique.x",
                "no such",
            ),
            (r#"{"jobs": [{"kind": "a", "id": "zzz"}]}"#, "jobs[0].id", "UUID"),
            (r#"{"jobs": [{"kind": "a", "parts": [null]}]}"#, "jobs[0].parts", "sequence"),
            (
                r#"{"jobs": [{"kind": "a", "backoff": {"fixed": [1]}}]}"#,
                "jobs[0].backoff.fixed",
                "sequence",
            ),
            (r#"{"jobs": []} {}"#, "body", "trailing"),
            (r#"{"jobs": "#, "body", "must be JSON"),
            ("", "body", "must be JSON"),
            ("[]", "body", "sequence"),
        ];
        for (text, field, hint) in cases {
            let (at, message) = refused::<Enqueue>(text);
            assert_eq!(at, field, "{text}: {message}");
            assert!(message.contains(hint), "{text}: {message}");
        }
        assert_eq!(refused::<NewJob>("nonsense").0, "body");
        assert_eq!(refused::<crate::Check>("[true]").0, "body");
        for (want, field) in [
            ("7", "queues[0]"),
            (r#"["a", 1]"#, "queues[0]"),
            (r#"{"name": "a", "limit": 1, "x": 1}"#, "queues[0].x"),
        ] {
            assert_eq!(refused::<crate::Claim>(&format!(r#"{{"queues": [{want}]}}"#)).0, field);
        }
    }

    #[test]
    fn a_query_with_an_unknown_field_is_refused_by_name() {
        let error = read_query::<List>("queue=mail&stat=dead").unwrap_err();
        assert_eq!(error.field(), Some("stat"), "{error}");
        let bad =
            ["limit=few", "limit=-1", "state=lost", "order=up", "parent=x", "created_from=now"];
        for query in bad {
            let field = query.split('=').next();
            let error = read_query::<List>(&format!("queue=mail&{query}")).unwrap_err();
            assert_eq!(error.field(), field, "{error}");
        }
        let error = read_query::<List>("queue=a&queue=b").unwrap_err();
        assert_eq!(error.field(), Some("queue"), "{error}");
        let error = read_list("queue=a&payload=7").unwrap_err();
        assert_eq!(error.field(), Some("payload"), "{error}");
        let error = read_list("queue=a&payload..x=7").unwrap_err();
        assert_eq!(error.field(), Some("field"), "{error}");
        let error = read_list("id=xyz").unwrap_err();
        assert_eq!(error.field(), Some("id"), "{error}");
        let list = read_query::<List>("state=dead&limit=7&tag=a%20%26&created_from=-5").unwrap();
        assert_eq!((list.limit, list.tag.as_deref()), (Some(7), Some("a &")));
    }

    #[test]
    fn the_query_of_a_list_reads_back() {
        let query = "state=dead&ended_from=5&id=0199b2&text=a+b&payload.a%26b=1%3D2&metadata.x.0=";
        let list: engine::List = read_list(query).unwrap().into();
        let fields: Vec<_> =
            list.filter.fields.iter().map(|(field, it)| (field.to_string(), it)).collect();
        assert_eq!(fields.len(), 2);
        assert_eq!((&*fields[0].0, &**fields[0].1), ("payload.a&b", "1=2"));
        assert_eq!(list.filter.text.as_deref(), Some("a b"));
        let again: engine::List = read_list(&write_list(&list.clone().into())).unwrap().into();
        assert_eq!(again.filter, list.filter);
    }
}
