//! Records that belong to the servers of a store: the audit log. Requests from outside pass through here. It
//! must not know who asks, nor call an engine.

use crate::audit;
use windlass_core::engine::RecordOp;
use windlass_core::{Error, Result};

/// Whether an operation from outside may be carried out.
pub(crate) fn check(op: &RecordOp) -> Result<()> {
    let (RecordOp::Put { key, .. } | RecordOp::Delete { key, .. }) = op else { return Ok(()) };
    if audit::is_entry(key) {
        let expected = "only actions write the audit log; use another name";
        return Err(Error::invalid("key", key, expected));
    }
    Ok(())
}
