//! Too little of something: connections, time, room on the server.

use crate::common::{OwnSchema, url};
use crate::server::Server;
use crate::waiting::until;
use futures_util::future::join_all;
use tokio_postgres::Client;
use windlass_core::engine::*;
use windlass_core::model::NewJob;
use windlass_core::{Error, Result};
use windlass_postgres::{Options, PostgresEngine};

/// Callers at the same time, and how many connections there are for them.
const CALLERS: usize = 400;
const CONNECTIONS: usize = 2;
/// Connections of a small server.
const ROOM: usize = 12;

async fn application(url: &str) -> Client {
    let (client, connection) =
        tokio_postgres::connect(url, tokio_postgres::NoTls).await.expect("connects");
    tokio::spawn(connection);
    client
}

async fn enqueue(engine: &PostgresEngine) -> Result<()> {
    let mut added = engine.enqueue(Enqueue::each([NewJob::new("x")])).await?.value;
    added.remove(0).map(|_| ())
}

async fn available(engine: &PostgresEngine) -> u64 {
    let lanes = engine.stats(StatsRequest::default()).await.expect("stats").value;
    lanes.iter().map(|lane| lane.available).sum()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn callers_beyond_the_connections_wait_their_turn() {
    let schema = OwnSchema::new();
    let name = format!("pressed_{}", schema.name);
    let url = format!("{}?application_name={name}", url());
    let options = Options::new(&url).schema(&schema.name).connections(CONNECTIONS);
    let engine = PostgresEngine::connect(options).await.expect("connects");
    for answer in join_all((0..CALLERS).map(|_| enqueue(&engine))).await {
        answer.expect("no caller is refused");
    }
    assert_eq!(available(&engine).await, CALLERS as u64);
    let client = application(&crate::common::url()).await;
    let used = "SELECT count(*) FROM pg_stat_activity WHERE application_name = $1";
    let used: i64 = client.query_one(used, &[&name]).await.expect("a row").get(0);
    assert!(used <= CONNECTIONS as i64 + 1, "{used} connections, one of which listens");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_without_free_connections_is_an_error_at_start_and_waited_for_later() {
    let mut server = Server::make_in(&std::env::temp_dir());
    server.set(format!("max_connections={ROOM}"));
    // One of them may be busy; other connections are refused.
    server.set("superuser_reserved_connections=0");
    server.set("max_wal_senders=0");
    server.start().await;
    let connect = || PostgresEngine::connect(Options::new(server.url()));
    let engine = connect().await.expect("there is room");
    enqueue(&engine).await.expect("there is a connection");
    let mut others = Vec::new();
    while let Ok((client, connection)) =
        tokio_postgres::connect(&server.url(), tokio_postgres::NoTls).await
    {
        tokio::spawn(connection);
        others.push(client);
        assert!(others.len() < ROOM, "the server has more room than it was given");
    }
    let error = connect().await.expect_err("there is no room").to_string();
    assert!(error.contains("max_connections"), "{error}");
    // It would use more, but goes on with those it has.
    for answer in join_all((0..CALLERS).map(|_| enqueue(&engine))).await {
        answer.expect("no caller is refused");
    }
    assert_eq!(available(&engine).await, CALLERS as u64 + 1);
    others.clear();
    until("there is room again", async || connect().await.is_ok()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_statement_timeout_is_reported_and_leaves_nothing_behind() {
    let schema = OwnSchema::new();
    let url = format!("{}?options=-c%20statement_timeout%3D300ms", url());
    let engine = PostgresEngine::connect(Options::new(url).schema(&schema.name)).await;
    let engine = engine.expect("connects");
    enqueue(&engine).await.expect("nothing is in the way");
    let mut client = application(&crate::common::url()).await;
    let in_the_way = client.transaction().await.expect("begins");
    let lock = format!("LOCK TABLE \"{}\".job, \"{0}\".lease IN SHARE MODE", schema.name);
    in_the_way.batch_execute(&lock).await.expect("locks");
    let session = engine.open_session(OpenSession::new("w")).await.expect("opens").value.id;
    let claim = || {
        let by = Claimant::Session { session: session.clone(), claim_no: 1 };
        engine.claim(Claim::new(by, "default", 1))
    };
    for error in [enqueue(&engine).await.unwrap_err(), claim().await.unwrap_err()] {
        assert!(matches!(error, Error::Unavailable { .. }), "{error}");
        assert!(error.to_string().contains("statement_timeout"), "{error}");
    }
    in_the_way.rollback().await.expect("lets go");
    enqueue(&engine).await.expect("nothing is in the way");
    assert_eq!(claim().await.expect("nothing is in the way").value.jobs.len(), 1);
    assert_eq!(available(&engine).await, 1);
    assert_eq!(engine.check(false).await.expect("checks").value.findings, []);
}
