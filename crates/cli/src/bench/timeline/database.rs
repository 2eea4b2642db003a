//! What PostgreSQL tells of the sizes of our tables, asked on a connection of its own. It reads catalogues and
//! file sizes only, in single statements, so that it holds up nobody and keeps no snapshot.

use anyhow::{Context as _, Result, ensure};
use serde::{Deserialize, Serialize};
use std::time::Duration;
use tokio_postgres::types::ToSql;
use tokio_postgres::{Client, NoTls, Statement};
use windlass::PostgresUrl;

/// The tables that turn over within seconds, in the order of their sizes in [`Sizes`].
pub(super) const HOT: [&str; 5] = ["ready", "lease", "scheduled", "tally", "session"];
/// A hot table, its indexes included, that is no larger than this is as small as it should be with as few
/// jobs in flight as there are here: the engine rewrites one when its rows take 2 MiB.
const BOUNDED_BYTES: u64 = 8 << 20;
/// How long one reading may take; a database that answers later than this has no sizes at that point.
const READING_MAX: Duration = Duration::from_secs(2);

/// Sizes are those of files: of a table that somebody removes meanwhile there is none. Dead rows as the server
/// estimates them, up to a second late.
const SIZES: &str = "SELECT (pg_current_wal_insert_lsn() - '0/0'::pg_lsn)::bigint,
    pg_database_size(current_database()),
    (SELECT coalesce(sum(pg_total_relation_size(c.oid)), 0)::bigint
        FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE n.nspname = $1 AND c.relkind = 'r'),
    (SELECT coalesce(sum(n_dead_tup), 0)::bigint FROM pg_stat_all_tables WHERE schemaname = $1),
    ARRAY(SELECT coalesce(pg_total_relation_size(to_regclass(quote_ident($1) || '.' || hot.name)), 0)
        FROM unnest($2::text[]) WITH ORDINALITY hot (name, n) ORDER BY n)";

/// What was read at one time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(in crate::bench) struct Sizes {
    /// Rows of ours that are dead and not yet cleared away.
    pub(super) dead_rows: u64,
    /// Of each hot table with its indexes.
    pub(super) hot_bytes: [u64; HOT.len()],
    /// Of all our tables.
    pub(super) schema_bytes: u64,
    /// Of the whole database.
    pub(super) database_bytes: u64,
    /// Where the server's log has come to.
    pub(super) wal_bytes: u64,
}

impl Sizes {
    /// Of all hot tables together.
    pub(in crate::bench) fn all_hot_bytes(&self) -> u64 {
        self.hot_bytes.iter().sum()
    }

    /// Whether no hot table is larger than it should be.
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
    /// Where the jobs of a run are.
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

    /// The sizes now.
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
