//! The name of a schema, and the rendering of SQL texts: the schema's name and constants of Rust in place of their
//! placeholders.
//!
//! `{s}` is the schema as an identifier, `{'s'}` and `{'s.entry'}` are string literals of the schema's or an object's
//! qualified name, and every other known `{name}` is a constant. So the numbers of states, flags and limits are written
//! in Rust only. Unknown braces stay as they are.

use crate::retention::partitions::OLD_ID_MS;
use crate::rows::entries::SEQ_BITS;
use crate::rows::lanes::{DOOMED_MS, USED_MS};
use crate::slow::load::{COSTLY, EXPIRES, PLAIN, PLAIN_ALONE, PLAIN_IN_GROUP, REMOVED, SUSPECT};
use std::collections::HashMap;
use std::sync::LazyLock;
use windlass_core::engine::OTHER_TENANT;
use windlass_core::limits::*;
use windlass_core::machine::EventKind;
use windlass_core::model::{PartName, State};
use windlass_core::time::HOUR_MS;
use windlass_core::{Error, Result};
use windlass_executor::UniqueHold;

/// Maximum bytes in the name of a schema: PostgreSQL truncates longer identifiers.
const SCHEMA_NAME_BYTES_MAX: usize = 63;

/// The values of placeholders.
static CONSTANTS: LazyLock<HashMap<&'static str, String>> = LazyLock::new(|| {
    let states = State::ALL.map(|state| (state.as_str(), (state as i16).to_string()));
    let names = State::ALL.map(|state| format!("'{state}'")).join(", ");
    let numbers: [(&str, i64); 51] = [
        ("flag_suspect", SUSPECT.into()),
        ("flag_plain", PLAIN.into()),
        ("flag_plain_alone", PLAIN_ALONE.into()),
        ("flag_plain_in_group", PLAIN_IN_GROUP.into()),
        ("flag_costly", COSTLY.into()),
        ("expires", EXPIRES.into()),
        ("removed", REMOVED.into()),
        ("seq_bits", SEQ_BITS.into()),
        ("lane_used_ms", USED_MS.cast_signed()),
        ("lane_doomed_ms", DOOMED_MS.cast_signed()),
        ("lanes_per_queue_max", LANES_PER_QUEUE_MAX as i64),
        ("enqueue_batch_max", ENQUEUE_BATCH_MAX as i64),
        ("payload_bytes_default", PAYLOAD_BYTES_DEFAULT as i64),
        ("json_depth_max", JSON_DEPTH_MAX as i64),
        ("name_bytes_max", NAME_BYTES_MAX as i64),
        ("name_rest_bytes_max", NAME_BYTES_MAX as i64 - 1),
        ("key_bytes_max", KEY_BYTES_MAX as i64),
        ("group_bytes_max", GROUP_BYTES_MAX as i64),
        ("cost_max", LIMIT_AMOUNT_MAX.into()),
        ("tags_max", TAGS_MAX as i64),
        ("tag_bytes_max", TAG_BYTES_MAX as i64),
        ("trace_bytes_max", TRACE_BYTES_MAX as i64),
        ("delay_max_ms", DELAY_MAX_MS.cast_signed()),
        ("timeout_max_ms", TIMEOUT_MAX_MS.cast_signed()),
        ("max_attempts_max", MAX_ATTEMPTS_MAX.into()),
        ("max_attempts_default", MAX_ATTEMPTS_DEFAULT.into()),
        ("max_crashes_max", MAX_CRASHES_MAX.into()),
        ("max_crashes_default", MAX_CRASHES_DEFAULT.into()),
        ("age_max_ms", AGE_MAX_MS.cast_signed()),
        ("backoff_max_ms", BACKOFF_MAX_MS.cast_signed()),
        ("backoff_base_default_ms", BACKOFF_BASE_DEFAULT_MS.cast_signed()),
        ("backoff_cap_default_ms", BACKOFF_CAP_DEFAULT_MS.cast_signed()),
        ("backoff_jitter_default_ms", BACKOFF_JITTER_DEFAULT_MS.cast_signed()),
        ("retention_finished_default_ms", RETENTION_FINISHED_DEFAULT_MS.cast_signed()),
        ("retention_dead_default_ms", RETENTION_DEAD_DEFAULT_MS.cast_signed()),
        ("retention_expired_default_ms", RETENTION_EXPIRED_DEFAULT_MS.cast_signed()),
        ("checkpoint_bytes_max", CHECKPOINT_BYTES_MAX as i64),
        ("blob_bytes_max", BLOB_BYTES_MAX as i64),
        ("metadata_bytes_max", METADATA_BYTES_MAX as i64),
        ("result_bytes_max", RESULT_BYTES_MAX as i64),
        ("id_skew_max_ms", ID_SKEW_MAX_MS.cast_signed()),
        ("old_id_ms", OLD_ID_MS.cast_signed()),
        ("part_payload", PartName::Payload as i64),
        ("part_checkpoint", PartName::Checkpoint as i64),
        ("part_blob", PartName::Blob as i64),
        ("part_metadata", PartName::Metadata as i64),
        ("while_stored", UniqueHold::WHILE_STORED.as_millis()),
        ("hour_ms", HOUR_MS.cast_signed()),
        ("removed_tenants_max", REMOVED_TENANTS_MAX as i64),
        ("rank_min", i64::MIN),
        ("rank_max", i64::MAX),
    ];
    let numbers = numbers.map(|(name, number)| (name, number.to_string()));
    let texts = [
        ("state_names", names),
        ("other_tenant", OTHER_TENANT.to_owned()),
        ("event_enqueue", EventKind::Enqueue.name().to_owned()),
    ];
    states.into_iter().chain(numbers).chain(texts).collect()
});

/// A schema.
#[derive(Clone, Debug)]
pub(crate) struct Schema {
    name: String,
    quoted: String,
}

impl Schema {
    /// The schema of this name, if PostgreSQL and our function bodies allow it.
    pub(crate) fn new(name: &str) -> Result<Self> {
        let fits = |c: char| !c.is_control() && !"{}$".contains(c);
        let reserved = name.starts_with("pg_") || name == "information_schema";
        let bytes = 1..=SCHEMA_NAME_BYTES_MAX;
        if !bytes.contains(&name.len()) || reserved || !name.chars().all(fits) {
            let expected = "use 1 to 63 bytes without control characters, braces and dollar signs, and no name \
                reserved by PostgreSQL";
            return Err(Error::invalid("schema", name, expected));
        }
        Ok(Self { name: name.to_owned(), quoted: format!("\"{}\"", name.replace('"', "\"\"")) })
    }

    /// The name.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// The name as an identifier in SQL.
    pub(crate) fn quoted(&self) -> &str {
        &self.quoted
    }

    /// An SQL text with all placeholders replaced.
    pub(crate) fn render(&self, sql: &str) -> String {
        let mut out = String::with_capacity(sql.len() + 1_024);
        let mut rest = sql;
        while let Some((before, after)) = rest.split_once('{') {
            out.push_str(before);
            let value =
                after.split_once('}').and_then(|(name, after)| Some((self.value(name)?, after)));
            match value {
                Some((value, after)) => {
                    out.push_str(&value);
                    rest = after;
                }
                None => {
                    out.push('{');
                    rest = after;
                }
            }
        }
        out + rest
    }

    /// The value of a placeholder.
    fn value(&self, name: &str) -> Option<String> {
        if name == "s" {
            return Some(self.quoted.clone());
        }
        if let Some(object) = name.strip_prefix("'s").and_then(|object| object.strip_suffix('\'')) {
            return Some(literal(&format!("{}{object}", self.quoted)));
        }
        CONSTANTS.get(name).cloned()
    }
}

/// A string literal, whatever the setting `standard_conforming_strings`.
pub(crate) fn literal(text: &str) -> String {
    let quoted = text.replace('\'', "''");
    match text.contains('\\') {
        true => format!(" E'{}'", quoted.replace('\\', "\\\\")),
        false => format!("'{quoted}'"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_quoted_as_identifiers_and_as_literals() {
        let schema = Schema::new("My jobs; DROP TABLE x").unwrap();
        assert_eq!(schema.render("{s}.job"), "\"My jobs; DROP TABLE x\".job");
        let schema = Schema::new(r#"a"b'c\d%e"#).unwrap();
        assert_eq!(schema.render("{s}.job"), r#""a""b'c\d%e".job"#);
        assert_eq!(schema.render("nextval({'s.entry'})"), r#"nextval( E'"a""b''c\\d%e".entry')"#);
        assert_eq!(Schema::new("q").unwrap().render("({'s'})"), "('\"q\"')");
    }

    #[test]
    fn constants_are_replaced_and_other_braces_stay() {
        let schema = Schema::new("q").unwrap();
        assert_eq!(schema.render("state = {dead} {0,3} '{}' {"), "state = 6 {0,3} '{}' {");
        assert_eq!(schema.render("{{json_depth_max}}"), "{100}");
        assert!(schema.render("{state_names}").starts_with("'scheduled', 'blocked'"));
    }

    #[test]
    fn names_that_cannot_be_used_are_refused() {
        let long = "x".repeat(64);
        for name in ["", "pg_catalog", "information_schema", "a\0b", "{s}", "a$$b", &long] {
            assert_eq!(Schema::new(name).unwrap_err().field(), Some("schema"), "{name:?}");
        }
    }
}
