//! Several servers over one store: no server holds state that another needs.

use crate::support::{options, post, read, start_over, until};
use serde_json::{Value, json};
use std::sync::Arc;
use tokio::io::AsyncWriteExt as _;
use tokio::net::TcpStream;
use windlass_core::engine::Engine;
use windlass_memory::MemoryEngine;
use windlass_server::ServerHandle;

async fn server_of(engine: &Arc<dyn Engine>) -> ServerHandle {
    start_over(engine.clone(), options()).await
}

fn text(value: &Value) -> &str {
    value.as_str().expect("a text")
}

#[tokio::test]
async fn a_job_can_be_enqueued_claimed_and_settled_at_three_different_servers() {
    let engine: Arc<dyn Engine> = Arc::new(MemoryEngine::new());
    let [first, second, third] =
        [server_of(&engine).await, server_of(&engine).await, server_of(&engine).await];
    let session = post(&first, "/v1/sessions", json!({"worker": "w"})).await.body;
    let created = post(&first, "/v1/jobs", json!({"kind": "k", "queue": "q"})).await.body;
    let claim = json!({"session": session["session"], "claim_no": 1, "queues": ["q"]});
    let claimed = post(&second, "/v1/claim", claim.clone()).await.body;
    let job = &claimed["jobs"][0];
    assert_eq!(job["id"], created["id"]);
    // A reply lost with its server is requested again from another one.
    let again = post(&third, "/v1/claim", claim).await.body;
    assert_eq!(again["jobs"][0]["lease"], job["lease"]);
    let report = json!({"id": job["id"], "lease": job["lease"], "outcome": "complete"});
    for (server, already) in [(&third, false), (&first, true)] {
        let settled = post(server, "/v1/settle", json!({"items": [report]})).await.body;
        assert_eq!(settled["items"][0]["already"], already, "{settled}");
    }
}

#[tokio::test]
async fn a_claim_waiting_at_one_server_gets_a_job_enqueued_at_another() {
    let engine: Arc<dyn Engine> = Arc::new(MemoryEngine::new());
    let [first, second] = [server_of(&engine).await, server_of(&engine).await];
    let body = json!({"queues": ["q"], "wait_ms": 60_000}).to_string();
    let mut waiting = TcpStream::connect(first.address()).await.expect("connect");
    let request = crate::support::json_request("POST", "/v1/claim", &body);
    waiting.write_all(request.as_bytes()).await.expect("send");
    until("it waits", || first.status().waiting == 1).await;
    let created = post(&second, "/v1/jobs", json!({"kind": "k", "queue": "q"})).await.body;
    assert_eq!(read(&mut waiting).await.body["jobs"][0]["id"], created["id"]);
}

#[tokio::test]
async fn servers_can_be_replaced_one_after_the_other_under_load() {
    let engine: Arc<dyn Engine> = Arc::new(MemoryEngine::new());
    let mut servers = [server_of(&engine).await, server_of(&engine).await];
    let mut open = Vec::new();
    for round in 0..8 {
        let (stays, goes) = (round % 2, 1 - round % 2);
        let created = post(&servers[goes], "/v1/jobs", json!({"kind": "k"})).await;
        assert_eq!(created.status, 201, "{created:?}");
        let claimed = post(&servers[goes], "/v1/claim", json!({"queues": ["default"]})).await.body;
        open.push(claimed["jobs"][0].clone());
        tokio::join!(servers[goes].stop(), async {
            // Clients of the other server are not affected.
            let created = post(&servers[stays], "/v1/jobs", json!({"kind": "k"})).await;
            assert_eq!(created.status, 201, "{created:?}");
        });
        servers[goes] = server_of(&engine).await;
    }
    // Leases outlive the servers that issued them.
    for job in &open {
        let report =
            json!({"id": text(&job["id"]), "lease": text(&job["lease"]), "outcome": "complete"});
        let settled = post(&servers[0], "/v1/settle", json!({"items": [report]})).await.body;
        assert_eq!(settled["items"][0]["state"], "completed", "{settled}");
    }
    let rest = post(&servers[1], "/v1/claim", json!({"queues": ["default"], "limit": 100})).await;
    assert_eq!(rest.body["jobs"].as_array().map(Vec::len), Some(8), "{rest:?}");
}
