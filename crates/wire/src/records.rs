//! Records and logs, which services and operators share.

use crate::bounded;
#[cfg(feature = "openapi")]
use crate::openapi;
use crate::part::{bytes_in, bytes_out};
use crate::present;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::value::RawValue;
use windlass_core::engine::{self, Cursor, Expect};
use windlass_core::limits::{BATCH_MAX, PAGE_DEFAULT};
use windlass_core::{Error, Result, Timestamp};

/// A small document or a log entry: JSON, or bytes in base64.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema), schema(as = RecordValue))]
#[serde(deny_unknown_fields)]
pub struct Value {
    /// The bytes, if they are JSON.
    #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = openapi::Json))]
    pub json: Option<Box<RawValue>>,
    /// The bytes in base64, if they are not JSON.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<openapi::Base64>))]
    pub base64: Option<String>,
}

impl Value {
    fn new(bytes: &bytes::Bytes) -> Self {
        let (json, base64) = bytes_out(bytes);
        Self { json, base64 }
    }

    fn into_core(self) -> Result<bytes::Bytes> {
        let needed = || Error::invalid("value", "{}", "give `json` or `base64`");
        bytes_in(self.json, self.base64, "value")?.ok_or_else(needed)
    }
}

/// One operation on a record or a log.
///
/// `expect` is the version that a write requires: 0 if the record must not exist, absent for any.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
#[expect(missing_docs, reason = "documented at core's `RecordOp`")]
pub enum RecordOp {
    Get {
        #[cfg_attr(feature = "openapi", schema(value_type = openapi::Name))]
        key: String,
    },
    Put {
        #[cfg_attr(feature = "openapi", schema(value_type = openapi::Name))]
        key: String,
        #[cfg_attr(feature = "openapi", schema(value_type = openapi::RecordValue))]
        value: Value,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        #[cfg_attr(feature = "openapi", schema(value_type = Option<openapi::Whole>))]
        expect: Option<u64>,
    },
    Delete {
        #[cfg_attr(feature = "openapi", schema(value_type = openapi::Name))]
        key: String,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        #[cfg_attr(feature = "openapi", schema(value_type = Option<openapi::Whole>))]
        expect: Option<u64>,
    },
    List {
        #[serde(default)]
        prefix: String,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        #[cfg_attr(feature = "openapi", schema(value_type = Option<openapi::Cursor>))]
        after: Option<Cursor>,
        #[serde(default = "page")]
        #[cfg_attr(feature = "openapi", schema(value_type = openapi::PageLimit))]
        limit: u32,
    },
    Append {
        #[cfg_attr(feature = "openapi", schema(value_type = openapi::Name))]
        log: String,
        #[cfg_attr(feature = "openapi", schema(value_type = Vec<openapi::RecordValue>, max_items = 10000))]
        #[serde(deserialize_with = "bounded::vec::<BATCH_MAX, _, _>")]
        entries: Vec<Value>,
        #[cfg_attr(feature = "openapi", schema(value_type = openapi::LogKeep))]
        keep: u32,
    },
    Read {
        #[cfg_attr(feature = "openapi", schema(value_type = openapi::Name))]
        log: String,
        #[serde(default)]
        #[cfg_attr(feature = "openapi", schema(value_type = openapi::Whole))]
        after: u64,
        #[serde(default = "page")]
        #[cfg_attr(feature = "openapi", schema(value_type = openapi::PageLimit))]
        limit: u32,
    },
}

const fn page() -> u32 {
    PAGE_DEFAULT
}

/// A batch of operations, executed in order.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[cfg_attr(
    feature = "openapi",
    derive(utoipa::ToSchema),
    schema(examples(json!({
        "items": [
            {"put": {"key": "flags/new-checkout", "value": {"json": true}}},
            {"get": {"key": "flags/new-checkout"}}
        ]
    })))
)]
#[serde(deny_unknown_fields)]
pub struct RecordBatch {
    /// The operations.
    #[serde(deserialize_with = "operations")]
    #[cfg_attr(feature = "openapi", schema(max_items = 10000))]
    pub items: Vec<RecordOp>,
}

/// Deserializes operations, with a limit for the total number of log entries.
fn operations<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<RecordOp>, D::Error> {
    bounded::nested(deserializer, BATCH_MAX, RecordOp::entries, BATCH_MAX)
}

impl RecordBatch {
    /// Checks that the total number of log entries is within its limit.
    pub fn check(&self) -> Result<()> {
        let size = self.items.iter().map(RecordOp::entries).sum::<usize>();
        if size <= BATCH_MAX {
            return Ok(());
        }
        let (limit, hint) = (BATCH_MAX as u64, "split the batch");
        Err(Error::TooLarge { field: "entries".into(), size: size as u64, limit, hint })
    }
}

const fn expect_in(expect: Option<u64>) -> Expect {
    match expect {
        None => Expect::Any,
        Some(0) => Expect::Absent,
        Some(version) => Expect::Version(version),
    }
}

const fn expect_out(expect: Expect) -> Option<u64> {
    match expect {
        Expect::Any => None,
        Expect::Absent => Some(0),
        Expect::Version(version) => Some(version),
    }
}

impl RecordOp {
    /// The number of log entries to append.
    const fn entries(&self) -> usize {
        if let Self::Append { entries, .. } = self { entries.len() } else { 0 }
    }

    /// Converts to the core operation.
    pub fn into_core(self) -> Result<engine::RecordOp> {
        Ok(match self {
            Self::Get { key } => engine::RecordOp::Get { key },
            Self::Put { key, value, expect } => {
                let (value, expect) = (value.into_core()?, expect_in(expect));
                engine::RecordOp::Put { key, value, expect }
            }
            Self::Delete { key, expect } => {
                engine::RecordOp::Delete { key, expect: expect_in(expect) }
            }
            Self::List { prefix, after, limit } => engine::RecordOp::List { prefix, after, limit },
            Self::Append { log, entries, keep } => {
                let entries = entries.into_iter().map(Value::into_core).collect::<Result<_>>()?;
                engine::RecordOp::Append { log, entries, keep }
            }
            Self::Read { log, after, limit } => engine::RecordOp::Read { log, after, limit },
        })
    }
}

impl TryFrom<engine::RecordOp> for RecordOp {
    type Error = Error;

    /// Fails for operations in core that this protocol version cannot express.
    fn try_from(op: engine::RecordOp) -> Result<Self> {
        Ok(match op {
            engine::RecordOp::Get { key } => Self::Get { key },
            engine::RecordOp::Put { key, value, expect } => {
                Self::Put { key, value: Value::new(&value), expect: expect_out(expect) }
            }
            engine::RecordOp::Delete { key, expect } => {
                Self::Delete { key, expect: expect_out(expect) }
            }
            engine::RecordOp::List { prefix, after, limit } => Self::List { prefix, after, limit },
            engine::RecordOp::Append { log, entries, keep } => {
                Self::Append { log, entries: entries.iter().map(Value::new).collect(), keep }
            }
            engine::RecordOp::Read { log, after, limit } => Self::Read { log, after, limit },
            other => {
                let expected = "this protocol version does not support it";
                return Err(Error::invalid("items", format!("{other:?}"), expected));
            }
        })
    }
}

/// A stored record.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Record {
    /// Key of the record.
    pub key: String,
    /// Number of writes.
    pub version: u64,
    /// The content.
    #[cfg_attr(feature = "openapi", schema(value_type = openapi::RecordValue))]
    pub value: Value,
    /// Time of the last write.
    #[cfg_attr(feature = "openapi", schema(value_type = openapi::Timestamp))]
    pub updated_at: Timestamp,
}

impl From<engine::Record> for Record {
    fn from(record: engine::Record) -> Self {
        let engine::Record { key, version, value, updated_at } = record;
        Self { key, version, value: Value::new(&value), updated_at }
    }
}

impl Record {
    fn into_core(self) -> Result<engine::Record> {
        let Self { key, version, value, updated_at } = self;
        Ok(engine::Record { key, version, value: value.into_core()?, updated_at })
    }
}

/// An entry of a log.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct LogEntry {
    /// Number of the entry in the log.
    pub number: u64,
    /// Time of the append.
    #[cfg_attr(feature = "openapi", schema(value_type = openapi::Timestamp))]
    pub at: Timestamp,
    /// The content.
    #[cfg_attr(feature = "openapi", schema(value_type = openapi::RecordValue))]
    pub value: Value,
}

impl From<engine::LogEntry> for LogEntry {
    fn from(entry: engine::LogEntry) -> Self {
        let engine::LogEntry { number, at, value } = entry;
        Self { number, at, value: Value::new(&value) }
    }
}

impl LogEntry {
    fn into_core(self) -> Result<engine::LogEntry> {
        let Self { number, at, value } = self;
        Ok(engine::LogEntry { number, at, value: value.into_core()? })
    }
}

/// The result of one operation of a batch.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct RecordAnswer {
    /// The reply.
    pub reply: RecordReply,
}

/// The reply to one operation.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
#[expect(missing_docs, reason = "documented at core's `RecordReply`")]
pub enum RecordReply {
    Record(Option<Record>),
    Written {
        version: u64,
    },
    Deleted(bool),
    Records {
        rows: Vec<Record>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        #[cfg_attr(feature = "openapi", schema(value_type = Option<openapi::Cursor>))]
        next: Option<Cursor>,
    },
    Appended {
        last: u64,
    },
    Entries(Vec<LogEntry>),
}

impl TryFrom<engine::RecordReply> for RecordReply {
    type Error = Error;

    /// Fails for replies in core that this protocol version cannot express.
    fn try_from(reply: engine::RecordReply) -> Result<Self> {
        Ok(match reply {
            engine::RecordReply::Record(record) => Self::Record(record.map(Into::into)),
            engine::RecordReply::Written { version } => Self::Written { version },
            engine::RecordReply::Deleted(deleted) => Self::Deleted(deleted),
            engine::RecordReply::Records(engine::Page { rows, next, .. }) => {
                Self::Records { rows: rows.into_iter().map(Into::into).collect(), next }
            }
            engine::RecordReply::Appended { last } => Self::Appended { last },
            engine::RecordReply::Entries(entries) => {
                Self::Entries(entries.into_iter().map(Into::into).collect())
            }
            other => {
                let expected = "this protocol version does not support it";
                return Err(Error::invalid("items", format!("{other:?}"), expected));
            }
        })
    }
}

impl RecordReply {
    /// Converts to the core reply.
    pub fn into_core(self) -> Result<engine::RecordReply> {
        Ok(match self {
            Self::Record(record) => {
                engine::RecordReply::Record(record.map(Record::into_core).transpose()?)
            }
            Self::Written { version } => engine::RecordReply::Written { version },
            Self::Deleted(deleted) => engine::RecordReply::Deleted(deleted),
            Self::Records { rows, next } => {
                let rows = rows.into_iter().map(Record::into_core).collect::<Result<_>>()?;
                engine::RecordReply::Records(engine::Page::new(rows, next))
            }
            Self::Appended { last } => engine::RecordReply::Appended { last },
            Self::Entries(entries) => {
                let entries =
                    entries.into_iter().map(LogEntry::into_core).collect::<Result<_>>()?;
                engine::RecordReply::Entries(entries)
            }
        })
    }
}
