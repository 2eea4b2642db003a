//! Records: versioned documents and bounded logs. Independent of jobs.

use crate::conn::error::{Trouble, Try};
use crate::conn::library::Function;
use crate::conn::script::{Commands, Reads};
use crate::engine::RedisEngine;
use crate::rows::small;
use crate::slow::transaction::{Loaded, Transaction};
use bytes::Bytes;
use std::collections::BTreeMap;
use windlass_core::engine::{
    Cursor, Expect, Item, LogEntry, Page, Record, RecordOp, RecordReply, Stamped, check_items,
};
use windlass_core::{Error, Result, Timestamp};
use windlass_workset::codec::Decoded;
use windlass_workset::pack::{Pack, Unpack};

/// Prefix of our cursors, because a record's name could be any text.
const CURSOR_PREFIX: &str = "after:";
/// Maximum runs of a batch after conflicts.
const TRIES_MAX: u32 = 200;

/// Documents of a batch as its operations have changed them; `None`: absent.
type Documents = BTreeMap<String, Option<Record>>;

impl RedisEngine {
    /// Carries out operations in order: neighbouring operations on documents together, the others one by one.
    pub(crate) async fn perform_records(
        &self,
        batch: Vec<RecordOp>,
    ) -> Result<Stamped<Vec<Item<RecordReply>>>> {
        check_items(&batch)?;
        let mut items = Vec::with_capacity(batch.len());
        let mut stamp = None;
        for ops in batch.chunk_by(|one, two| is_of_document(one) && is_of_document(two)) {
            let Stamped { now, epoch, value } = self.try_records(ops).await?;
            stamp = Some((now, epoch));
            items.extend(value);
        }
        match stamp {
            Some((now, epoch)) => Ok(Stamped { now, epoch, value: items }),
            None => Ok(self.answers().await?.map(|()| items)),
        }
    }

    async fn try_records(&self, ops: &[RecordOp]) -> Result<Stamped<Vec<Item<RecordReply>>>> {
        for _ in 0..TRIES_MAX {
            let attempt = async {
                let transaction = self.inner.shared.begin().await?;
                let mut loaded = Loaded::default();
                let items = match ops {
                    [op] if !is_of_document(op) => {
                        vec![single(&transaction, op, &mut loaded).await?]
                    }
                    ops => documents(&transaction, ops, &mut loaded).await?,
                };
                let epoch = transaction.live.server.epoch.clone();
                Ok(Stamped { now: loaded.now, epoch, value: items })
            };
            match attempt.await {
                Ok(reply) => return Ok(reply),
                Err(Trouble::Conflict) => self.inner.shared.forget_settings(),
                Err(Trouble::Fatal(error)) => return Err(error),
            }
        }
        Err(Trouble::Conflict.into_error())
    }
}

/// Whether an operation concerns one document.
const fn is_of_document(op: &RecordOp) -> bool {
    matches!(op, RecordOp::Get { .. } | RecordOp::Put { .. } | RecordOp::Delete { .. })
}

fn key_of(op: &RecordOp) -> Option<&String> {
    match op {
        RecordOp::Get { key } | RecordOp::Put { key, .. } | RecordOp::Delete { key, .. } => {
            Some(key)
        }
        RecordOp::List { .. } | RecordOp::Append { .. } | RecordOp::Read { .. } => None,
        // Refused when it is carried out.
        _ => None,
    }
}

/// Carries out operations on documents in one transaction.
async fn documents(
    transaction: &Transaction<'_>,
    ops: &[RecordOp],
    loaded: &mut Loaded,
) -> Try<Vec<Item<RecordReply>>> {
    let keys = transaction.keys;
    let valid = |op: &&RecordOp| op.check().is_ok();
    let names: Vec<&String> = ops.iter().filter(valid).filter_map(key_of).collect();
    let mut reads = Reads::default();
    for name in &names {
        reads.expect("HGET", &keys.one("record"), &[name.as_bytes()]);
    }
    let version = reads.expect("GET", &keys.one("version"), &[]);
    let replies = transaction.read(reads, loaded).await?;
    let mut stored = Documents::new();
    for (at, name) in names.into_iter().enumerate() {
        let record = replies.bytes(at)?.map(|value| read_record(name, value)).transpose()?;
        stored.insert(name.clone(), record);
    }
    let before = replies.int(version)?.cast_unsigned();
    let (mut after, mut version) = (stored.clone(), before);
    let now = loaded.now;
    let items: Vec<Item<RecordReply>> =
        ops.iter().map(|op| perform(op, &mut after, &mut version, now)).collect();
    let mut writes = Commands::default();
    for (name, record) in after.iter().filter(|(name, record)| stored.get(*name) != Some(record)) {
        match record {
            Some(record) => {
                let value = write_record(record);
                writes.push("HSET", &keys.one("record"), &[name.as_bytes(), &value]);
                writes.push("ZADD", &keys.one("records"), &[b"0", name.as_bytes()]);
            }
            None => {
                writes.push("HDEL", &keys.one("record"), &[name.as_bytes()]);
                writes.push("ZREM", &keys.one("records"), &[name.as_bytes()]);
            }
        }
    }
    if version > before {
        writes.push("SET", &keys.one("version"), &[version.to_string().as_bytes()]);
    }
    transaction.commit(Function::Commit, writes).await?;
    Ok(items)
}

fn perform(
    op: &RecordOp,
    documents: &mut Documents,
    version: &mut u64,
    now: Timestamp,
) -> Item<RecordReply> {
    op.check()?;
    match op {
        RecordOp::Put { key, value, expect } => {
            check_version(documents, key, *expect)?;
            *version += 1;
            let record = Record {
                key: key.clone(),
                version: *version,
                value: value.clone(),
                updated_at: now,
            };
            documents.insert(key.clone(), Some(record));
            Ok(RecordReply::Written { version: *version })
        }
        RecordOp::Delete { key, expect } => {
            check_version(documents, key, *expect)?;
            let before = documents.insert(key.clone(), None);
            Ok(RecordReply::Deleted(before.flatten().is_some()))
        }
        RecordOp::Get { key } => Ok(RecordReply::Record(documents.get(key).cloned().flatten())),
        RecordOp::List { .. } | RecordOp::Append { .. } | RecordOp::Read { .. } => Err(newer()),
        _ => Err(newer()),
    }
}

fn check_version(documents: &Documents, key: &str, expect: Expect) -> Result<()> {
    let found = documents.get(key).and_then(Option::as_ref).map_or(0, |record| record.version);
    if expect.holds(found) {
        return Ok(());
    }
    Err(Error::VersionConflict { key: key.to_owned(), expected: expect.version(), found })
}

/// Carries out an operation that concerns several documents, or a log.
async fn single(
    transaction: &Transaction<'_>,
    op: &RecordOp,
    loaded: &mut Loaded,
) -> Try<Item<RecordReply>> {
    transaction.read(Reads::default(), loaded).await?;
    if let Err(error) = op.check() {
        return Ok(Err(error));
    }
    let done = match op {
        RecordOp::List { prefix, after, limit } => {
            list(transaction, prefix, after.as_ref(), *limit, loaded)
                .await
                .map(RecordReply::Records)
        }
        RecordOp::Append { log, entries, keep } => {
            append(transaction, log, entries, *keep, loaded).await
        }
        RecordOp::Read { log, after, limit } => {
            read(transaction, log, *after, *limit, loaded).await.map(RecordReply::Entries)
        }
        RecordOp::Get { .. } | RecordOp::Put { .. } | RecordOp::Delete { .. } => {
            Err(newer().into())
        }
        _ => Err(newer().into()),
    };
    match done {
        // A refusal fails this operation alone.
        Err(Trouble::Fatal(error)) if !matches!(error, Error::Unavailable { .. }) => Ok(Err(error)),
        done => done.map(Ok),
    }
}

fn newer() -> Error {
    Error::invalid("op", "?", "this engine is older than the request")
}

async fn list(
    transaction: &Transaction<'_>,
    prefix: &str,
    after: Option<&Cursor>,
    limit: u32,
    loaded: &mut Loaded,
) -> Try<Page<Record>> {
    let keys = transaction.keys;
    let key = |cursor: &Cursor| match cursor.as_str().strip_prefix(CURSOR_PREFIX) {
        Some(key) => Ok(key.to_owned()),
        None => {
            let expected = "use a cursor that an earlier page returned";
            Err(Error::invalid("cursor", cursor, expected))
        }
    };
    let after = after.map(key).transpose()?;
    let from = match after {
        Some(after) if after.as_str() >= prefix => format!("({after}"),
        _ => format!("[{prefix}"),
    };
    let to = [b"[", prefix.as_bytes(), &[0xFF]].concat();
    let (mut reads, most) = (Reads::default(), (limit + 1).to_string());
    let args: [&[u8]; 5] = [from.as_bytes(), &to, b"LIMIT", b"0", most.as_bytes()];
    reads.peek("ZRANGEBYLEX", &keys.one("records"), &args);
    let replies = transaction.read(reads, loaded).await?;
    let names = replies.members(0)?;
    let more = names.len() > limit as usize;
    let mut reads = Reads::default();
    for name in names.iter().take(limit as usize) {
        reads.peek("HGET", &keys.one("record"), &[name]);
    }
    let values = transaction.read(reads, loaded).await?;
    let mut rows = Vec::new();
    for (at, name) in names.iter().take(limit as usize).enumerate() {
        if let Some(value) = values.bytes(at)? {
            rows.push(read_record(small::text(name)?, value)?);
        }
    }
    let next = match names.get(limit as usize - 1).filter(|_| more) {
        Some(last) => Some(Cursor::new(format!("{CURSOR_PREFIX}{}", small::text(last)?))),
        None => None,
    };
    Ok(Page::new(rows, next))
}

async fn append(
    transaction: &Transaction<'_>,
    log: &str,
    entries: &[Bytes],
    keep: u32,
    loaded: &mut Loaded,
) -> Try<RecordReply> {
    let keys = transaction.keys;
    // Verified, so that no reader sees an entry before those with lower numbers.
    let mut reads = Reads::default();
    reads.expect("HGET", &keys.one("logs"), &[log.as_bytes()]);
    let replies = transaction.read(reads, loaded).await?;
    let last = replies.int(0)? + entries.len() as i64;
    let (mut members, now) = (Vec::with_capacity(2 * entries.len()), loaded.now);
    for (number, value) in (last - entries.len() as i64 + 1..).zip(entries) {
        let mut pack = Pack::default();
        pack.int(number);
        pack.int(now.as_millis());
        pack.raw(value);
        members.extend([number.to_string().into_bytes(), pack.into_bytes()]);
    }
    let mut writes = Commands::default();
    writes.push_all("ZADD", &keys.log(log), 2, &members);
    let upto = (last - i64::from(keep)).to_string();
    writes.push("ZREMRANGEBYSCORE", &keys.log(log), &[b"-inf", upto.as_bytes()]);
    writes.push("HSET", &keys.one("logs"), &[log.as_bytes(), last.to_string().as_bytes()]);
    transaction.commit(Function::Commit, writes).await?;
    Ok(RecordReply::Appended { last: last.cast_unsigned() })
}

async fn read(
    transaction: &Transaction<'_>,
    log: &str,
    after: u64,
    limit: u32,
    loaded: &mut Loaded,
) -> Try<Vec<LogEntry>> {
    let (mut reads, from, most) = (Reads::default(), format!("({after}"), limit.to_string());
    let args: [&[u8]; 5] = [from.as_bytes(), b"+inf", b"LIMIT", b"0", most.as_bytes()];
    reads.peek("ZRANGEBYSCORE", &transaction.keys.log(log), &args);
    let replies = transaction.read(reads, loaded).await?;
    let mut entries = Vec::new();
    for member in replies.members(0)? {
        let mut list = Unpack(member);
        let (number, at) = (list.int()?.cast_unsigned(), Timestamp::from_millis(list.int()?));
        entries.push(LogEntry { number, at, value: list.0.to_vec().into() });
    }
    Ok(entries)
}

fn write_record(record: &Record) -> Vec<u8> {
    let mut pack = Pack::default();
    pack.int(record.version.cast_signed());
    pack.int(record.updated_at.as_millis());
    pack.raw(&record.value);
    pack.into_bytes()
}

fn read_record(key: &str, stored: &[u8]) -> Decoded<Record> {
    let mut list = Unpack(stored);
    let version = list.int()?.cast_unsigned();
    let updated_at = Timestamp::from_millis(list.int()?);
    Ok(Record { key: key.to_owned(), version, value: list.0.to_vec().into(), updated_at })
}
