//! Single operations on records and logs, with typed replies. Independent of their content.

use bytes::Bytes;
use windlass_core::engine::{Cursor, Engine, Expect, Page, Record, RecordOp, RecordReply, Stamped};
use windlass_core::{Error, Result};

/// Executes one operation; returns its result with the stamp of the call.
pub(crate) async fn one(engine: &dyn Engine, op: RecordOp) -> Result<Stamped<RecordReply>> {
    let answer = engine.records(vec![op]).await?;
    let (now, epoch) = (answer.now, answer.epoch);
    let value = answer.value.into_iter().next().unwrap_or_else(|| Err(unexpected(engine)))?;
    Ok(Stamped { now, epoch, value })
}

/// Reads a record.
pub(crate) async fn get(engine: &dyn Engine, key: &str) -> Result<Stamped<Option<Record>>> {
    let answer = one(engine, RecordOp::Get { key: key.to_owned() }).await?;
    let RecordReply::Record(record) = answer.value else {
        return Err(unexpected(engine));
    };
    Ok(Stamped { now: answer.now, epoch: answer.epoch, value: record })
}

/// Writes a record; returns its new version with the stamp of the call.
pub(crate) async fn put(
    engine: &dyn Engine,
    key: &str,
    value: Bytes,
    expect: Expect,
) -> Result<Stamped<u64>> {
    let put = RecordOp::Put { key: key.to_owned(), value, expect };
    let answer = one(engine, put).await?;
    let RecordReply::Written { version } = answer.value else {
        return Err(unexpected(engine));
    };
    Ok(Stamped { now: answer.now, epoch: answer.epoch, value: version })
}

/// One page of the records whose keys start with `prefix`.
pub(crate) async fn list(
    engine: &dyn Engine,
    prefix: &str,
    after: Option<Cursor>,
    limit: u32,
) -> Result<Stamped<Page<Record>>> {
    let list = RecordOp::List { prefix: prefix.to_owned(), after, limit };
    let answer = one(engine, list).await?;
    let RecordReply::Records(page) = answer.value else {
        return Err(unexpected(engine));
    };
    Ok(Stamped { now: answer.now, epoch: answer.epoch, value: page })
}

/// Serializes a value for storage.
pub(crate) fn encode<T: serde::Serialize>(value: &T) -> Result<Bytes> {
    let text = serde_json::to_vec(value);
    text.map(Bytes::from).map_err(|error| Error::invalid("value", error, "it must fit into JSON"))
}

/// The error for a reply of the wrong type.
pub(crate) fn unexpected(engine: &dyn Engine) -> Error {
    let store = format!("the {} store", engine.capabilities().engine);
    Error::Corrupt { store, reason: "its reply does not match the operation".into() }
}
