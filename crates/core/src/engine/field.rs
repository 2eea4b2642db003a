//! A field of a job's JSON, by which jobs can be searched.

use crate::error::{Error, Result};
use crate::limits::{FIELD_BYTES_MAX, FIELD_STEPS_MAX};
use crate::model::{Part, PartName};
use crate::name::check_text;
use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use std::fmt;
use std::str::FromStr;

/// The path of a field in the JSON of the payload or the metadata: `payload.customer`, `metadata.order.items.0`.
///
/// Each step is the name of a member of an object, or the position in an array, from 0. Names with a dot cannot be
/// written.
///
/// ```
/// use windlass_core::engine::Field;
///
/// let field: Field = "payload.customer".parse()?;
/// assert!(field.is_in(br#"{"customer": 42}"#, "42"));
/// # Ok::<(), windlass_core::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Field {
    part: PartName,
    steps: Vec<String>,
}

impl Field {
    /// The part that contains the field.
    pub const fn part(&self) -> PartName {
        self.part
    }

    /// The names and positions that lead to the field.
    pub fn steps(&self) -> &[String] {
        &self.steps
    }

    /// Whether the field of this part has this value. Parts in an envelope (compressed, encrypted or stored elsewhere)
    /// do not match.
    pub fn is(&self, part: Option<&Part>, value: &str) -> bool {
        part.is_some_and(|part| part.envelope().is_none() && self.is_in(&part.bytes, value))
    }

    /// Whether the field has this value in a JSON text.
    ///
    /// A string matches by its content. Numbers, `true`, `false` and `null` match by their JSON text, so that `1.50` is
    /// not `1.5`: comparison by text is exact for numbers of any size, and an index can repeat it. Objects and arrays
    /// match nothing. Of several members with the same name, the last one counts.
    pub fn is_in(&self, json: &[u8], value: &str) -> bool {
        let mut reader = serde_json::Deserializer::from_slice(json);
        let found = At(&self.steps).deserialize(&mut reader);
        let found = found.and_then(|found| reader.end().map(|()| found));
        found.ok().flatten().is_some_and(|found| has_value(found.get(), value))
    }
}

/// Whether a JSON value is a scalar with this text.
fn has_value(json: &str, value: &str) -> bool {
    match json.as_bytes().first() {
        Some(b'"') if !json.contains('\\') => json.get(1..json.len() - 1) == Some(value),
        Some(b'"') => serde_json::from_str::<String>(json).is_ok_and(|text| text == value),
        Some(b'{' | b'[') | None => false,
        Some(_) => json == value,
    }
}

impl FromStr for Field {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        check_text("field", text, FIELD_BYTES_MAX)?;
        let expected =
            "use payload or metadata and the path of a field, separated by dots: payload.customer";
        let invalid = || Error::invalid("field", text, expected);
        let (part, path) = text.split_once('.').ok_or_else(invalid)?;
        let part = match part {
            "payload" => PartName::Payload,
            "metadata" => PartName::Metadata,
            _ => return Err(invalid()),
        };
        let steps: Vec<String> = path.split('.').map(str::to_owned).collect();
        if steps.len() > FIELD_STEPS_MAX {
            let expected = format!("a path has at most {FIELD_STEPS_MAX} steps");
            return Err(Error::invalid("field", text, expected));
        }
        match steps.iter().any(String::is_empty) {
            true => Err(invalid()),
            false => Ok(Self { part, steps }),
        }
    }
}

impl TryFrom<String> for Field {
    type Error = Error;

    fn try_from(text: String) -> Result<Self> {
        text.parse()
    }
}

impl From<Field> for String {
    fn from(field: Field) -> Self {
        field.to_string()
    }
}

impl fmt::Display for Field {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.part.as_str(), self.steps.join("."))
    }
}

/// Finds the value at a path and skips everything else without building it.
struct At<'p>(&'p [String]);

impl<'de> DeserializeSeed<'de> for At<'_> {
    type Value = Option<&'de RawValue>;

    fn deserialize<D: Deserializer<'de>>(self, json: D) -> Result<Self::Value, D::Error> {
        match self.0.is_empty() {
            true => Deserialize::deserialize(json).map(Some),
            false => json.deserialize_any(self),
        }
    }
}

impl<'de> Visitor<'de> for At<'_> {
    type Value = Option<&'de RawValue>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut found = None;
        let Some((name, rest)) = self.0.split_first() else { return Ok(None) };
        while let Some(is_wanted) = map.next_key_seed(Named(name))? {
            match is_wanted {
                true => found = map.next_value_seed(At(rest))?,
                false => drop(map.next_value::<IgnoredAny>()?),
            }
        }
        Ok(found)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Self::Value, A::Error> {
        let Some((position, rest)) = self.0.split_first() else { return Ok(None) };
        let mut found = None;
        // Only the usual way to write a number: "0", not "00" or "+0".
        let wanted = position.parse::<usize>().ok().filter(|at| at.to_string() == *position);
        for at in 0.. {
            let is_left = match wanted == Some(at) {
                true => seq.next_element_seed(At(rest))?.map(|value| found = value),
                false => seq.next_element::<IgnoredAny>()?.map(drop),
            };
            if is_left.is_none() {
                break;
            }
        }
        Ok(found)
    }

    fn visit_bool<E>(self, _: bool) -> Result<Self::Value, E> {
        Ok(None)
    }

    fn visit_i64<E>(self, _: i64) -> Result<Self::Value, E> {
        Ok(None)
    }

    fn visit_u64<E>(self, _: u64) -> Result<Self::Value, E> {
        Ok(None)
    }

    fn visit_f64<E>(self, _: f64) -> Result<Self::Value, E> {
        Ok(None)
    }

    fn visit_str<E>(self, _: &str) -> Result<Self::Value, E> {
        Ok(None)
    }

    fn visit_unit<E>(self) -> Result<Self::Value, E> {
        Ok(None)
    }
}

/// Whether the name of a member is this one.
struct Named<'p>(&'p str);

impl<'de> DeserializeSeed<'de> for Named<'_> {
    type Value = bool;

    fn deserialize<D: Deserializer<'de>>(self, name: D) -> Result<bool, D::Error> {
        name.deserialize_str(self)
    }
}

impl Visitor<'_> for Named<'_> {
    type Value = bool;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the name of a member")
    }

    fn visit_str<E>(self, name: &str) -> Result<bool, E> {
        Ok(name == self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Codec, Envelope};

    fn is(json: &str, path: &str, value: &str) -> bool {
        path.parse::<Field>().unwrap().is_in(json.as_bytes(), value)
    }

    #[test]
    fn a_scalar_matches_by_its_text() {
        let json = r#" {"a": 42, "b": "x y", "c": true, "d": null, "e": 1.50, "f": "q\"\u00e9",
            "g": 123456789012345678901234567890, "h": 1e999, "i": ""} "#;
        let good = [
            ("a", "42"),
            ("b", "x y"),
            ("c", "true"),
            ("d", "null"),
            ("e", "1.50"),
            ("f", "q\"é"),
            ("g", "123456789012345678901234567890"),
            ("h", "1e999"),
            ("i", ""),
        ];
        for (name, value) in good {
            assert!(is(json, &format!("payload.{name}"), value), "{name}={value}");
        }
        let bad = [("a", "42.0"), ("a", "4"), ("b", "x"), ("d", ""), ("e", "1.5"), ("z", "null")];
        for (name, value) in bad {
            assert!(!is(json, &format!("payload.{name}"), value), "{name}={value}");
        }
        assert!(is(r#"{"a": "42"}"#, "payload.a", "42"), "a string of digits, too");
    }

    #[test]
    fn a_path_leads_through_objects_and_arrays() {
        let json =
            r#"{"order": {"items": [{"sku": "a"}, {"sku": "b"}], "0": "zero"}, "x": [1, 2]}"#;
        assert!(is(json, "payload.order.items.1.sku", "b"));
        assert!(is(json, "metadata.order.0", "zero"));
        assert!(is(json, "payload.x.0", "1"));
        for (path, value) in [
            ("payload.order.items.2.sku", "b"),
            ("payload.order.items.01.sku", "b"),
            ("payload.order.items", "[]"),
            ("payload.order.items.sku", "a"),
            ("payload.x.0.y", "1"),
            ("payload.order", "{}"),
        ] {
            assert!(!is(json, path, value), "{path}={value}");
        }
        assert!(is("[[7]]", "payload.0.0", "7"));
    }

    #[test]
    fn the_last_of_several_members_with_one_name_counts() {
        let json = r#"{"a": 1, "\u0061": 2}"#;
        assert!(is(json, "payload.a", "2") && !is(json, "payload.a", "1"));
        assert!(!is(r#"{"a": 1, "a": {}}"#, "payload.a", "1"));
    }

    #[test]
    fn what_is_not_json_matches_nothing() {
        for text in ["", "a=1", r#"{"a": 1"#, r#"{"a": 1} x"#, r#"{"a": 01}"#, "17", "\u{1}"] {
            assert!(!is(text, "payload.a", "1"), "{text}");
        }
        let field: Field = "payload.a".parse().unwrap();
        assert!(!field.is_in(b"{\"b\": \"\xff\", \"a\": \xff}", "1"));
        let sealed = Part::sealed(Envelope::PLAIN.with_codec(Codec::Zstd), r#"{"a":1}"#);
        assert!(!field.is(Some(&sealed), "1"), "the bytes are not those of the application");
        assert!(field.is(Some(&Part::new(r#"{"a":1}"#)), "1") && !field.is(None, "1"));
    }

    #[test]
    fn a_bad_path_is_refused_with_the_form_of_a_good_one() {
        let long = format!("payload.{}", "x".repeat(FIELD_BYTES_MAX));
        let deep = format!("payload{}", ".a".repeat(FIELD_STEPS_MAX + 1));
        let bad =
            ["", "payload", "payload.", "payload..a", "payload.a.", "blob.a", "a", "payload.\n"];
        for text in bad.into_iter().chain([&*long, &*deep]) {
            let error = text.parse::<Field>().unwrap_err();
            assert_eq!(error.field(), Some("field"), "{text}: {error}");
        }
        assert!("blob.a".parse::<Field>().unwrap_err().to_string().contains("payload.customer"));
        let field: Field = "metadata.a.0.b".parse().unwrap();
        assert_eq!(field.to_string(), "metadata.a.0.b");
    }
}
