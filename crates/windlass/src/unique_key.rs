//! Unique keys from payloads, for `#[job(unique)]`: a hash that is the same in every process, on every
//! machine and for every order of fields.
//!
//! The key is `fields:` and the first 32 hexadecimal digits of the SHA-256 of the kind, a line feed, and the
//! canonical JSON of the fields. Canonical JSON has the members of every object sorted by name and no white
//! space, so that any language can compute the same key:
//!
//! ```sh
//! printf 'report\n{"account":7,"month":"2027-01"}' | sha256sum | cut -c1-32
//! ```

use serde::Serialize;
use serde_json::{Map, Value};
use sha2::{Digest as _, Sha256};
use std::fmt::Write as _;
use windlass_core::{Error, Result};

/// Number of bytes of the hash in a key: 128 bits make accidental and constructed collisions impractical.
const HASH_BYTES: usize = 16;

/// The key of a whole payload.
pub fn unique_key<T: Serialize + ?Sized>(kind: &str, payload: &T) -> Result<String> {
    Ok(key(kind, &value("payload", payload)?))
}

/// The fields of a payload that make up its key.
#[derive(Debug, Default)]
pub struct UniqueFields(Map<String, Value>);

impl UniqueFields {
    /// Adds a field.
    pub fn with<T: Serialize + ?Sized>(mut self, name: &'static str, field: &T) -> Result<Self> {
        self.0.insert(name.to_owned(), value(name, field)?);
        Ok(self)
    }

    /// The key.
    pub fn key(self, kind: &str) -> String {
        key(kind, &Value::Object(self.0))
    }
}

fn value<T: Serialize + ?Sized>(name: &'static str, value: &T) -> Result<Value> {
    serde_json::to_value(value).map_err(|error| {
        Error::invalid("unique", name, format!("it cannot be written as JSON: {error}"))
    })
}

fn key(kind: &str, value: &Value) -> String {
    let mut text = String::from(kind);
    text.push('\n');
    write_canonical(value, &mut text);
    let hash = Sha256::digest(text.as_bytes());
    let mut key = String::from("fields:");
    for byte in &hash[..HASH_BYTES] {
        // Writing to a String cannot fail.
        let _ = write!(key, "{byte:02x}");
    }
    key
}

/// Writes JSON with sorted members. `serde_json` itself keeps the order of insertion if any crate of the
/// program enables its feature `preserve_order`.
fn write_canonical(value: &Value, out: &mut String) {
    let mut separator = "";
    match value {
        Value::Object(members) => {
            let mut members: Vec<_> = members.iter().collect();
            members.sort_unstable_by_key(|(name, _)| name.as_str());
            out.push('{');
            for (name, value) in members {
                out.push_str(separator);
                // Displays a string as JSON, with its escapes.
                let _ = write!(out, "{}:", Value::from(name.as_str()));
                write_canonical(value, out);
                separator = ",";
            }
            out.push('}');
        }
        Value::Array(items) => {
            out.push('[');
            for item in items {
                out.push_str(separator);
                write_canonical(item, out);
                separator = ",";
            }
            out.push(']');
        }
        scalar => {
            let _ = write!(out, "{scalar}");
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "unwrapping is how a test says that this must hold")]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn keys_are_the_same_in_every_version_and_language() {
        // printf 'report\n{"account":7,"month":"2027-01"}' | sha256sum | cut -c1-32
        let fields = UniqueFields::default().with("month", "2027-01").unwrap();
        let fields = fields.with("account", &7).unwrap();
        assert_eq!(fields.key("report"), "fields:1ef0d2c058fb26cc908403c6487f1c6f");
        // printf 'k\n{"a":[1,{"x":null,"y":"\\u0001\\"ü"}],"b":{}}' | sha256sum | cut -c1-32
        let odd = json!({ "b": {}, "a": [1, { "y": "\u{1}\"ü", "x": null }] });
        assert_eq!(unique_key("k", &odd).unwrap(), "fields:1e8bd937b0e9e510def4bddba6a437e8");
    }

    #[test]
    fn kinds_and_values_make_different_keys() {
        let key = |kind: &str, value: Value| unique_key(kind, &value).unwrap();
        assert_ne!(key("a", json!({ "x": 1 })), key("b", json!({ "x": 1 })));
        assert_ne!(key("a", json!({ "x": 1 })), key("a", json!({ "x": "1" })));
        assert_ne!(key("a", json!([1, 2])), key("a", json!([2, 1])));
    }
}
