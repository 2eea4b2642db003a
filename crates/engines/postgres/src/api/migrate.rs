//! Migrations: create and update the tables of a schema, forward only, in one transaction. Concurrent processes wait for
//! each other.

use crate::api::schema::{Schema, literal};
use crate::conn::error::{Trouble, Try};
use crate::conn::options::Options;
use crate::conn::server::Server;
use crate::conn::unnamed::ask;
use std::fmt;
use tokio_postgres::Client;
use windlass_core::{Error, Result};

/// A step from one version to the next. Nothing is released yet, so the initial step changes in place; from the first
/// release on, a step is final and changes are new steps.
struct Step {
    name: &'static str,
    /// SQL texts with placeholders (see [`crate::api::schema`]), in order.
    files: &'static [&'static str],
}

/// The steps in order; the version of a schema is the number of steps applied to it.
const STEPS: &[Step] = &[Step {
    name: "initial schema",
    files: &[
        include_str!("../../sql/001_initial/1_settings.sql"),
        include_str!("../../sql/001_initial/2_jobs.sql"),
        include_str!("../../sql/001_initial/3_indexes.sql"),
        include_str!("../../sql/001_initial/4_store.sql"),
        include_str!("../../sql/001_initial/4_events.sql"),
        include_str!("../../sql/001_initial/5_lanes.sql"),
        include_str!("../../sql/001_initial/6_maintenance.sql"),
        include_str!("../../sql/001_initial/7_options.sql"),
        include_str!("../../sql/001_initial/7_enqueue.sql"),
        include_str!("../../sql/001_initial/8_views.sql"),
        include_str!("../../sql/001_initial/9_fields.sql"),
    ],
}];
/// Stores the version.
const META: &str = "CREATE TABLE {s}.meta (name text PRIMARY KEY, value bigint NOT NULL)";
const SET_VERSION: &str = "INSERT INTO {s}.meta (name, value) VALUES ('version', {version})
    ON CONFLICT (name) DO UPDATE SET value = excluded.value";
/// Serializes migrations of the same schema.
const LOCK: &str =
    "SELECT pg_advisory_xact_lock(hashtextextended('windlass migrates ' || {name}, 0))";

/// Begins a migration. At a higher isolation level it would not see changes made while it waited for the lock.
const BEGIN: &str = "BEGIN ISOLATION LEVEL READ COMMITTED";
/// Disables the timeouts that the role may have.
const NO_TIMEOUTS: &str =
    "SELECT set_config(name, '0', true) FROM pg_settings WHERE name IN ('lock_timeout',
    'statement_timeout', 'transaction_timeout', 'idle_in_transaction_session_timeout')";

/// SQLSTATE of missing privileges, as in error messages.
const DENIED: &str = "(42501)";

/// A planned or completed migration of a schema.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Migration {
    /// The schema.
    pub schema: String,
    /// The version before the migration; 0 if the schema does not exist.
    pub from: usize,
    /// The version after the migration, which is that of this program.
    pub to: usize,
    /// The names of the steps.
    pub steps: Vec<&'static str>,
    /// The migration as an SQL script with one transaction, to be run by hand. Empty if there is nothing to do.
    pub sql: String,
}

impl Migration {
    fn of(schema: &Schema, there: Found) -> Self {
        let from = there.version;
        let steps = STEPS.iter().skip(from).map(|step| step.name).collect();
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
            true => write!(f, "schema {schema:?} is at version {to}"),
            false => write!(f, "schema {schema:?}: version {from} to {to} ({})", steps.join(", ")),
        }
    }
}

/// The state of a schema in the database.
#[derive(Clone, Copy)]
struct Found {
    exists: bool,
    version: usize,
}

/// Returns what [`migrate`] would do. Changes nothing.
pub async fn plan(options: &Options) -> Result<Migration> {
    let schema = Schema::new(&options.schema)?;
    let planned = async {
        let client = Server::at(&options.url)?.connect().await?;
        let there = find(&client, &schema).await?;
        Ok(Migration::of(&schema, there))
    };
    planned.await.map_err(Trouble::into_error)
}

/// Migrates a schema to the version of this program, and returns what was done.
pub async fn migrate(options: &Options) -> Result<Migration> {
    let schema = Schema::new(&options.schema)?;
    let server = Server::at(&options.url)?;
    bring_up(&server, &schema, true).await.map_err(Trouble::into_error)
}

/// Drops a schema of ours with everything in it, for benchmarks and tests. Does nothing to other schemas.
pub async fn remove(url: &str, schema: &str) -> Result<()> {
    let schema = Schema::new(schema)?;
    let gone = async {
        let client = Server::at(url)?.connect().await?;
        if version(&client, &schema).await? > 0 {
            client.batch_execute(&format!("DROP SCHEMA {} CASCADE", schema.quoted())).await?;
        }
        Ok::<_, Trouble>(())
    };
    gone.await.map_err(Trouble::into_error)
}

/// Migrates the schema to the version of this program if `may` allows it. If there is nothing to do, the privilege to
/// read is enough.
pub(crate) async fn bring_up(server: &Server, schema: &Schema, may: bool) -> Try<Migration> {
    let client = server.connect().await?;
    let there = Found { exists: true, version: version(&client, schema).await? };
    if there.version < STEPS.len() && !may {
        return Err(older(schema, there.version, "or open it with migrations").into());
    }
    if there.version < STEPS.len() {
        return match step_by_step(&client, schema).await.map_err(Trouble::into_error) {
            Err(Error::Unavailable { reason, .. }) if reason.contains(DENIED) => {
                Err(older(schema, there.version, "as this role may not change it").into())
            }
            done => Ok(done?),
        };
    }
    known(schema, there.version)?;
    Ok(Migration::of(schema, there))
}

/// Runs all missing steps in one transaction, under the lock.
async fn step_by_step(client: &Client, schema: &Schema) -> Try<Migration> {
    client.batch_execute(&format!("{BEGIN}; {NO_TIMEOUTS}")).await?;
    client.batch_execute(&lock(schema)).await?;
    // Another process may have migrated while we waited.
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

/// The statements between `BEGIN` and `COMMIT`.
fn body(schema: &Schema, there: Found) -> String {
    let mut parts = vec![lock(schema)];
    // Only if it does not exist: a role without the privilege to create schemas can be given one.
    if !there.exists {
        parts.push(format!("CREATE SCHEMA {}", schema.quoted()));
    }
    if there.version == 0 {
        parts.push(schema.render(META));
    }
    let files = STEPS[there.version..].iter().flat_map(|step| step.files);
    parts.extend(files.map(|file| schema.render(file)));
    parts.push(schema.render(SET_VERSION).replace("{version}", &STEPS.len().to_string()));
    parts.iter().map(|part| format!("{};\n", part.trim_end().trim_end_matches(';'))).collect()
}

fn lock(schema: &Schema) -> String {
    LOCK.replace("{name}", &literal(schema.name()))
}

/// The state of the schema, if this program knows its version.
async fn find(client: &Client, schema: &Schema) -> Try<Found> {
    let sql = "SELECT EXISTS (SELECT FROM pg_namespace WHERE nspname = $1)";
    let exists = ask(client, sql, &[&schema.name()]).await?.iter().any(|row| row.get(0));
    let version = version(client, schema).await?;
    known(schema, version)?;
    Ok(Found { exists, version })
}

/// The version of the schema; 0 if it does not exist or is not ours.
async fn version(client: &Client, schema: &Schema) -> Try<usize> {
    // Not by `to_regclass`, which may return a cached result from before we waited for the lock.
    let there =
        "SELECT EXISTS (SELECT FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
        WHERE n.nspname = $1 AND c.relname = 'meta')";
    if !ask(client, there, &[&schema.name()]).await?.iter().any(|row| row.get(0)) {
        return Ok(0);
    }
    let sql = schema.render("SELECT value FROM {s}.meta WHERE name = 'version'");
    let rows = ask(client, &sql, &[]).await?;
    Ok(rows.first().map_or(0, |row| row.get::<_, i64>(0).max(0) as usize))
}

/// Refuses a version newer than this program.
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

#[cfg(test)]
mod tests {
    use super::*;
    use uuid::Uuid;

    /// The steps, each with the checksum of its rendered SQL.
    const CHECKSUMS: [(&str, &str); 1] =
        [("initial schema", "db4c1483-0dfa-57e7-80d2-9286e992c888")];

    /// A constant of Rust is part of the rendered SQL, so changing it changes the step.
    #[test]
    fn a_step_does_not_change_by_accident() {
        let schema = Schema::new("windlass").unwrap();
        assert_eq!(STEPS.len(), CHECKSUMS.len(), "add new steps, with their checksum");
        for (step, (name, expected)) in STEPS.iter().zip(CHECKSUMS) {
            let sql: String = step.files.iter().map(|file| schema.render(file)).collect();
            let sum = Uuid::new_v5(&Uuid::nil(), sql.as_bytes()).to_string();
            assert_eq!(step.name, name);
            assert_eq!(
                sum, expected,
                "the step {name:?} has changed, and schemas that have it will not run it again: update its checksum \
                 before the first release, or undo the change and add a new step"
            );
        }
    }

    #[test]
    fn every_placeholder_of_a_step_has_a_value() {
        let schema = Schema::new("windlass").unwrap();
        for file in STEPS.iter().flat_map(|step| step.files) {
            let sql = schema.render(file);
            let names = sql.split('{').skip(1).filter_map(|text| text.split_once('}'));
            let mut unknown = names.map(|(name, _)| name).filter(|name| {
                !name.is_empty() && name.chars().all(|c| c.is_ascii_lowercase() || c == '_')
            });
            assert_eq!(unknown.next(), None);
        }
    }
}
