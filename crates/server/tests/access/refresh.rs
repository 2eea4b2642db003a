//! Keys that change while servers run: made, revoked, noticed everywhere, and never read per request.

use crate::support::{DEADLINE, Site};
use serde_json::json;
use std::sync::Arc;
use std::time::Duration;
use windlass_memory::MemoryEngine;
use windlass_server::{Options, Server};
use windlass_services::{Keys, NewKey};

/// How long a revoked key may be let in, on a machine that is busy.
const SOON: Duration = Duration::from_secs(10);

#[tokio::test]
async fn a_store_without_keys_is_open_on_this_machine_and_locked_by_its_first_key() {
    let site = Site::start().await;
    let open = || site.send("POST", "/v1/jobs", &[], r#"{"kind": "k"}"#);
    assert_eq!(open().await.status, 201);
    let key = site.key("enqueue:*").await;
    let until = tokio::time::timeout(DEADLINE, async { while open().await.status != 401 {} });
    until.await.expect("locked by the first key");
    assert_eq!(site.post(&key, "/v1/jobs", json!({"kind": "k"})).await.status, 201);
}

#[tokio::test]
async fn a_revoked_key_is_let_in_nowhere_within_seconds_and_never_again() {
    let engine = Arc::new(MemoryEngine::new());
    let keys = Keys::new(engine.clone());
    let (key, secret) = keys.create(NewKey::new("k", "enqueue:*".parse().unwrap())).await.unwrap();
    let secret = secret.unwrap().expose().to_owned();
    let mut sites = Vec::new();
    for _ in 0..2 {
        let options = Options::new(([127, 0, 0, 1], 0).into()).services(None);
        let server = Server::bind(options).await.unwrap().serve(engine.clone()).unwrap();
        sites.push(Site { server, keys: keys.clone() });
    }
    for site in &sites {
        assert_eq!(site.post(&secret, "/v1/jobs", json!({"kind": "k"})).await.status, 201);
    }
    keys.revoke(&key.id).await.unwrap();
    let revoked = tokio::time::Instant::now();
    for site in &sites {
        let ask = || site.post(&secret, "/v1/jobs", json!({"kind": "k"}));
        let refused = tokio::time::timeout(SOON, async { while ask().await.status != 401 {} });
        refused.await.unwrap_or_else(|_| panic!("still let in after {:?}", revoked.elapsed()));
        let answer = ask().await;
        assert!(answer.body["detail"].as_str().unwrap().contains("was revoked"), "{answer:?}");
    }
    // The last key is gone, and the store stays locked.
    assert_eq!(sites[0].send("GET", "/v1/jobs", &[], "").await.status, 401);
}

#[tokio::test]
async fn a_server_for_other_machines_lets_nobody_in_before_there_is_a_key() {
    let options = Options::new(([0, 0, 0, 0], 0).into()).services(None);
    let engine = Arc::new(MemoryEngine::new());
    let server = Server::bind(options.clone()).await.unwrap().serve(engine.clone()).unwrap();
    let site = Site { server, keys: Keys::new(engine.clone()) };
    let refused = site.send("GET", "/v1/jobs", &[], "").await;
    assert_eq!(refused.status, 401);
    assert!(
        refused.body["detail"].as_str().unwrap().contains("windlass keys create"),
        "{refused:?}"
    );
    assert_eq!(site.send("GET", "/healthz", &[], "").await.status, 200);

    let server = Server::bind(options.insecure(true)).await.unwrap().serve(engine).unwrap();
    let site = Site { server, keys: site.keys };
    assert_eq!(site.send("GET", "/v1/jobs", &[], "").await.status, 200);
}
