//! Statistics of the server, for benchmarks and monitoring.

use crate::conn::error::Trouble;
use crate::engine::PostgresEngine;
use windlass_core::Result;

/// The server's statistics are up to a second late.
const SERVER_STATS: &str = "SELECT (pg_current_wal_insert_lsn() - '0/0'::pg_lsn)::bigint,
    (SELECT xact_commit FROM pg_stat_database WHERE datname = current_database()),
    (SELECT coalesce(sum(n_tup_upd + n_tup_del), 0)::bigint FROM pg_stat_user_tables WHERE schemaname = $1)";

/// The size of the whole database.
const DATABASE_BYTES: &str = "SELECT pg_database_size(current_database())";

/// Counters of a server since its statistics were reset.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ServerStats {
    /// Bytes of WAL written by all clients.
    pub wal_bytes: u64,
    /// Transactions committed in this database by all clients.
    pub commits: u64,
    /// Rows of our tables that became dead.
    pub dead_rows: u64,
}

impl PostgresEngine {
    /// Reads the server's counters; the difference of two readings is the cost of the work between them.
    pub async fn server_stats(&self) -> Result<ServerStats> {
        let conn = self.inner.shared.pool.lend().await.map_err(Trouble::into_error)?;
        let rows = conn
            .query(SERVER_STATS, &[&self.inner.schema.name()])
            .await
            .map_err(Trouble::into_error)?;
        conn.give_back();
        let number = |column: usize| -> u64 {
            let number = rows.first().and_then(|row| row.get::<_, Option<i64>>(column));
            number.unwrap_or_default().max(0).cast_unsigned()
        };
        Ok(ServerStats { wal_bytes: number(0), commits: number(1), dead_rows: number(2) })
    }

    /// The size of the whole database in bytes. The server reads its directory for it: call it once a minute, not once
    /// per request.
    pub async fn database_bytes(&self) -> Result<u64> {
        let conn = self.inner.shared.pool.lend().await.map_err(Trouble::into_error)?;
        let rows = conn.query(DATABASE_BYTES, &[]).await.map_err(Trouble::into_error)?;
        conn.give_back();
        let bytes = rows.first().map_or(0, |row| row.get::<_, i64>(0));
        Ok(bytes.max(0).cast_unsigned())
    }
}
