//! Making and updating the tables: forward only, once, however many processes start at the same time.

use crate::api::schema::Schema;
use crate::conn::error::{Trouble, Try};
use crate::conn::options::Options;
use crate::conn::server::Server;
use crate::conn::unnamed::ask;
use std::fmt;
use tokio_postgres::Client;
use windlass_core::{Error, Result};

/// The steps, in order, by what they make; the version of a schema is how many of them it has taken.
const STEPS: &[(&str, &str)] = &[
    ("tables", include_str!("../../sql/001_tables.sql")),
    ("views and functions", include_str!("../../sql/002_api.sql")),
    ("leaves", include_str!("../../sql/003_leaves.sql")),
    ("rewriting", include_str!("../../sql/004_rewrite.sql")),
    ("leaves together", include_str!("../../sql/005_leaves_together.sql")),
    ("turns", include_str!("../../sql/006_turns.sql")),
    ("a partition for nothing", include_str!("../../sql/007_never_alone.sql")),
    ("doors", include_str!("../../sql/008_doors.sql")),
    ("isolation of maintenance", include_str!("../../sql/009_isolation.sql")),
    ("a secret channel for wake-ups", include_str!("../../sql/010_wakeups.sql")),
    ("keeping what changed", include_str!("../../sql/011_keep_changed.sql")),
    ("limited lanes", include_str!("../../sql/012_lanes.sql")),
];
/// The channel of the second step. A later one takes a secret channel instead.
const RETIRED_CHANNEL: &str = "'windlass'";
/// Remembers the version.
const META: &str = "CREATE TABLE {s}.meta (name text PRIMARY KEY, value bigint NOT NULL)";
const NOTE: &str = "INSERT INTO {s}.meta (name, value) VALUES ('version', {version})
    ON CONFLICT (name) DO UPDATE SET value = excluded.value";
/// Others who would migrate the same schema wait for this.
const LOCK: &str =
    "SELECT pg_advisory_xact_lock(hashtextextended('windlass migrates ' || {name}, 0))";

/// How a migration begins. In any other isolation level it would not see what others did while it waited for the lock.
const BEGIN: &str = "BEGIN ISOLATION LEVEL READ COMMITTED";
/// However long others take, and whatever timeouts the role has.
const PATIENTLY: &str =
    "SELECT set_config(name, '0', true) FROM pg_settings WHERE name IN ('lock_timeout',
    'statement_timeout', 'transaction_timeout', 'idle_in_transaction_session_timeout')";

/// The server's code for what a role may not do.
const DENIED: &str = "(42501)";

/// What is to be done with a schema, or what was done.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Migration {
    /// The schema.
    pub schema: String,
    /// The version it was found at; 0 if it is not there.
    pub from: usize,
    /// The version of this program.
    pub to: usize,
    /// What each step from one to the other makes.
    pub steps: Vec<&'static str>,
    /// All of it in SQL, as a transaction, for whoever would rather run it by hand. Empty if there is
    /// nothing to do.
    pub sql: String,
}

impl Migration {
    fn of(schema: &Schema, there: Found) -> Self {
        let from = there.version;
        let steps = STEPS.iter().skip(from).map(|(what, _)| *what).collect();
        let sql = match from < STEPS.len() {
            true => format!("{BEGIN};\n{}COMMIT;\n", body(schema, there)),
            false => String::new(),
        };
        Self { schema: schema.name().to_owned(), from, to: STEPS.len(), steps, sql }
    }
}

impl fmt::Display for Migration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { schema, from, to, steps, .. } = self;
        match steps.is_empty() {
            true => write!(f, "schema {schema:?} is at version {to}, as it should be"),
            false => write!(f, "schema {schema:?}: version {from} to {to} ({})", steps.join(", ")),
        }
    }
}

/// What is there of a schema.
#[derive(Clone, Copy)]
struct Found {
    exists: bool,
    version: usize,
}

/// Looks at a schema, and tells what [`migrate`] would do. Changes nothing.
pub async fn plan(options: &Options) -> Result<Migration> {
    let schema = Schema::new(&options.schema)?;
    let planned = async {
        let client = Server::at(&options.url)?.connect().await?;
        let there = find(&client, &schema).await?;
        Ok(Migration::of(&schema, there))
    };
    planned.await.map_err(Trouble::told)
}

/// Brings a schema to the version of this program, and tells what was done.
pub async fn migrate(options: &Options) -> Result<Migration> {
    let schema = Schema::new(&options.schema)?;
    let server = Server::at(&options.url)?;
    bring_up(&server, &schema, true).await.map_err(Trouble::told)
}

/// Removes a schema of ours with everything in it, for benches and tests. One that is not ours is left
/// alone.
pub async fn remove(url: &str, schema: &str) -> Result<()> {
    let schema = Schema::new(schema)?;
    let gone = async {
        let client = Server::at(url)?.connect().await?;
        if version(&client, &schema).await? > 0 {
            client.batch_execute(&format!("DROP SCHEMA {} CASCADE", schema.quoted())).await?;
        }
        Ok::<_, Trouble>(())
    };
    gone.await.map_err(Trouble::told)
}

/// Brings the schema to this version, or says what is in the way. Where there is nothing to do, the right
/// to look is enough.
pub(crate) async fn bring_up(server: &Server, schema: &Schema, may: bool) -> Try<Migration> {
    let client = server.connect().await?;
    let there = Found { exists: true, version: version(&client, schema).await? };
    if there.version < STEPS.len() && !may {
        return Err(older(schema, there.version, "or open it with migrations").into());
    }
    if there.version < STEPS.len() {
        return match step_by_step(&client, schema).await.map_err(Trouble::told) {
            Err(Error::Unavailable { reason, .. }) if reason.contains(DENIED) => {
                Err(older(schema, there.version, "as this role may not change it").into())
            }
            done => Ok(done?),
        };
    }
    known(schema, there.version)?;
    Ok(Migration::of(schema, there))
}

/// All missing steps in one transaction, under a lock that others who start now wait for.
async fn step_by_step(client: &Client, schema: &Schema) -> Try<Migration> {
    client.batch_execute(&format!("{BEGIN}; {PATIENTLY}")).await?;
    client.batch_execute(&lock(schema)).await?;
    // Somebody else may have done it while we waited.
    let there = find(client, schema).await?;
    if there.version < STEPS.len() {
        client.batch_execute(&body(schema, there)).await?;
    }
    client.batch_execute("COMMIT").await?;
    let done = Migration::of(schema, there);
    if !done.steps.is_empty() {
        tracing::info!(schema = done.schema, from = done.from, to = done.to, "migrated");
    }
    Ok(done)
}

/// What stands between `BEGIN` and `COMMIT`.
fn body(schema: &Schema, there: Found) -> String {
    let mut parts = vec![lock(schema)];
    // Only if it is missing: whoever may not create schemas can still be given one.
    if !there.exists {
        parts.push(format!("CREATE SCHEMA {}", schema.quoted()));
    }
    if there.version == 0 {
        parts.push(schema.put_into(META));
    }
    for (_, step) in &STEPS[there.version..] {
        parts.push(schema.put_into(step).replace("{channel}", RETIRED_CHANNEL));
    }
    parts.push(schema.put_into(NOTE).replace("{version}", &STEPS.len().to_string()));
    parts.iter().map(|part| format!("{};\n", part.trim_end().trim_end_matches(';'))).collect()
}

fn lock(schema: &Schema) -> String {
    // No name of a schema has a quote in it.
    LOCK.replace("{name}", &format!("'{}'", schema.name()))
}

/// What is there, if this program knows it.
async fn find(client: &Client, schema: &Schema) -> Try<Found> {
    let sql = "SELECT EXISTS (SELECT FROM pg_namespace WHERE nspname = $1)";
    let exists = ask(client, sql, &[&schema.name()]).await?.iter().any(|row| row.get(0));
    let version = version(client, schema).await?;
    known(schema, version)?;
    Ok(Found { exists, version })
}

/// How many steps the schema has taken.
async fn version(client: &Client, schema: &Schema) -> Try<usize> {
    // Not by `to_regclass`, which may remember what was so before we waited for the lock.
    let there =
        "SELECT EXISTS (SELECT FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
        WHERE n.nspname = $1 AND c.relname = 'meta')";
    if !ask(client, there, &[&schema.name()]).await?.iter().any(|row| row.get(0)) {
        return Ok(0);
    }
    let sql = schema.put_into("SELECT value FROM {s}.meta WHERE name = 'version'");
    let rows = ask(client, &sql, &[]).await?;
    Ok(rows.first().map_or(0, |row| row.get::<_, i64>(0).max(0) as usize))
}

/// Refuses a version that this program does not know.
fn known(schema: &Schema, version: usize) -> Result<()> {
    let ours = STEPS.len();
    if version <= ours {
        return Ok(());
    }
    let expected = format!(
        "it is at version {version}, and this program knows versions up to {ours}: update the program"
    );
    Err(Error::invalid("schema", schema.name(), expected))
}

fn older(schema: &Schema, version: usize, or: &str) -> Error {
    let expected = format!(
        "it is at version {version}, and this program needs {}: run `windlass migrate \
         postgres://… --schema {:?}` as its owner, {or}",
        STEPS.len(),
        schema.name()
    );
    Error::invalid("schema", schema.name(), expected)
}
