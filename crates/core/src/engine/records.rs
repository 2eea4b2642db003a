//! Records: small versioned documents and bounded append logs, for data that services and operators share
//! (schedules, keys, audit, breakers, leadership, samples).

use super::Cursor;
use crate::error::{Result, within_limit, within_range};
use crate::limits;
use crate::name::check_name;
use crate::time::Timestamp;
use bytes::Bytes;

/// The precondition of a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expect {
    /// None.
    Any,
    /// The record does not exist.
    Absent,
    /// The record has exactly this version.
    Version(u64),
}

impl Expect {
    /// Whether a record at `version` (0: absent) satisfies the precondition.
    pub const fn holds(self, version: u64) -> bool {
        match self {
            Self::Any => true,
            Self::Absent => version == 0,
            Self::Version(expected) => version == expected,
        }
    }

    /// The expected version, 0 for absent.
    pub const fn version(self) -> u64 {
        match self {
            Self::Any | Self::Absent => 0,
            Self::Version(version) => version,
        }
    }
}

/// An operation on a record or log.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum RecordOp {
    /// Read a record.
    Get {
        /// Key of the record.
        key: String,
    },
    /// Write a record.
    Put {
        /// Key of the record.
        key: String,
        /// Its new content.
        value: Bytes,
        /// The precondition.
        expect: Expect,
    },
    /// Remove a record.
    Delete {
        /// Key of the record.
        key: String,
        /// The precondition.
        expect: Expect,
    },
    /// List the records whose keys start with `prefix`, ordered by key.
    List {
        /// Prefix of the keys; may be empty.
        prefix: String,
        /// Continue after this cursor.
        after: Option<Cursor>,
        /// Maximum number of records.
        limit: u32,
    },
    /// Append entries to a log and keep its latest `keep`.
    Append {
        /// The log's name.
        log: String,
        /// The entries.
        entries: Vec<Bytes>,
        /// Number of entries that the log keeps.
        keep: u32,
    },
    /// Read a log. Fewer entries than `limit` mean that there are no more for now.
    Read {
        /// The log's name.
        log: String,
        /// Entries after this number; 0 starts with the oldest one kept.
        after: u64,
        /// Maximum number of entries.
        limit: u32,
    },
}

impl RecordOp {
    /// Validates the operation.
    pub fn check(&self) -> Result<()> {
        let value = |bytes: &Bytes| {
            let hint = "records are small; keep data in jobs or elsewhere";
            within_limit("value", bytes.len(), limits::RECORD_BYTES_MAX, hint)
        };
        let page = |limit: u32| within_range("limit", limit.into(), 1..=limits::PAGE_MAX.into());
        match self {
            Self::Get { key } | Self::Delete { key, .. } => check_name("key", key),
            Self::Put { key, value: bytes, .. } => {
                check_name("key", key).and_then(|()| value(bytes))
            }
            Self::List { prefix, limit, .. } => {
                if !prefix.is_empty() {
                    check_name("prefix", prefix)?;
                }
                page(*limit)
            }
            Self::Append { log, entries, keep } => {
                check_name("log", log)?;
                within_range("keep", (*keep).into(), 1..=limits::LOG_KEEP_MAX.into())?;
                within_limit("entries", entries.len(), limits::BATCH_MAX, "split the batch")?;
                entries.iter().try_for_each(value)
            }
            Self::Read { log, limit, .. } => check_name("log", log).and_then(|()| page(*limit)),
        }
    }
}

/// A stored record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// Its key.
    pub key: String,
    /// Increases with every write; never 0, and never reused for other content.
    pub version: u64,
    /// Its content.
    pub value: Bytes,
    /// Time of the last write.
    pub updated_at: Timestamp,
}

/// An entry of a log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogEntry {
    /// Its number, increasing without gaps; a gap while reading means that entries were dropped.
    pub number: u64,
    /// Time of the append.
    pub at: Timestamp,
    /// Its content.
    pub value: Bytes,
}

/// The result of one operation.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum RecordReply {
    /// Result of [`RecordOp::Get`].
    Record(Option<Record>),
    /// Result of [`RecordOp::Put`].
    Written {
        /// The new version.
        version: u64,
    },
    /// Result of [`RecordOp::Delete`]: whether the record existed.
    Deleted(bool),
    /// Result of [`RecordOp::List`].
    Records(super::Page<Record>),
    /// Result of [`RecordOp::Append`].
    Appended {
        /// Number of the last appended entry.
        last: u64,
    },
    /// Result of [`RecordOp::Read`], oldest entry first.
    Entries(Vec<LogEntry>),
}
