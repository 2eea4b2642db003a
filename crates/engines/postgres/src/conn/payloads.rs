//! The payload limit of a store, which all its processes and SQL functions share.

use crate::conn::Conn;
use crate::conn::error::Try;

const STORE: &str = "INSERT INTO {s}.meta (name, value) VALUES ('payload_bytes_max', $1)
    ON CONFLICT (name) DO UPDATE SET value = excluded.value";
const LOAD: &str = "SELECT value FROM {s}.meta WHERE name = 'payload_bytes_max'";

/// Stores the payload limit if another one is given, and returns the stored one. A role that may only read can give the
/// stored one.
pub(crate) async fn payload_bytes_max(conn: &Conn<'_>, given: Option<usize>) -> Try<Option<usize>> {
    let rows = conn.query(LOAD, &[]).await?;
    let stored = rows.first().map(|row| usize::try_from(row.get::<_, i64>(0)).unwrap_or_default());
    match given {
        Some(bytes_max) if stored != given => {
            conn.execute(STORE, &[&(bytes_max as i64)]).await?;
            Ok(given)
        }
        _ => Ok(stored),
    }
}
