//! Migrations: automatic, by hand, and switched off; concurrent; and schemas with odd names.

#![expect(clippy::unwrap_used, reason = "unwrapping is how the helpers say \"this must hold\" too")]

use crate::common::{OwnSchema, application, open, url};
use windlass_core::JobId;
use windlass_core::engine::*;
use windlass_core::model::NewJob;
use windlass_core::policy::Unique;
use windlass_postgres::{Access, Options, PostgresEngine, grant, migrate, plan};

fn options(schema: &OwnSchema) -> Options {
    Options::new(url()).schema(&schema.name)
}

async fn exists(schema: &OwnSchema) -> bool {
    let sql = "SELECT EXISTS (SELECT FROM pg_namespace WHERE nspname = $1)";
    application().await.query_one(sql, &[&schema.name]).await.unwrap().get(0)
}

/// Asserts that jobs can be enqueued and found.
async fn works(engine: &PostgresEngine) {
    engine.enqueue(Enqueue::each([NewJob::new("hello")])).await.unwrap();
    let lanes = engine.stats(StatsRequest::default()).await.unwrap().value;
    assert_eq!((lanes.len(), lanes[0].available), (1, 1));
    assert_eq!(engine.check(false).await.unwrap().value.findings, []);
}

#[tokio::test]
async fn a_plan_returns_the_migration_and_changes_nothing() {
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
async fn the_planned_sql_run_by_hand_creates_the_same() {
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
async fn a_newer_schema_is_refused_and_not_changed() {
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
    // Connected processes continue, which allows rolling updates.
    works(&engine).await;
}

#[tokio::test]
async fn installations_in_one_database_are_independent() {
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

/// Uses everything that puts the schema's name into SQL: the engine, the SQL functions, maintenance and grants.
#[tokio::test]
async fn a_schema_with_an_odd_name_works() {
    let mut schema = OwnSchema::new();
    schema.name.push_str(r#" "a" 'b' \c %d %s"#);
    let quoted = format!("\"{}\"", schema.name.replace('"', "\"\""));
    let (engine, client) = (open(&schema).await, application().await);
    let enqueue = async |arguments: &str| -> JobId {
        let sql = format!("SELECT {quoted}.enqueue({arguments})");
        JobId::from_uuid(client.query_one(&sql, &[]).await.unwrap().get(0))
    };
    let by_sql = enqueue("'greet', unique_key => 'u'").await;
    assert_eq!(enqueue("'greet', unique_key => 'u'").await, by_sql);
    let batch = Enqueue::each([NewJob::new("greet").unique(Unique::by("v")), NewJob::new("greet")]);
    engine.enqueue(batch).await.unwrap();
    assert_eq!(complete(&engine, 1).await.len(), 3);
    // Compaction adds partitions, which are then emptied and dropped, and the small tables are rewritten.
    engine.maintain(MaintainRequest::new(Work::Compact, 1_000)).await.unwrap();
    let count = format!("SELECT count(*) FROM {quoted}.partition");
    assert!(client.query_one(&count, &[]).await.unwrap().get::<_, i64>(0) >= 2);
    engine.enqueue(Enqueue::each([NewJob::new("greet")])).await.unwrap();
    for call in [
        "begin_survey(1)",
        "empty_partition(1, 0, '{}', 100)",
        "drop_partition(2, 100)",
        "rewrite('ready', 100)",
        "rewrite('tally', 100)",
        "rewrite('served', 100)",
        "void_surveys('{}', '{}', '{}')",
    ] {
        client.query_one(&format!("SELECT {quoted}.{call}"), &[]).await.unwrap();
    }
    assert_eq!(complete(&engine, 2).await.len(), 1);
    engine.maintain(MaintainRequest::new(Work::Retain, 1_000)).await.unwrap();
    assert_eq!(engine.check(false).await.unwrap().value.findings, []);
    let granted = grant(&options(&schema), Access::View, "postgres").await.unwrap();
    assert!(granted.contains(&quoted), "{granted}");
}

/// Claims all ready jobs and completes them; returns their ids.
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
async fn processes_that_start_together_migrate_once() {
    let schema = OwnSchema::new();
    let starts = (0..4).map(|_| async { migrate(&options(&schema)).await.unwrap() });
    let done = futures_util::future::join_all(starts).await;
    assert_eq!(done.iter().filter(|done| !done.steps.is_empty()).count(), 1);
    works(&open(&schema).await).await;
}
