//! JSON Schemas of payloads: compiled once, used often. It must not know kinds or jobs. Error
//! messages contain field names of a payload but never its values.

use jsonschema::error::ValidationErrorKind;
use jsonschema::{PatternOptions, ValidationError, Validator};
use serde_json::Value;
use std::collections::HashSet;
use windlass_core::limits::{SCHEMA_BYTES_MAX, SCHEMA_DEPTH_MAX};
use windlass_core::model::{Envelope, Part};
use windlass_core::{Error, Result};

/// A compiled schema.
#[derive(Debug)]
pub(crate) struct Schema(Validator);

impl Schema {
    /// Compiles a schema. References must stay within it, so nothing is fetched. Patterns use a
    /// linear-time regex engine, so look-around is refused.
    pub(crate) fn read(text: &str) -> Result<Self> {
        let bad = |why: String| Error::invalid("schema", "unfit", why);
        if text.len() > SCHEMA_BYTES_MAX {
            let hint = "describe less in it, or split the kind";
            let (size, limit) = (text.len() as u64, SCHEMA_BYTES_MAX as u64);
            return Err(Error::TooLarge { field: "schema".into(), size, limit, hint });
        }
        let schema: Value = serde_json::from_str(text)
            .map_err(|error| bad(format!("it must be a JSON Schema: {error}")))?;
        if depth(&schema) > SCHEMA_DEPTH_MAX {
            return Err(bad(format!(
                "it may be nested at most {SCHEMA_DEPTH_MAX} deep; move parts of it into $defs"
            )));
        }
        if let Some(reference) = foreign(&schema) {
            let why = format!(
                "it refers to {reference:?}, and external references are not supported; start references \
                 with #, and put their targets into $defs"
            );
            return Err(bad(why));
        }
        if let Some(reference) = circle(&schema) {
            return Err(bad(format!(
                "its reference {reference:?} leads to itself in an endless loop"
            )));
        }
        let options = jsonschema::options().with_pattern_options(PatternOptions::regex());
        let validator = options.build(&schema).map_err(|error| {
            let at = error.instance_path().to_string();
            let at = if at.is_empty() { String::new() } else { format!(" at {at}") };
            bad(format!("it must be a JSON Schema{at}: {}", shortened(&error.to_string())))
        })?;
        Ok(Self(validator))
    }

    /// Validates a payload; the error names the field as a JSON pointer below `payload`. A missing
    /// payload is validated as `null`.
    pub(crate) fn check(&self, payload: Option<&Part>) -> Result<()> {
        let value = match payload {
            None => Value::Null,
            Some(part) if part.envelope().is_some_and(|it| *it != Envelope::PLAIN) => {
                return Err(not_json("wrapped", "it is compressed, encrypted or stored elsewhere"));
            }
            Some(part) => serde_json::from_slice(&part.bytes)
                .map_err(|error| not_json("unfit", &error.to_string()))?,
        };
        self.0.validate(&value).map_err(|error| misfit(&error, payload.is_none()))
    }
}

fn not_json(value: &str, why: &str) -> Error {
    let expected = format!("its kind has a schema, so it must be JSON: {why}");
    Error::invalid("payload", value, expected)
}

/// Converts a validation error to an error that names the invalid field.
fn misfit(error: &ValidationError<'_>, absent: bool) -> Error {
    let mut field = format!("payload{}", error.instance_path());
    let mut found = if absent { "missing" } else { name(error.instance()) };
    let below = match error.kind() {
        ValidationErrorKind::Required { property } => {
            found = "missing";
            property.as_str()
        }
        ValidationErrorKind::AdditionalProperties { unexpected } => {
            found = "unknown";
            unexpected.first().map(String::as_str)
        }
        _ => None,
    };
    if let Some(below) = below {
        field.push('/');
        field.push_str(&below.replace('~', "~0").replace('/', "~1"));
    }
    let expected =
        format!("it violates the schema of its kind: {}", shortened(&error.masked().to_string()));
    Error::invalid(field, found, expected)
}

/// The type of a value, without revealing it.
const fn name(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "an array",
        Value::Object(_) => "an object",
    }
}

/// Truncates a message, because some quote whole schemas.
fn shortened(text: &str) -> String {
    const CHARS_MAX: usize = 300;
    match text.char_indices().nth(CHARS_MAX) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

/// The nesting depth of a value. Recursion is bounded by the parser's own limit.
fn depth(value: &Value) -> usize {
    match value {
        Value::Array(items) => 1 + items.iter().map(depth).max().unwrap_or(0),
        Value::Object(fields) => 1 + fields.values().map(depth).max().unwrap_or(0),
        _ => 0,
    }
}

/// A reference to another document.
fn foreign(value: &Value) -> Option<&str> {
    match value {
        Value::Array(items) => items.iter().find_map(foreign),
        Value::Object(fields) => {
            let own =
                ["$ref", "$dynamicRef", "$recursiveRef"].iter().filter_map(|it| fields.get(*it));
            let mut own = own.filter_map(Value::as_str);
            own.find(|it| !it.starts_with('#')).or_else(|| fields.values().find_map(foreign))
        }
        _ => None,
    }
}

/// A reference cycle that does not descend into the payload: validation would never end.
fn circle(root: &Value) -> Option<&str> {
    let mut trail = Trail::default();
    everywhere(root, &mut |schema| winds(root, schema, &mut trail))
}

/// References on the current path, and those already found to be free of cycles; each is followed
/// once.
#[derive(Default)]
struct Trail<'a> {
    open: Vec<&'a str>,
    done: HashSet<&'a str>,
}

/// The first result of `ask` for a value or its descendants.
fn everywhere<'a>(
    value: &'a Value,
    ask: &mut impl FnMut(&'a Value) -> Option<&'a str>,
) -> Option<&'a str> {
    ask(value).or_else(|| match value {
        Value::Array(items) => items.iter().find_map(|item| everywhere(item, ask)),
        Value::Object(fields) => fields.values().find_map(|field| everywhere(field, ask)),
        _ => None,
    })
}

/// Follows subschemas that apply to the same position of the payload.
fn winds<'a>(root: &'a Value, schema: &'a Value, trail: &mut Trail<'a>) -> Option<&'a str> {
    let fields = schema.as_object()?;
    let reference = fields.get("$ref").and_then(Value::as_str);
    if let Some(reference) = reference.filter(|it| !trail.done.contains(it)) {
        if trail.open.contains(&reference) {
            return Some(reference);
        }
        trail.open.push(reference);
        let target = reference.strip_prefix('#').and_then(|pointer| root.pointer(pointer));
        let found = target.and_then(|target| winds(root, target, trail));
        trail.open.pop();
        trail.done.insert(reference);
        if found.is_some() {
            return found;
        }
    }
    let lists = ["allOf", "anyOf", "oneOf"].iter().filter_map(|it| fields.get(*it)?.as_array());
    let single = ["not", "if", "then", "else"].iter().filter_map(|it| fields.get(*it));
    lists.flatten().chain(single).find_map(|below| winds(root, below, trail))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn schema(value: &Value) -> Result<Schema> {
        Schema::read(&value.to_string())
    }

    fn refused(schema: &Schema, payload: &str) -> (String, String) {
        let error = schema.check(Some(&Part::new(payload.to_owned()))).unwrap_err();
        (error.field().unwrap().to_owned(), error.to_string())
    }

    #[test]
    fn mismatches_are_reported_by_pointer_and_never_quoted() {
        let schema = schema(&json!({
            "type": "object",
            "required": ["to"],
            "additionalProperties": false,
            "properties": {
                "to": {"type": "array", "items": {"type": "string", "pattern": "^[^@]+@[^@]+$"}},
                "size": {"type": "integer", "maximum": 10},
            },
        }))
        .unwrap();
        schema.check(Some(&Part::new(r#"{"to": ["a@b"], "size": 3}"#))).unwrap();
        let cases = [
            (r#"{"to": ["a@b", "secret"]}"#, "payload/to/1"),
            (r#"{"to": [], "size": 77777}"#, "payload/size"),
            (r#"{"size": 1}"#, "payload/to"),
            (r#"{"to": [], "a/b": "secret"}"#, "payload/a~1b"),
            (r#""secret""#, "payload"),
            ("secret", "payload"),
        ];
        for (payload, field) in cases {
            let (at, message) = refused(&schema, payload);
            assert_eq!(at, field, "{payload}: {message}");
            assert!(!message.contains("secret") && !message.contains("77777"), "{message}");
        }
        let missing = schema.check(None).unwrap_err();
        assert!(missing.to_string().starts_with("payload is \"missing\""), "{missing}");
    }

    #[test]
    fn bytes_that_are_not_json_do_not_pass_a_schema() {
        let any = schema(&json!({})).unwrap();
        any.check(Some(&Part::new("7"))).unwrap();
        for part in [
            Part::new(vec![0xFF]),
            Part::sealed(Envelope::PLAIN.with_key_id("k"), bytes::Bytes::from_static(b"{}")),
        ] {
            assert_eq!(any.check(Some(&part)).unwrap_err().field(), Some("payload"));
        }
    }

    #[test]
    fn a_schema_that_cannot_work_is_refused_with_the_way_out() {
        let deep = (0..=SCHEMA_DEPTH_MAX).fold(json!({}), |below, _| json!({"not": below}));
        let cases = [
            (json!({"type": "strin"}), "type"),
            (json!({"$ref": "https://example.org/schema"}), "$defs"),
            (json!({"properties": {"a": {"$ref": "file:///etc/passwd"}}}), "$defs"),
            (json!({"$ref": "#/$defs/none"}), "none"),
            (json!({"pattern": "(?=a)b"}), "pattern"),
            (json!({"$ref": "#"}), "leads to itself"),
            (
                json!({"allOf": [{"$ref": "#/$defs/a"}],
                    "$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"anyOf": [{"$ref": "#/$defs/a"}]}}}),
                "leads to itself",
            ),
            (deep, "nested"),
            (json!(7), "JSON Schema"),
        ];
        for (bad, hint) in cases {
            let error = schema(&bad).unwrap_err();
            assert_eq!(error.field(), Some("schema"));
            assert!(error.to_string().contains(hint), "{bad}: {error}");
        }
        assert_eq!(Schema::read("{").unwrap_err().field(), Some("schema"));
    }

    #[test]
    fn a_schema_may_refer_to_itself_one_step_further_into_the_payload() {
        let tree = schema(&json!({
            "type": "object",
            "properties": {"below": {"type": "array", "items": {"$ref": "#"}}},
        }))
        .unwrap();
        tree.check(Some(&Part::new(r#"{"below": [{"below": []}]}"#))).unwrap();
        let (at, _) = refused(&tree, r#"{"below": [{"below": [7]}]}"#);
        assert_eq!(at, "payload/below/0/below/0");
    }
}
