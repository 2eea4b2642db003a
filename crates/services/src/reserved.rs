//! Records reserved for the servers of a store: the signing secret and the audit log. Filters requests from
//! outside. Must not depend on the principal or call an engine.

use crate::{audit, keys};
use windlass_core::engine::{Item, Record, RecordOp, RecordReply};
use windlass_core::{Error, Result};

/// Key prefix of records that only servers may read or write.
const SECRETS: &str = "secret/";

/// Refuses operations from outside on reserved records.
pub(crate) fn check(op: &RecordOp) -> Result<()> {
    let (key, writes) = match op {
        RecordOp::Get { key } => (key, false),
        RecordOp::Put { key, .. } | RecordOp::Delete { key, .. } => (key, true),
        RecordOp::List { .. } | RecordOp::Append { .. } | RecordOp::Read { .. } | _ => {
            return Ok(());
        }
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

/// Whether an operation lists entries of the audit log by their prefix. Other lists omit them: a server adds
/// entries for every write, which a client that lists its own records does not expect.
pub(crate) fn lists_audit(op: &RecordOp) -> bool {
    matches!(op, RecordOp::List { prefix, .. } if audit::is_entry(prefix))
}

/// Removes records that only servers may read from a reply, and audit log entries from other lists.
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
