//! Permissions limited to kinds, queues and sessions.

use crate::support::Site;
use serde_json::json;
use windlass_core::policy::fire_id;
use windlass_core::time::{Clock as _, SystemClock};

#[tokio::test]
async fn a_producer_enqueues_its_kinds_and_no_others() {
    let (site, admin) = Site::locked().await;
    let key = site.key("enqueue:invoice,enqueue:receipt").await;
    assert_eq!(site.post(&key, "/v1/jobs", json!({"kind": "invoice"})).await.status, 201);
    site.post(&key, "/v1/jobs", json!({"kind": "mail"})).await.needs("enqueue:mail");

    let jobs = json!([{"kind": "mail"}, {"kind": "receipt"}, {"kind": "a b"}, {"kind": "invoice"}]);
    let batch = site.post(&key, "/v1/jobs/batch", json!({"jobs": jobs})).await;
    let items = batch.body["items"].as_array().unwrap();
    let ok: Vec<bool> = items.iter().map(|item| item["ok"].as_bool().unwrap()).collect();
    assert_eq!((batch.status, ok), (200, vec![false, true, false, true]), "{batch:?}");
    assert_eq!(items[0]["code"], "forbidden");

    let atomic = json!({"atomic": true, "jobs": [{"kind": "receipt"}, {"kind": "mail"}]});
    let batch = site.post(&key, "/v1/jobs/batch", atomic).await;
    assert_eq!(batch.body["items"][0]["code"], "aborted", "{batch:?}");
    assert_eq!(batch.body["items"][1]["needs"], "enqueue:mail", "{batch:?}");

    let any = site.key("enqueue:*").await;
    assert_eq!(site.post(&any, "/v1/jobs", json!({"kind": "anything"})).await.status, 201);
    let kinds = site.get(&admin, "/v1/jobs?limit=100").await;
    let kinds: Vec<_> =
        kinds.body["jobs"].as_array().unwrap().iter().map(|job| job["kind"].clone()).collect();
    assert!(!kinds.contains(&json!("mail")), "{kinds:?}");
    assert_eq!(kinds.len(), 4, "{kinds:?}");
}

#[tokio::test]
async fn a_producer_cannot_take_the_id_of_a_fire() {
    let (site, admin) = Site::locked().await;
    let key = site.key("enqueue:*").await;
    let now = SystemClock.now();
    let job =
        |derived: bool| json!({"kind": "k", "id": fire_id("nightly", now), "derived": derived});
    for key in [&key, &admin] {
        let plain = site.post(key, "/v1/jobs", job(false)).await;
        assert_eq!((plain.status, &plain.body["field"]), (422, &json!("id")), "{plain:?}");
    }
    site.post(&key, "/v1/jobs", job(true)).await.needs("admin");
    let batch = site.post(&key, "/v1/jobs/batch", json!({"jobs": [job(true)]})).await;
    assert_eq!(batch.body["items"][0]["needs"], "admin", "{batch:?}");
    // An admin may do so, as a scheduler in another process does.
    assert_eq!(site.post(&admin, "/v1/jobs", job(true)).await.status, 201);
}

#[tokio::test]
async fn a_worker_claims_from_its_queues_and_no_others() {
    let (site, admin) = Site::locked().await;
    let key = site.key("work:mail").await;
    for queue in ["mail", "secret"] {
        site.post(&admin, "/v1/jobs", json!({"kind": "k", "queue": queue})).await;
    }
    site.post(&key, "/v1/claim", json!({"queues": ["mail", "secret"]})).await.needs("work:secret");
    let wait = json!({"queues": ["secret"], "wait_ms": 0});
    site.post(&key, "/v1/wait", wait).await.needs("work:secret");
    let (id, lease) = site.claimed(&key, "mail").await;
    let report = json!({"id": id, "lease": lease, "outcome": "complete"});
    let with_claim = json!({"items": [report], "claim": {"queues": ["secret"]}});
    site.post(&key, "/v1/settle", with_claim).await.needs("work:secret");
    let settled = site.post(&key, "/v1/settle", json!({"items": [report]})).await;
    assert_eq!(
        settled.body["items"][0]["state"], "completed",
        "nothing was done before: {settled:?}"
    );
}

#[tokio::test]
async fn a_follow_up_that_its_worker_may_not_enqueue_keeps_the_lease() {
    let (site, admin) = Site::locked().await;
    let key = site.key("work:default,enqueue:receipt").await;
    site.post(&admin, "/v1/jobs", json!({"kind": "invoice"})).await;
    let (id, lease) = site.claimed(&key, "default").await;
    let report = |kind: &str| {
        let item = json!({"id": id, "lease": lease, "outcome": "complete", "follow_ups": [{"kind": kind}]});
        json!({"items": [item]})
    };
    let refused = site.post(&key, "/v1/settle", report("mail")).await;
    assert_eq!(refused.body["items"][0]["needs"], "enqueue:mail", "{refused:?}");
    let settled = site.post(&key, "/v1/settle", report("receipt")).await;
    assert_eq!(settled.body["items"][0]["state"], "completed", "{settled:?}");
}

#[tokio::test]
async fn a_worker_moves_its_job_to_its_own_queues_only() {
    let (site, admin) = Site::locked().await;
    let key = site.key("work:mail,work:later").await;
    site.post(&admin, "/v1/jobs", json!({"kind": "k", "queue": "mail"})).await;
    let (id, lease) = site.claimed(&key, "mail").await;
    let report = |queue: &str| json!({"items": [{"id": id, "lease": lease, "outcome": "release", "queue": queue}]});
    let refused = site.post(&key, "/v1/settle", report("secret")).await;
    assert_eq!(refused.body["items"][0]["needs"], "work:secret", "{refused:?}");
    let settled = site.post(&key, "/v1/settle", report("later")).await;
    assert_eq!(settled.body["items"][0]["state"], "available", "{settled:?}");
}

#[tokio::test]
async fn a_session_is_worth_nothing_to_another_key() {
    let (site, admin) = Site::locked().await;
    let (mine, other) = (site.key("work:*").await, site.key("work:*,view").await);
    let opened = site.post(&mine, "/v1/sessions", json!({"worker": "w"})).await;
    let session = opened.body["session"].as_str().unwrap().to_owned();
    let beat = |session: &str| json!({"session": session, "held": [], "upto": 0});
    assert_eq!(site.post(&mine, "/v1/heartbeat", beat(&session)).await.status, 200);
    assert_eq!(
        site.post(&other, "/v1/heartbeat", beat(&session)).await.body["code"],
        "session_lost"
    );

    // Nor with the id that viewers see, with or without the signature of another session.
    let seen = site.get(&other, "/v1/workers").await;
    let seen = seen.body["workers"][0]["session"].as_str().expect("a session").to_owned();
    let own = site.post(&other, "/v1/sessions", json!({"worker": "o"})).await;
    let (_, signature) = own.body["session"].as_str().unwrap().rsplit_once('.').unwrap();
    for forged in [seen.clone(), format!("{seen}.{signature}")] {
        let answer = site.post(&other, "/v1/heartbeat", beat(&forged)).await;
        assert_eq!(answer.body["code"], "session_lost", "{answer:?}");
        let closed =
            site.call(&other, "DELETE", &format!("/v1/sessions/{forged}"), json!({})).await;
        assert_eq!(closed.status, 409, "{closed:?}");
        let claim = json!({"session": forged, "claim_no": 1, "queues": ["default"]});
        assert_eq!(site.post(&other, "/v1/claim", claim).await.body["code"], "session_lost");
    }
    assert_eq!(site.post(&mine, "/v1/heartbeat", beat(&session)).await.status, 200, "it is there");

    site.post(&admin, "/v1/jobs", json!({"kind": "k"})).await;
    let claim = json!({"session": session, "claim_no": 1, "queues": ["default"]});
    let claimed = site.post(&mine, "/v1/claim", claim).await;
    assert_eq!(claimed.body["jobs"].as_array().unwrap().len(), 1, "{claimed:?}");
    let path = format!("/v1/sessions/{session}");
    assert_eq!(site.call(&mine, "DELETE", &path, json!({})).await.status, 200);
}

#[tokio::test]
async fn a_claim_repeated_under_its_name_by_another_key_is_another_claim() {
    let (site, admin) = Site::locked().await;
    let (mine, other) = (site.key("work:*").await, site.key("work:*").await);
    site.post(&admin, "/v1/jobs", json!({"kind": "k"})).await;
    let claim = json!({"queues": ["default"], "claim_id": "nightly", "worker": "w"});
    let count = |answer: &crate::support::Answer| answer.body["jobs"].as_array().unwrap().len();
    assert_eq!(count(&site.post(&mine, "/v1/claim", claim.clone()).await), 1);
    assert_eq!(count(&site.post(&other, "/v1/claim", claim.clone()).await), 0);
    assert_eq!(
        count(&site.post(&mine, "/v1/claim", claim).await),
        1,
        "to its own key it is the same"
    );
}

#[tokio::test]
async fn a_producer_reads_the_status_of_jobs_of_its_kinds_and_nothing_else_of_them() {
    let (site, admin) = Site::locked().await;
    let key = site.key("enqueue:invoice").await;
    let secret = "n0b0dy-m4y-r34d";
    let job = json!({"kind": "invoice", "payload": {"iban": secret}, "max_attempts": 1});
    let id = site.post(&key, "/v1/jobs", job).await.body["id"].as_str().unwrap().to_owned();
    let claimed = site.post(&admin, "/v1/claim", json!({"queues": ["default"]})).await;
    let report = json!({"id": id, "lease": claimed.body["jobs"][0]["lease"], "outcome": "fail",
        "error": {"code": "bank", "message": secret}});
    site.post(&admin, "/v1/settle", json!({"items": [report]})).await;
    let path = format!("/v1/jobs/{id}");
    let status = site.get(&key, &format!("{path}?wait_ms=1000")).await;
    assert_eq!((status.status, &status.body["state"]), (200, &json!("dead")), "{status:?}");
    assert_eq!((&status.body["failures"], &status.body["finish"]), (&json!(1), &json!("failed")));
    assert!(!status.body.to_string().contains(secret), "{status:?}");
    site.get(&key, &format!("{path}?parts=payload")).await.needs("view");
    site.get(&key, "/v1/jobs").await.needs("view");
    assert!(site.get(&admin, &path).await.body.to_string().contains(secret));

    // Jobs of other kinds do not exist for it, whether it waits or not.
    let other = site.post(&admin, "/v1/jobs", json!({"kind": "mail"})).await;
    let other = format!("/v1/jobs/{}", other.body["id"].as_str().unwrap());
    for path in [other.clone(), format!("{other}?wait_ms=60000")] {
        let hidden = site.get(&key, &path).await;
        assert_eq!((hidden.status, &hidden.body["code"]), (404, &json!("not_found")), "{hidden:?}");
    }
}

#[tokio::test]
async fn keys_are_created_listed_and_revoked_over_http() {
    let (site, admin) = Site::locked().await;
    let new = json!({"name": "billing", "may": ["enqueue:invoice", "view"], "expires_ms": 60_000});
    let created = site.post(&admin, "/v1/keys", new).await;
    assert_eq!(created.status, 201, "{created:?}");
    let (id, secret) =
        (created.body["id"].as_str().unwrap(), created.body["secret"].as_str().unwrap());
    assert_eq!(site.get(secret, "/v1/jobs").await.status, 200);
    let listed = site.get(&admin, "/v1/keys").await;
    let keys = listed.body["keys"].as_array().unwrap();
    let key = keys.iter().find(|key| key["id"] == id).expect("listed");
    assert_eq!(
        (&key["name"], &key["may"]),
        (&json!("billing"), &json!(["enqueue:invoice", "view"]))
    );
    assert!(key["expires_at"].is_string() && !listed.body.to_string().contains(secret));
    let revoked = site.call(&admin, "DELETE", &format!("/v1/keys/{id}"), json!({})).await;
    assert!(revoked.body["revoked_at"].is_string(), "{revoked:?}");
    assert_eq!(site.get(secret, "/v1/jobs").await.status, 401, "at once");
    let missing = site.call(&admin, "DELETE", "/v1/keys/none", json!({})).await;
    assert_eq!((missing.status, &missing.body["what"]), (404, &json!("key")), "{missing:?}");
    let wrong = site.post(&admin, "/v1/keys", json!({"name": "x", "may": ["everything"]})).await;
    assert_eq!((wrong.status, &wrong.body["field"]), (422, &json!("may")), "{wrong:?}");
}
