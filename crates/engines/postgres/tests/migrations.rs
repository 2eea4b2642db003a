//! Making and updating the tables: on its own, by hand, and not at all; and that what an older program made is taken on.

#![expect(clippy::unwrap_used, reason = "unwrapping is how the helpers say \"this must hold\" too")]

mod common;

use common::{OwnSchema, application, open, url};
use std::path::Path;
use uuid::Uuid;
use windlass_core::JobId;
use windlass_core::engine::*;
use windlass_core::model::{NewJob, State};
use windlass_core::time::{Clock as _, SystemClock};
use windlass_postgres::{Options, PostgresEngine, migrate, plan};

/// The steps that have landed, each with the sum of its text.
const LANDED: [(&str, &str, &str); 12] = [
    (
        "001_tables.sql",
        include_str!("../sql/001_tables.sql"),
        "f90edfac-8e6e-5e95-925b-5d2e63341adf",
    ),
    ("002_api.sql", include_str!("../sql/002_api.sql"), "c62b2a3a-6911-5771-8b45-cf5e4e936601"),
    (
        "003_leaves.sql",
        include_str!("../sql/003_leaves.sql"),
        "bdca311c-c3a2-5c0a-8a71-3d6e3e9c27e8",
    ),
    (
        "004_rewrite.sql",
        include_str!("../sql/004_rewrite.sql"),
        "94c8f290-2cae-5bf0-90e0-fecb9144e7cb",
    ),
    (
        "005_leaves_together.sql",
        include_str!("../sql/005_leaves_together.sql"),
        "da1d0977-0ef3-5b2d-854a-0daddb9c0bf7",
    ),
    ("006_turns.sql", include_str!("../sql/006_turns.sql"), "1444c9cd-d8a1-5026-acd0-1967fe46164a"),
    (
        "007_never_alone.sql",
        include_str!("../sql/007_never_alone.sql"),
        "c3303305-3895-5ecf-b383-ca8c67057a45",
    ),
    ("008_doors.sql", include_str!("../sql/008_doors.sql"), "ce7d18b1-0190-53de-a947-79167a092391"),
    (
        "009_isolation.sql",
        include_str!("../sql/009_isolation.sql"),
        "391380fe-5b53-50e1-b578-e156d89e700f",
    ),
    (
        "010_wakeups.sql",
        include_str!("../sql/010_wakeups.sql"),
        "eb48a2b1-74ef-5964-9c24-dcf046c009c0",
    ),
    (
        "011_keep_changed.sql",
        include_str!("../sql/011_keep_changed.sql"),
        "507b2f53-ffeb-59cc-9c45-ec9a60e1f9f4",
    ),
    ("012_lanes.sql", include_str!("../sql/012_lanes.sql"), "7e5155b3-fd8f-5f6d-9542-7736def7cdf7"),
];
/// The first version to which jobs can be handed over in SQL,
const ENQUEUES: usize = 2;
/// and those in which leaves are added one by one.
const LEAF_BY_LEAF: std::ops::Range<usize> = 3..5;

fn options(schema: &OwnSchema) -> Options {
    Options::new(url()).schema(&schema.name)
}

async fn exists(schema: &OwnSchema) -> bool {
    let sql = "SELECT EXISTS (SELECT FROM pg_namespace WHERE nspname = $1)";
    application().await.query_one(sql, &[&schema.name]).await.unwrap().get(0)
}

/// Whether jobs can be handed over and found there.
async fn works(engine: &PostgresEngine) {
    engine.enqueue(Enqueue::each([NewJob::new("hello")])).await.unwrap();
    let lanes = engine.stats(StatsRequest::default()).await.unwrap().value;
    assert_eq!((lanes.len(), lanes[0].available), (1, 1));
    assert_eq!(engine.check(false).await.unwrap().value.findings, []);
}

#[tokio::test]
async fn a_plan_tells_what_a_migration_does_and_does_nothing() {
    let schema = OwnSchema::new();
    let planned = plan(&options(&schema)).await.unwrap();
    assert!((planned.from, planned.steps.len()) == (0, planned.to) && planned.to > 0);
    assert!(!exists(&schema).await);
    assert_eq!(migrate(&options(&schema)).await.unwrap(), planned);
    let again = migrate(&options(&schema)).await.unwrap();
    assert_eq!((again.from, again.to), (planned.to, planned.to));
    assert!(again.steps.is_empty() && again.sql.is_empty());
}

#[tokio::test]
async fn the_sql_that_is_told_makes_the_same_by_hand() {
    let schema = OwnSchema::new();
    let planned = plan(&options(&schema)).await.unwrap();
    application().await.batch_execute(&planned.sql).await.unwrap();
    let engine = PostgresEngine::connect(options(&schema).migrate(false)).await.unwrap();
    works(&engine).await;
    assert!(plan(&options(&schema)).await.unwrap().steps.is_empty());
}

#[tokio::test]
async fn an_older_schema_is_refused_with_both_versions_and_the_command() {
    let schema = OwnSchema::new();
    let to = plan(&options(&schema)).await.unwrap().to;
    let error = PostgresEngine::connect(options(&schema).migrate(false)).await.unwrap_err();
    assert_eq!(error.field(), Some("schema"));
    let error = error.to_string();
    let parts = ["version 0", &format!("needs {to}"), "windlass migrate", &schema.name];
    assert!(parts.iter().all(|part| error.contains(part)), "{error}");
    assert!(!exists(&schema).await);
}

#[tokio::test]
async fn a_newer_schema_is_refused_by_everything_and_left_alone() {
    let schema = OwnSchema::new();
    let engine = open(&schema).await;
    let sql = format!("UPDATE \"{}\".meta SET value = 999", schema.name);
    application().await.batch_execute(&sql).await.unwrap();
    for error in [
        PostgresEngine::connect(options(&schema)).await.unwrap_err(),
        PostgresEngine::connect(options(&schema).migrate(false)).await.unwrap_err(),
        migrate(&options(&schema)).await.unwrap_err(),
        plan(&options(&schema)).await.unwrap_err(),
    ] {
        let error = error.to_string();
        assert!(error.contains("version 999") && error.contains("update the program"), "{error}");
    }
    // Whoever is connected goes on: a rolling update of the programs is possible.
    works(&engine).await;
}

#[tokio::test]
async fn installations_of_one_database_are_strangers_whatever_their_names() {
    let (mut one, mut other) = (OwnSchema::new(), OwnSchema::new());
    one.name.push_str(" Jobs; DROP x--%I");
    other.name.push_str(" jobs; drop x--%i");
    let (engine, stranger) = (open(&one).await, open(&other).await);
    works(&engine).await;
    assert!(stranger.stats(StatsRequest::default()).await.unwrap().value.is_empty());
    let sql = format!("SELECT \"{}\".enqueue('hello', unique_key => 'u')", other.name);
    application().await.query_one(&sql, &[]).await.unwrap();
    works_with_two(&stranger).await;
}

async fn works_with_two(engine: &PostgresEngine) {
    engine.enqueue(Enqueue::each([NewJob::new("hello").key("k")])).await.unwrap();
    let lanes = engine.stats(StatsRequest::default()).await.unwrap().value;
    assert_eq!((lanes.len(), lanes[0].available), (1, 2));
}

fn sum(text: &str) -> String {
    Uuid::new_v5(&Uuid::nil(), text.as_bytes()).to_string()
}

#[test]
fn a_step_that_has_landed_never_changes() {
    for (name, text, expected) in LANDED {
        assert_eq!(
            sum(text),
            expected,
            "sql/{name} has changed, and schemas that took this step will not take it again: never edit a \
             step that has landed, undo that and add a new one"
        );
    }
    let files = std::fs::read_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("sql")).unwrap();
    let files = files.map(|file| file.unwrap().file_name().into_string().unwrap());
    let mut steps: Vec<_> = files.filter(|name| name.starts_with(char::is_numeric)).collect();
    steps.sort();
    let known: Vec<_> = LANDED.iter().map(|(name, ..)| *name).collect();
    assert_eq!(steps, known, "a new step is added to those that have landed, with its sum");
}

/// The schema as a program of this version made it.
async fn made_by(version: usize, schema: &OwnSchema) {
    let quoted = format!("\"{}\"", schema.name);
    let planned = plan(&options(schema)).await.unwrap().sql;
    let (_, channel) = planned.split_once("pg_notify(").unwrap();
    let (channel, _) = channel.split_once(',').unwrap();
    let mut sql = format!(
        "BEGIN; CREATE SCHEMA {quoted};
        CREATE TABLE {quoted}.meta (name text PRIMARY KEY, value bigint NOT NULL);
        INSERT INTO {quoted}.meta VALUES ('version', {version});"
    );
    for (_, step, _) in &LANDED[..version] {
        sql += &step.replace("{s}", &quoted).replace("{channel}", channel);
    }
    application().await.batch_execute(&(sql + "; COMMIT")).await.unwrap();
}

/// Claims what is there and completes it; which jobs that were.
async fn complete(engine: &PostgresEngine, claim_no: u64) -> Vec<JobId> {
    let session = engine.open_session(OpenSession::new("w")).await.unwrap().value.id;
    let by = Claimant::Session { session, claim_no };
    let jobs = engine.claim(Claim::new(by, "default", 100)).await.unwrap().value.jobs;
    let done = jobs.into_iter();
    let done = done.map(|job| SettleItem::new(job.header.id, job.lease, Outcome::DONE));
    let settled = engine.settle(Settle::new(done)).await.unwrap().value.items;
    settled.into_iter().map(|item| item.unwrap().id).collect()
}

#[tokio::test]
async fn a_schema_of_any_older_version_is_taken_on_with_its_jobs() {
    for version in ENQUEUES..LANDED.len() {
        let (schema, client) = (OwnSchema::new(), application().await);
        made_by(version, &schema).await;
        let call = |call: String| {
            let sql = format!("SELECT \"{}\".{call}", schema.name);
            let client = &client;
            async move { client.query_one(&sql, &[]).await.unwrap() }
        };
        if LEAF_BY_LEAF.contains(&version) {
            let now = SystemClock.now();
            let [first, end] = [now.minus(60_000), now.plus(60_000)].map(JobId::first_at);
            assert!(call(format!("add_leaf('{first}', '{end}')")).await.get::<_, bool>(0));
        }
        let enqueue = |arguments: &str| {
            let enqueued = call(format!("enqueue({arguments})"));
            async { JobId::from_uuid(enqueued.await.get(0)) }
        };
        let plain = enqueue("'greet', '{\"name\": \"Ada\"}'").await;
        let unique = enqueue("'greet', unique_key => 'u', tags => '{a,b}'").await;
        let later = enqueue("'greet', delay_ms => 3600000").await;

        let planned = plan(&options(&schema)).await.unwrap();
        assert_eq!((planned.from, planned.to), (version, LANDED.len()));
        let engine = open(&schema).await;
        assert!(plan(&options(&schema)).await.unwrap().steps.is_empty(), "from {version}");
        // What was handed over to the old one is done by the new one,
        assert_eq!(complete(&engine, 1).await, [plain, unique]);
        let found = engine.get(Get::new([plain, unique, later])).await.unwrap().value;
        let states: Vec<_> = found.iter().map(|job| job.as_ref().unwrap().state).collect();
        assert_eq!(states, [State::Completed, State::Completed, State::Scheduled]);
        // which goes on in the same way: there are leaves, and jobs come in by SQL.
        engine.maintain(MaintainRequest::new(Work::Compact, 1_000)).await.unwrap();
        let leaves = format!("SELECT count(*) FROM \"{}\".leaf", schema.name);
        assert!(client.query_one(&leaves, &[]).await.unwrap().get::<_, i64>(0) >= 2);
        let again = enqueue("'greet', unique_key => 'u'").await;
        assert_ne!(again, unique, "its key is free");
        assert_eq!(complete(&engine, 2).await, [again]);
        assert_eq!(engine.check(false).await.unwrap().value.findings, [], "from {version}");
    }
}
