//! Reads the sizes of the tables from PostgreSQL on a separate connection. It reads catalogues and file sizes
//! only, in single statements, so that it blocks no one and holds no snapshot.

use anyhow::{Context as _, Result, ensure};
use serde::{Deserialize, Serialize};
use std::time::Duration;
use tokio_postgres::types::ToSql;
use tokio_postgres::{Client, NoTls, Statement};
use windlass::PostgresUrl;

/// The hot tables, whose rows live for seconds, in the order of their sizes in [`Sizes`].
pub(super) const HOT: [&str; 5] = ["ready", "lease", "scheduled", "tally", "session"];
/// Maximum expected size of a hot table, including indexes, with as few jobs in flight as here: the engine
/// rewrites a table when its rows take 2 MiB.
const BOUNDED_BYTES: u64 = 8 << 20;
/// Timeout of one query; a point without a result in time has no sizes.
const READING_MAX: Duration = Duration::from_secs(2);

/// Sizes are file sizes: a table that is removed meanwhile has none. Dead rows are the server's estimate, up to
/// a second old.
const SIZES: &str = "SELECT (pg_current_wal_insert_lsn() - '0/0'::pg_lsn)::bigint,
    pg_database_size(current_database()),
    (SELECT coalesce(sum(pg_total_relation_size(c.oid)), 0)::bigint
        FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE n.nspname = $1 AND c.relkind = 'r'),
    (SELECT coalesce(sum(n_dead_tup), 0)::bigint FROM pg_stat_all_tables WHERE schemaname = $1),
    ARRAY(SELECT coalesce(pg_total_relation_size(to_regclass(quote_ident($1) || '.' || hot.name)), 0)
        FROM unnest($2::text[]) WITH ORDINALITY hot (name, n) ORDER BY n)";

/// The sizes at one time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(in crate::bench) struct Sizes {
    /// Dead rows of Windlass's tables that are not vacuumed yet.
    pub(super) dead_rows: u64,
    /// Size of each hot table, including indexes.
    pub(super) hot_bytes: [u64; HOT.len()],
    /// Size of all tables of the schema.
    pub(super) schema_bytes: u64,
    /// Size of the whole database.
    pub(super) database_bytes: u64,
    /// Current WAL position, in bytes.
    pub(super) wal_bytes: u64,
}

impl Sizes {
    /// Total size of all hot tables.
    pub(in crate::bench) fn all_hot_bytes(&self) -> u64 {
        self.hot_bytes.iter().sum()
    }

    /// Whether every hot table is within its expected size.
    pub(in crate::bench) fn are_bounded(&self) -> bool {
        self.hot_bytes.iter().all(|bytes| *bytes <= BOUNDED_BYTES)
    }
}

/// A connection that reads sizes.
pub(in crate::bench) struct Database {
    client: Client,
    statement: Statement,
    schema: String,
}

impl Database {
    /// Connects to the database of a run.
    pub(in crate::bench) async fn connect(at: &PostgresUrl) -> Result<Self> {
        let (client, connection) = tokio_postgres::connect(at.server(), NoTls)
            .await
            .context("cannot connect to read sizes")?;
        tokio::spawn(connection);
        let limit = format!("SET statement_timeout = {}", READING_MAX.as_millis());
        client.batch_execute(&limit).await?;
        let statement = client.prepare(SIZES).await?;
        Ok(Self { client, statement, schema: at.schema().to_owned() })
    }

    /// Reads the current sizes.
    pub(in crate::bench) async fn read(&self) -> Result<Sizes> {
        let hot = &HOT[..];
        let parameters: [&(dyn ToSql + Sync); 2] = [&self.schema, &hot];
        let row = self.client.query_one(&self.statement, &parameters);
        let row = tokio::time::timeout(READING_MAX, row).await.context("no sizes in time")??;
        let number = |column: usize| row.get::<_, i64>(column).max(0).cast_unsigned();
        let hot: Vec<i64> = row.get(4);
        ensure!(hot.len() == HOT.len(), "{} sizes of {} hot tables", hot.len(), HOT.len());
        let mut hot_bytes = [0; HOT.len()];
        for (bytes, read) in hot_bytes.iter_mut().zip(hot) {
            *bytes = read.max(0).cast_unsigned();
        }
        Ok(Sizes {
            wal_bytes: number(0),
            database_bytes: number(1),
            schema_bytes: number(2),
            dead_rows: number(3),
            hot_bytes,
        })
    }
}
