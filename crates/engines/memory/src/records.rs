//! Records: versioned documents and bounded logs.

use crate::rows::bad_cursor;
use bytes::Bytes;
use std::collections::{BTreeMap, VecDeque};
use std::ops::Bound;
use windlass_core::engine::{Cursor, Expect, LogEntry, Page, Record, RecordOp, RecordReply};
use windlass_core::{Error, Result, Timestamp};

/// Prefix of cursors, because the key of a record alone could be any text.
const CURSOR_PREFIX: &str = "after:";

#[derive(Debug, Default)]
pub(crate) struct Records {
    documents: BTreeMap<String, Record>,
    logs: BTreeMap<String, Log>,
    /// The latest version of any document; shared, so that no version is ever reused.
    version: u64,
}

#[derive(Debug, Default)]
struct Log {
    last: u64,
    entries: VecDeque<LogEntry>,
}

impl Records {
    pub(crate) fn perform(&mut self, op: RecordOp, now: Timestamp) -> Result<RecordReply> {
        match op {
            RecordOp::Get { key } => Ok(RecordReply::Record(self.documents.get(&key).cloned())),
            RecordOp::Put { key, value, expect } => {
                self.expect(&key, expect)?;
                Ok(self.put(key, value, now))
            }
            RecordOp::Delete { key, expect } => {
                self.expect(&key, expect)?;
                Ok(RecordReply::Deleted(self.documents.remove(&key).is_some()))
            }
            RecordOp::List { prefix, after, limit } => {
                Ok(RecordReply::Records(self.list(&prefix, after.as_ref(), limit)?))
            }
            RecordOp::Append { log, entries, keep } => Ok(self.append(log, entries, keep, now)),
            RecordOp::Read { log, after, limit } => {
                Ok(RecordReply::Entries(self.read(&log, after, limit)))
            }
            _ => Err(Error::invalid("op", "?", "this engine is older than the request")),
        }
    }

    fn expect(&self, key: &str, expect: Expect) -> Result<()> {
        let found = self.documents.get(key).map_or(0, |record| record.version);
        if expect.holds(found) {
            return Ok(());
        }
        Err(Error::VersionConflict { key: key.to_owned(), expected: expect.version(), found })
    }

    fn put(&mut self, key: String, value: Bytes, now: Timestamp) -> RecordReply {
        self.version += 1;
        let version = self.version;
        let record = Record { key: key.clone(), version, value, updated_at: now };
        self.documents.insert(key, record);
        RecordReply::Written { version }
    }

    fn list(&self, prefix: &str, after: Option<&Cursor>, limit: u32) -> Result<Page<Record>> {
        let key = |cursor: &Cursor| match cursor.as_str().strip_prefix(CURSOR_PREFIX) {
            Some(key) => Ok(key.to_owned()),
            None => Err(bad_cursor(cursor)),
        };
        let after = after.map(key).transpose()?;
        let from = after.as_deref().map_or(Bound::Included(prefix), Bound::Excluded);
        let mut found = self
            .documents
            .range::<str, _>((from, Bound::Unbounded))
            .map(|(_, record)| record)
            .skip_while(|record| record.key.as_str() < prefix)
            .take_while(|record| record.key.starts_with(prefix));
        let rows: Vec<Record> = found.by_ref().take(limit as usize).cloned().collect();
        let next = found
            .next()
            .and(rows.last())
            .map(|record| Cursor::new(format!("{CURSOR_PREFIX}{}", record.key)));
        Ok(Page::new(rows, next))
    }

    fn append(&mut self, log: String, values: Vec<Bytes>, keep: u32, at: Timestamp) -> RecordReply {
        let log = self.logs.entry(log).or_default();
        for value in values {
            log.last += 1;
            log.entries.push_back(LogEntry { number: log.last, at, value });
        }
        let surplus = log.entries.len().saturating_sub(keep as usize);
        log.entries.drain(..surplus);
        RecordReply::Appended { last: log.last }
    }

    fn read(&self, log: &str, after: u64, limit: u32) -> Vec<LogEntry> {
        let entries = self.logs.get(log).into_iter().flat_map(|log| &log.entries);
        let unread = entries.skip_while(|entry| entry.number <= after);
        unread.take(limit as usize).cloned().collect()
    }
}
