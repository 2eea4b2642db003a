//! What the server has spent so far, as it counts itself: for measurements, and for whoever watches it.

use crate::conn::error::Trouble;
use crate::engine::PostgresEngine;
use windlass_core::Result;

/// The server's own statistics come up to a second late.
const SPENT: &str = "SELECT (pg_current_wal_insert_lsn() - '0/0'::pg_lsn)::bigint,
    (SELECT xact_commit FROM pg_stat_database WHERE datname = current_database()),
    (SELECT coalesce(sum(n_tup_upd + n_tup_del), 0)::bigint FROM pg_stat_user_tables WHERE schemaname = $1)";

/// The size of the whole database.
const DATABASE_BYTES: &str = "SELECT pg_database_size(current_database())";

/// What a server has spent since it began to count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Spent {
    /// Bytes written to its log, by everybody.
    pub wal_bytes: u64,
    /// Transactions committed in this database, by everybody.
    pub commits: u64,
    /// Rows of ours that were left dead, for a vacuum to clear away.
    pub dead_rows: u64,
}

impl PostgresEngine {
    /// What the server has spent so far; the difference of two readings tells what something cost.
    pub async fn spent(&self) -> Result<Spent> {
        let conn = self.inner.shared.pool.lend().await.map_err(Trouble::told)?;
        let rows = conn.query(SPENT, &[&self.inner.schema.name()]).await.map_err(Trouble::told)?;
        conn.give_back();
        let number = |column: usize| -> u64 {
            let number = rows.first().and_then(|row| row.get::<_, Option<i64>>(column));
            number.unwrap_or_default().max(0).cast_unsigned()
        };
        Ok(Spent { wal_bytes: number(0), commits: number(1), dead_rows: number(2) })
    }

    /// The size of the whole database, ours and others', in bytes. It costs a look at its directory on the
    /// server: for a call a minute, not for each request.
    pub async fn database_bytes(&self) -> Result<u64> {
        let conn = self.inner.shared.pool.lend().await.map_err(Trouble::told)?;
        let rows = conn.query(DATABASE_BYTES, &[]).await.map_err(Trouble::told)?;
        conn.give_back();
        let bytes = rows.first().map_or(0, |row| row.get::<_, i64>(0));
        Ok(bytes.max(0).cast_unsigned())
    }
}
