//! Indexes on fields of payloads and metadata, for searches. Built without blocking writers: on each partition
//! concurrently, and attached to the index of the whole table.

use crate::api::schema::Schema;
use crate::conn::error::{Trouble, Try};
use crate::conn::options::Options;
use crate::conn::server::Server;
use tokio_postgres::Client;
use windlass_core::engine::Field;
use windlass_core::model::PartName;
use windlass_core::{Error, Result};

/// Partitions are created and dropped while the index is built; it is complete after a few rounds.
const ROUNDS_MAX: usize = 10;

/// Partitions of `job` ($1: the schema) that have no index attached to the index $2.
const MISSING: &str = "SELECT c.relname::text FROM pg_inherits h JOIN pg_class c ON c.oid = h.inhrelid
    JOIN pg_class p ON p.oid = h.inhparent JOIN pg_namespace n ON n.oid = p.relnamespace
    WHERE n.nspname = $1 AND p.relname = 'job' AND NOT EXISTS (
        SELECT FROM pg_inherits a JOIN pg_class i ON i.oid = a.inhparent JOIN pg_index x ON x.indexrelid = a.inhrelid
        WHERE i.relname = $2 AND i.relnamespace = n.oid AND x.indrelid = c.oid)";
/// Whether an index exists and is not valid: the rest of a build that failed.
const IS_BROKEN: &str =
    "SELECT EXISTS (SELECT FROM pg_index x JOIN pg_class c ON c.oid = x.indexrelid
    JOIN pg_namespace n ON n.oid = c.relnamespace
    WHERE n.nspname = $1 AND c.relname = $2 AND NOT x.indisvalid)";

/// Creates the indexes of a field, unless they exist. Must be run by the owner of the schema.
pub async fn index(options: &Options, field: &Field) -> Result<()> {
    let schema = Schema::new(&options.schema)?;
    let built = async {
        let client = Server::at(&options.url)?.connect().await?;
        Build { client, schema: &schema, field }.run().await
    };
    built.await.map_err(Trouble::into_error)
}

struct Build<'a> {
    client: Client,
    schema: &'a Schema,
    field: &'a Field,
}

impl Build<'_> {
    async fn run(&self) -> Try<()> {
        let part = self.field.part();
        let sql =
            self.schema.render("SELECT {s}.field_index($1, $2), format('%L::text[]', $2::text[])");
        let row = self.client.query_one(&sql, &[&(part as i16), &self.field.steps()]).await?;
        let (name, steps): (String, String) = (row.get(0), row.get(1));
        // Not rendered, because a step of the path may look like a placeholder.
        let s = self.schema.quoted();
        let key = |column: &str| format!("({s}.field_key({column}, envelope, {steps}))");
        let on_part = format!("{name}_part");
        let number = part as i16;
        self.concurrently(&on_part, "part", &key("bytes"), &format!("WHERE name = {number}"))
            .await?;
        if part == PartName::Payload {
            self.on_jobs(&format!("{name}_job"), &key("payload")).await?;
        }
        Ok(())
    }

    /// Builds the index of the partitioned table.
    async fn on_jobs(&self, name: &str, key: &str) -> Try<()> {
        let s = self.schema.quoted();
        let sql = format!("CREATE INDEX IF NOT EXISTS {name} ON ONLY {s}.job ({key})");
        self.client.batch_execute(&sql).await?;
        let mut last = None;
        for _ in 0..ROUNDS_MAX {
            let missing = self.client.query(MISSING, &[&self.schema.name(), &name]).await?;
            if missing.is_empty() {
                return Ok(());
            }
            for row in missing {
                let partition: String = row.get(0);
                let own = format!("{name}{}", partition.trim_start_matches("job"));
                // The partition may be dropped meanwhile; the next round finds out.
                let attached = async {
                    self.concurrently(&own, &partition, key, "").await?;
                    let attach = format!("ALTER INDEX {s}.{name} ATTACH PARTITION {s}.{own}");
                    Ok::<_, Trouble>(self.client.batch_execute(&attach).await?)
                };
                last = attached.await.err().or(last);
            }
        }
        let reason = "partitions change too quickly to index them all: try again".to_owned();
        let store = "the PostgreSQL store".to_owned();
        Err(last.unwrap_or_else(|| Error::Unavailable { store, reason }.into()))
    }

    /// Builds one index without blocking writers.
    async fn concurrently(&self, name: &str, table: &str, key: &str, condition: &str) -> Try<()> {
        let broken = self.client.query_one(IS_BROKEN, &[&self.schema.name(), &name]).await?;
        let s = self.schema.quoted();
        if broken.get(0) {
            self.client.batch_execute(&format!("DROP INDEX CONCURRENTLY {s}.{name}")).await?;
        }
        let sql = format!(
            "CREATE INDEX CONCURRENTLY IF NOT EXISTS {name} ON {s}.{table} ({key}) {condition}"
        );
        Ok(self.client.batch_execute(&sql).await?)
    }
}
