//! A server whose store is not there: it stays up, says so, loses nothing it acknowledged, and recovers by
//! itself. The store is a PostgreSQL of the test's own, killed and started again.

#![expect(clippy::unwrap_used, reason = "unwrapping is how the helpers say \"this must hold\" too")]

#[allow(dead_code, reason = "this test uses its part of them")]
#[path = "../../../engines/postgres/tests/faults/server.rs"]
mod server;
#[path = "../serving/mod.rs"]
mod serving;
#[allow(dead_code, reason = "this test uses its part of them")]
#[path = "../../../engines/postgres/tests/faults/waiting.rs"]
mod waiting;

use serde_json::Value;
use serving::Serving;
use std::collections::BTreeSet;
use std::process::Command;
use waiting::until;

fn serve(store: &str, more: &[&str]) -> Serving {
    let mut command = Command::new(env!("CARGO_BIN_EXE_windlass"));
    command.args(["serve", "--listen", "127.0.0.1:0", "--store", store]).args(more);
    Serving::by(&mut command)
}

/// Asks without holding up the test's own runtime.
async fn ask(server: &Serving, method: &str, path: &str, body: &str) -> (u16, String, Value) {
    let answer = tokio::task::block_in_place(|| server.request(method, path, body));
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    let status = head.split(' ').nth(1).unwrap().parse().unwrap();
    (status, head.to_lowercase(), serde_json::from_str(body).unwrap_or_default())
}

/// Enqueues one job, and remembers it if it was acknowledged.
async fn enqueue(server: &Serving, acknowledged: &mut BTreeSet<String>) -> u16 {
    let (status, head, body) = ask(server, "POST", "/v1/jobs", r#"{"kind":"k"}"#).await;
    match status {
        201 => assert!(acknowledged.insert(body["id"].as_str().unwrap().to_owned())),
        503 => {
            assert!(head.contains("retry-after: "), "{head}");
            assert_eq!(body["code"], "unavailable");
        }
        other => panic!("{other}: {body}"),
    }
    status
}

async fn jobs(server: &Serving) -> BTreeSet<String> {
    let (status, _, page) = ask(server, "GET", "/v1/jobs?limit=1000", "").await;
    assert_eq!(status, 200, "{page}");
    page["jobs"].as_array().unwrap().iter().map(|job| job["id"].as_str().unwrap().into()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_store_that_is_killed_under_a_server_is_missed_and_found_again() {
    let mut store = server::Server::start_new().await;
    let server = serve(&store.url(), &["--disk-limit", "1M"]);
    let mut acknowledged = BTreeSet::new();
    assert_eq!(enqueue(&server, &mut acknowledged).await, 201);
    assert_eq!(ask(&server, "GET", "/readyz", "").await.0, 200);
    // An empty database has more than that already.
    let disk =
        async || ask(&server, "GET", "/healthz", "").await.2["store"]["disk"]["filling"] == true;
    until("the database is found too big", disk).await;

    store.kill();
    for _ in 0..3 {
        assert_eq!(enqueue(&server, &mut acknowledged).await, 503);
    }
    let (status, _, unready) = ask(&server, "GET", "/readyz", "").await;
    assert_eq!((status, &unready["code"]), (503, &"unavailable".into()), "{unready}");
    let said = unready["detail"].as_str().unwrap();
    assert!(said.starts_with("postgres://***@127.0.0.1"), "which store, no user: {said}");
    let (status, _, alive) = ask(&server, "GET", "/healthz", "").await;
    assert_eq!((status, &alive["store"]["up"]), (200, &false.into()), "{alive}");
    assert!(alive["store"]["reason"].is_string() && alive["store"]["down_ms"].is_u64(), "{alive}");
    let metrics = tokio::task::block_in_place(|| server.request("GET", "/metrics", ""));
    assert!(metrics.contains("windlass_store_up 0"), "{metrics}");

    store.start().await;
    let recovered = async || ask(&server, "GET", "/readyz", "").await.0 == 200;
    until("the server has found its store", recovered).await;
    assert_eq!(enqueue(&server, &mut acknowledged).await, 201);
    let there = jobs(&server).await;
    assert!(acknowledged.is_subset(&there), "{acknowledged:?} in {there:?}");
    assert_eq!(ask(&server, "GET", "/healthz", "").await.2["store"]["up"], true);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_starts_without_its_store_and_serves_when_it_comes() {
    let mut store = server::Server::make_in(&std::env::temp_dir());
    let server = serve(&store.url(), &[]);
    let mut acknowledged = BTreeSet::new();
    assert_eq!(enqueue(&server, &mut acknowledged).await, 503);
    assert_eq!(ask(&server, "GET", "/readyz", "").await.0, 503);
    let (status, _, alive) = ask(&server, "GET", "/healthz", "").await;
    assert_eq!((status, &alive["store"]["up"]), (200, &false.into()), "{alive}");

    store.start().await;
    let mut status = 503;
    while status == 503 {
        status = enqueue(&server, &mut acknowledged).await;
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    }
    assert_eq!(jobs(&server).await, acknowledged);
    server.terminate();
}
