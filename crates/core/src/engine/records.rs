//! Records: small versioned documents and bounded append logs, for whatever services and operators
//! must share (schedules, keys, audit, breakers, leadership, samples).

use super::Cursor;
use crate::error::{Result, within_limit, within_range};
use crate::limits;
use crate::name::check_name;
use crate::time::Timestamp;
use bytes::Bytes;

/// What a write expects to find.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expect {
    /// Anything.
    Any,
    /// No such record.
    Absent,
    /// Exactly this version.
    Version(u64),
}

impl Expect {
    /// Whether a record at `version` (0: absent) is what was expected.
    pub const fn holds(self, version: u64) -> bool {
        match self {
            Self::Any => true,
            Self::Absent => version == 0,
            Self::Version(expected) => version == expected,
        }
    }

    /// The version it names, 0 for absent.
    pub const fn version(self) -> u64 {
        match self {
            Self::Any | Self::Absent => 0,
            Self::Version(version) => version,
        }
    }
}

/// One operation.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum RecordOp {
    /// Read a record.
    Get {
        /// Its name.
        key: String,
    },
    /// Write a record.
    Put {
        /// Its name.
        key: String,
        /// Its new content.
        value: Bytes,
        /// What it must be like now.
        expect: Expect,
    },
    /// Remove a record.
    Delete {
        /// Its name.
        key: String,
        /// What it must be like now.
        expect: Expect,
    },
    /// List the records whose names start with `prefix`, in order of name.
    List {
        /// How their names start; may be empty.
        prefix: String,
        /// After this place.
        after: Option<Cursor>,
        /// At most so many.
        limit: u32,
    },
    /// Add entries to a log, keeping its latest `keep`.
    Append {
        /// The log's name.
        log: String,
        /// What to add.
        entries: Vec<Bytes>,
        /// How many entries the log keeps.
        keep: u32,
    },
    /// Read a log. Fewer entries than asked for means: that is all, for now.
    Read {
        /// The log's name.
        log: String,
        /// Entries after this number; 0 begins with the oldest that is kept.
        after: u64,
        /// At most so many.
        limit: u32,
    },
}

impl RecordOp {
    /// Whether it is acceptable.
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

/// A record as it is stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// Its name.
    pub key: String,
    /// Counts its writes; never 0, and never the same again for another content.
    pub version: u64,
    /// Its content.
    pub value: Bytes,
    /// When it was written.
    pub updated_at: Timestamp,
}

/// An entry of a log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogEntry {
    /// Its number in the log, rising without gaps; a gap while reading means entries fell off.
    pub number: u64,
    /// When it was added.
    pub at: Timestamp,
    /// Its content.
    pub value: Bytes,
}

/// The answer to one operation.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum RecordReply {
    /// To [`RecordOp::Get`].
    Record(Option<Record>),
    /// To [`RecordOp::Put`]: the new version.
    Written {
        /// The version now.
        version: u64,
    },
    /// To [`RecordOp::Delete`]: whether there was one.
    Deleted(bool),
    /// To [`RecordOp::List`].
    Records(super::Page<Record>),
    /// To [`RecordOp::Append`]: the number of the last entry added.
    Appended {
        /// That number.
        last: u64,
    },
    /// To [`RecordOp::Read`], oldest first.
    Entries(Vec<LogEntry>),
}
