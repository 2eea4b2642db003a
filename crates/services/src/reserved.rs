//! Records that belong to the servers of a store: the secret they sign with, and the audit log. Requests from
//! outside pass through here. It must not know who asks, nor call an engine.

use crate::{audit, keys};
use windlass_core::engine::{Item, Record, RecordOp, RecordReply};
use windlass_core::{Error, Result};

/// The prefix of records that only servers may read or write.
const SECRETS: &str = "secret/";

/// Whether an operation from outside may be carried out.
pub(crate) fn check(op: &RecordOp) -> Result<()> {
    let (key, writes) = match op {
        RecordOp::Get { key } => (key, false),
        RecordOp::Put { key, .. } | RecordOp::Delete { key, .. } => (key, true),
        _ => return Ok(()),
    };
    if is_secret(key) {
        let expected = "only servers read and write this record; use another name";
        return Err(Error::invalid("key", key, expected));
    }
    if writes && audit::is_entry(key) {
        let expected = "only actions write the audit log; use another name";
        return Err(Error::invalid("key", key, expected));
    }
    Ok(())
}

/// Whether an operation lists entries of the audit log by their prefix. Other lists leave them out: a server adds
/// them for every write, and whoever lists records of its own does not expect them.
pub(crate) fn lists_audit(op: &RecordOp) -> bool {
    matches!(op, RecordOp::List { prefix, .. } if audit::is_entry(prefix))
}

/// Removes records that only servers may read from an answer, and entries of the audit log from other lists.
pub(crate) fn hide(answer: &mut Item<RecordReply>, lists_audit: bool) {
    if let Ok(RecordReply::Records(page)) = answer {
        page.rows
            .retain(|Record { key, .. }| !is_secret(key) && (lists_audit || !audit::is_entry(key)));
    }
}

fn is_secret(key: &str) -> bool {
    debug_assert!(keys::SECRET_KEY.starts_with(SECRETS));
    key.starts_with(SECRETS)
}
