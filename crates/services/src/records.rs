//! Single operations on records and logs, with typed answers. It must not know what they hold.

use bytes::Bytes;
use windlass_core::engine::{Cursor, Engine, Expect, Page, Record, RecordOp, RecordReply, Stamped};
use windlass_core::{Error, Result};

/// One operation and its own result, under the stamp of the call.
pub(crate) async fn one(engine: &dyn Engine, op: RecordOp) -> Result<Stamped<RecordReply>> {
    let answer = engine.records(vec![op]).await?;
    let (now, epoch) = (answer.now, answer.epoch);
    let value = answer.value.into_iter().next().unwrap_or_else(|| Err(unexpected(engine)))?;
    Ok(Stamped { now, epoch, value })
}

/// Reads a record.
pub(crate) async fn get(engine: &dyn Engine, key: &str) -> Result<Stamped<Option<Record>>> {
    let answer = one(engine, RecordOp::Get { key: key.to_owned() }).await?;
    match answer.value {
        RecordReply::Record(record) => {
            Ok(Stamped { now: answer.now, epoch: answer.epoch, value: record })
        }
        _ => Err(unexpected(engine)),
    }
}

/// Writes a record; answers its new version, under the stamp of the call.
pub(crate) async fn put(
    engine: &dyn Engine,
    key: &str,
    value: Bytes,
    expect: Expect,
) -> Result<Stamped<u64>> {
    let put = RecordOp::Put { key: key.to_owned(), value, expect };
    let answer = one(engine, put).await?;
    match answer.value {
        RecordReply::Written { version } => {
            Ok(Stamped { now: answer.now, epoch: answer.epoch, value: version })
        }
        _ => Err(unexpected(engine)),
    }
}

/// A page of the records whose names start with `prefix`.
pub(crate) async fn list(
    engine: &dyn Engine,
    prefix: &str,
    after: Option<Cursor>,
    limit: u32,
) -> Result<Stamped<Page<Record>>> {
    let list = RecordOp::List { prefix: prefix.to_owned(), after, limit };
    let answer = one(engine, list).await?;
    match answer.value {
        RecordReply::Records(page) => {
            Ok(Stamped { now: answer.now, epoch: answer.epoch, value: page })
        }
        _ => Err(unexpected(engine)),
    }
}

/// A value as it is stored.
pub(crate) fn encode<T: serde::Serialize>(value: &T) -> Result<Bytes> {
    let text = serde_json::to_vec(value);
    text.map(Bytes::from).map_err(|error| Error::invalid("value", error, "it must fit into JSON"))
}

/// An answer that does not belong to the question.
pub(crate) fn unexpected(engine: &dyn Engine) -> Error {
    let store = format!("the {} store", engine.capabilities().engine);
    Error::Corrupt { store, reason: "its answer does not belong to the operation".into() }
}
