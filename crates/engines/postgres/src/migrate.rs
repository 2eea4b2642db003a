//! Making and updating the tables: forward only, once, however many processes start at the same time.

use crate::conn::{config, connect};
use crate::error::{Trouble, Try, unavailable};
use crate::schema::Schema;
use tokio_postgres::{Client, Config};

/// The steps, in order; the version of a schema is how many of them it has taken.
const STEPS: &[&str] = &[
    include_str!("../sql/001_tables.sql"),
    include_str!("../sql/002_api.sql"),
    include_str!("../sql/003_leaves.sql"),
    include_str!("../sql/004_rewrite.sql"),
];

/// Brings the schema to this version, or says what is in the way.
pub(crate) async fn migrate(config: &Config, schema: &Schema, allowed: bool) -> Try<()> {
    let client = connect(config).await?;
    let found = version(&client, schema).await?;
    if found == STEPS.len() {
        return Ok(());
    }
    if found > STEPS.len() {
        return Err(newer(schema, found).into());
    }
    if !allowed {
        let reason = format!(
            "schema {:?} is at version {found}, this program needs {}: run `windlass migrate`, or \
             open it with migrations",
            schema.name(),
            STEPS.len()
        );
        return Err(unavailable(reason).into());
    }
    step_by_step(&client, schema).await
}

/// All missing steps in one transaction, under a lock that others who start now wait for.
async fn step_by_step(client: &Client, schema: &Schema) -> Try<()> {
    client.batch_execute("BEGIN; SET LOCAL lock_timeout = 0").await?;
    let lock = "SELECT pg_advisory_xact_lock(hashtextextended('windlass migrates ' || $1, 0))";
    client.execute(lock, &[&schema.name()]).await?;
    // Somebody else may have done it while we waited.
    let found = version(client, schema).await?;
    if found > STEPS.len() {
        return Err(newer(schema, found).into());
    }
    if found == 0 {
        // Only if it is missing: whoever may not create schemas can still be given one.
        if !schema_exists(client, schema).await? {
            client.batch_execute(&format!("CREATE SCHEMA {}", schema.quoted())).await?;
        }
        let meta = "CREATE TABLE {s}.meta (name text PRIMARY KEY, value bigint NOT NULL)";
        client.batch_execute(&schema.put_into(meta)).await?;
    }
    for step in &STEPS[found..] {
        let channel = format!("'{}'", crate::wakeups::channel(schema));
        client.batch_execute(&schema.put_into(step).replace("{channel}", &channel)).await?;
    }
    let note = "INSERT INTO {s}.meta (name, value) VALUES ('version', $1)
        ON CONFLICT (name) DO UPDATE SET value = excluded.value";
    client.execute(&schema.put_into(note), &[&(STEPS.len() as i64)]).await?;
    client.batch_execute("COMMIT").await?;
    tracing::info!(schema = schema.name(), from = found, to = STEPS.len(), "migrated");
    Ok(())
}

/// Removes a schema of ours with everything in it, for benches and tests. One that is not ours is left
/// alone.
pub async fn remove(url: &str, schema: &str) -> windlass_core::Result<()> {
    let schema = Schema::new(schema)?;
    let gone = async {
        let client = connect(&config(url)?).await?;
        if version(&client, &schema).await? > 0 {
            client.batch_execute(&format!("DROP SCHEMA {} CASCADE", schema.quoted())).await?;
        }
        Ok::<_, Trouble>(())
    };
    gone.await.map_err(Trouble::told)
}

/// How many steps the schema has taken.
async fn version(client: &Client, schema: &Schema) -> Try<usize> {
    // Not by `to_regclass`, which may remember what was so before we waited for the lock.
    let there =
        "SELECT EXISTS (SELECT FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
        WHERE n.nspname = $1 AND c.relname = 'meta')";
    if !client.query_one(there, &[&schema.name()]).await?.get::<_, bool>(0) {
        return Ok(0);
    }
    let sql = schema.put_into("SELECT value FROM {s}.meta WHERE name = 'version'");
    let row = client.query_opt(&sql, &[]).await?;
    Ok(row.map_or(0, |row| row.get::<_, i64>(0).max(0) as usize))
}

async fn schema_exists(client: &Client, schema: &Schema) -> Try<bool> {
    let sql = "SELECT EXISTS (SELECT FROM pg_namespace WHERE nspname = $1)";
    Ok(client.query_one(sql, &[&schema.name()]).await?.get(0))
}

fn newer(schema: &Schema, found: usize) -> windlass_core::Error {
    unavailable(format!(
        "schema {:?} is at version {found}, newer than this program's {}: update the program",
        schema.name(),
        STEPS.len()
    ))
}
