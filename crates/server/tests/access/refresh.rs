//! Key changes while servers run: created and revoked keys take effect on all servers, and keys are
//! not read once per request.

use crate::support::{Answer, DEADLINE, Site};
use serde_json::json;
use std::sync::Arc;
use std::time::Duration;
use windlass_memory::MemoryEngine;
use windlass_remote::RemoteEngine;
use windlass_server::{Options, Server};
use windlass_services::{Keys, NewKey};

/// Maximum time until a revoked key is refused, on a busy machine.
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
    // All keys are revoked, but the store still requires authentication.
    assert_eq!(sites[0].send("GET", "/v1/jobs", &[], "").await.status, 401);
}

#[tokio::test]
async fn a_public_server_refuses_requests_until_a_key_exists() {
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

/// The keys of a store through the server, authenticated with this key.
async fn keys_through(site: &Site, key: Option<&str>) -> Keys {
    let key = key.map_or_else(String::new, |key| format!("{key}@"));
    let url = format!("http://{key}{}", site.server.address());
    Keys::new(Arc::new(RemoteEngine::connect(url).await.unwrap()))
}

#[tokio::test]
async fn the_first_key_locks_the_server_it_was_made_through_at_once() {
    let site = Site::start().await;
    let keys = keys_through(&site, None).await;
    assert_eq!(site.post("wl_wrong", "/v1/jobs", json!({"kind": "k"})).await.status, 201);
    keys.create(NewKey::new("admin", "admin".parse().unwrap())).await.unwrap();
    assert_eq!(site.post("wl_wrong", "/v1/jobs", json!({"kind": "k"})).await.status, 401);
    assert_eq!(site.send("POST", "/v1/jobs", &[], r#"{"kind": "k"}"#).await.status, 401);
}

/// A claim that waits for one minute.
async fn waiting_claim(site: &Site, key: &str) -> Answer {
    site.post(key, "/v1/claim", json!({"queues": ["default"], "wait_ms": 60_000})).await
}

async fn until_it_waits(site: &Site) {
    let waits = async {
        while site.server.status().waiting == 0 {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    };
    tokio::time::timeout(DEADLINE, waits).await.expect("it waits");
}

#[tokio::test]
async fn a_key_that_is_revoked_gets_no_job_for_a_claim_that_waits() {
    let (site, admin) = Site::locked().await;
    let (id, worker) = site.key_of(NewKey::new("w", "work:*".parse().unwrap())).await;
    let keys = keys_through(&site, Some(&admin)).await;
    let revoke_and_enqueue = async {
        until_it_waits(&site).await;
        keys.revoke(&id).await.unwrap();
        assert_eq!(site.post(&worker, "/v1/claim", json!({"queues": ["q"]})).await.status, 401);
        assert_eq!(site.post(&admin, "/v1/jobs", json!({"kind": "k"})).await.status, 201);
    };
    let (claimed, ()) = tokio::join!(waiting_claim(&site, &worker), revoke_and_enqueue);
    assert_eq!(claimed.status, 401, "{claimed:?}");
    assert!(claimed.body["detail"].as_str().unwrap().contains("was revoked"), "{claimed:?}");
    let stats = site.get(&admin, "/v1/stats").await;
    assert_eq!(stats.body["lanes"][0]["available"], 1, "not claimed: {stats:?}");
}

#[tokio::test]
async fn a_claim_that_waits_ends_soon_after_its_key_was_revoked_elsewhere() {
    let (site, _) = Site::locked().await;
    let (id, worker) = site.key_of(NewKey::new("w", "work:*".parse().unwrap())).await;
    let revoke = async {
        until_it_waits(&site).await;
        // Revoke directly in the store, not through the server.
        site.keys.revoke(&id).await.unwrap();
    };
    let both = async { tokio::join!(waiting_claim(&site, &worker), revoke) };
    let (claimed, ()) = tokio::time::timeout(SOON, both).await.expect("it ends soon");
    assert_eq!(claimed.status, 401, "{claimed:?}");
}

#[tokio::test]
async fn the_first_key_ends_claims_that_wait_without_one() {
    let site = Site::start().await;
    let keys = keys_through(&site, None).await;
    let lock = async {
        until_it_waits(&site).await;
        keys.create(NewKey::new("admin", "admin".parse().unwrap())).await.unwrap();
    };
    let wait = json!({"queues": ["default"], "wait_ms": 60_000});
    let both = async { tokio::join!(site.post("wl_wrong", "/v1/wait", wait), lock) };
    let (waited, ()) = tokio::time::timeout(SOON, both).await.expect("it ends soon");
    assert_eq!(waited.status, 401, "{waited:?}");
}
