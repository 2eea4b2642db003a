//! Making and updating the tables: on its own, by hand, and not at all.

#![expect(clippy::unwrap_used, reason = "unwrapping is how the helpers say \"this must hold\" too")]

mod common;

use common::{OwnSchema, application, open, url};
use windlass_core::engine::*;
use windlass_core::model::NewJob;
use windlass_postgres::{Options, PostgresEngine, migrate, plan};

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
