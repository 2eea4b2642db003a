//! The audit log: records all changes by admins, from every route, and never the contents of jobs.

use crate::support::Site;
use serde_json::{Value, json};
use std::sync::Arc;
use windlass_core::model::NewJob;
use windlass_core::policy::Schedule;
use windlass_remote::RemoteEngine;
use windlass_services::{Keys, NewKey, Schedules};

const PAYLOAD: &str = "p4yl0ad";

async fn log(site: &Site, key: &str, query: &str) -> Vec<Value> {
    let page = site.get(key, &format!("/v1/audit?{query}")).await;
    assert_eq!(page.status, 200, "{page:?}");
    page.body["actions"].as_array().unwrap().clone()
}

fn reported(actions: &[Value]) -> Vec<(String, String)> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    actions.iter().map(|it| (text(&it["action"]), text(&it["targets"][0]))).collect()
}

#[tokio::test]
async fn admin_actions_are_audited_with_caller_action_before_and_after() {
    let (site, admin) = Site::locked().await;
    let (id, ops) = site.key_of(NewKey::new("ops", "admin".parse().unwrap())).await;
    let job = json!({"kind": "k", "payload": {"x": PAYLOAD}});
    let job = site.post(&ops, "/v1/jobs", job).await.body["id"].as_str().unwrap().to_owned();
    site.call(&ops, "PATCH", "/v1/queues/mail", json!({"paused": true})).await;
    site.post(&ops, &format!("/v1/jobs/{job}/cancel"), json!({})).await;
    let replay = json!({"parts": {"payload": {"json": {"x": PAYLOAD}}}});
    site.post(&ops, &format!("/v1/jobs/{job}/replay"), replay).await;
    let schedule =
        json!({"schedule": {"every_ms": 60000}, "job": {"kind": "k", "payload": PAYLOAD}});
    site.call(&ops, "PUT", "/v1/schedules/nightly", schedule).await;
    site.post(&ops, "/v1/schedules/nightly/trigger", json!({})).await;
    site.call(&ops, "DELETE", "/v1/schedules/nightly", json!({})).await;
    let maintain = json!({"work": "retain", "budget": 10});
    site.post(&ops, "/internal/maintain", maintain.clone()).await;
    site.post(&ops, "/internal/maintain", maintain).await;
    site.post(&ops, "/internal/check", json!({"repair": true})).await;

    let all = log(&site, &admin, "").await;
    let expected = [
        ("store.repair", "store"),
        ("store.retain", "store"),
        ("schedule.remove", "nightly"),
        ("schedule.trigger", "nightly"),
        ("schedule.create", "nightly"),
        ("job.replay", &*job),
        ("job.cancel", &*job),
        ("queue.configure", "mail"),
    ];
    let expected = expected.map(|(action, target)| (action.to_owned(), target.to_owned()));
    assert_eq!(reported(&all), expected, "{all:#?}");
    assert!(all.iter().all(|it| it["who"] == "ops" && it["key"] == id.as_str()), "{all:#?}");
    assert!(!json!(all).to_string().contains(PAYLOAD), "{all:#?}");
    let [.., replayed, cancelled, configured] = all.as_slice() else { panic!("{all:?}") };
    assert_eq!(configured["before"], Value::Null);
    assert_eq!(configured["after"]["paused"], true);
    assert_eq!(cancelled["before"], json!({"state": "available"}));
    assert_eq!(cancelled["after"], json!({"state": "cancelled"}));
    assert_eq!(replayed["after"], json!({"state": "available", "edited": ["payload"]}));

    assert_eq!(log(&site, &admin, "action=job").await.len(), 2);
    assert_eq!(log(&site, &admin, "who=admin").await.len(), 0);
    assert_eq!(log(&site, &admin, "target=mail&who=ops").await.len(), 1);
    let first = site.get(&admin, "/v1/audit?limit=5").await;
    let next = first.body["next"].as_str().expect("more");
    assert_eq!(log(&site, &admin, &format!("after={next}")).await.len(), 3);
}

#[tokio::test]
async fn changes_through_records_are_audited_as_the_actions_they_are() {
    let (site, admin) = Site::locked().await;
    let url = format!("http://{admin}@{}", site.server.address());
    let engine = Arc::new(RemoteEngine::connect(url).await.unwrap());
    let keys = Keys::new(engine.clone());
    let (key, secret) = keys.create(NewKey::new("new", "view".parse().unwrap())).await.unwrap();
    keys.revoke(&key.id).await.unwrap();
    let schedules = Schedules::new(engine);
    schedules.put("s", Schedule::every_ms(60_000), NewJob::new("k").json(PAYLOAD)).await.unwrap();
    schedules.pause("s").await.unwrap();
    let all = log(&site, &admin, "").await;
    let expected = [
        ("schedule.change", "s"),
        ("schedule.create", "s"),
        ("key.revoke", &*key.id),
        ("key.create", &*key.id),
    ];
    let expected = expected.map(|(action, target)| (action.to_owned(), target.to_owned()));
    assert_eq!(reported(&all), expected, "{all:#?}");
    assert_eq!(
        (&all[0]["before"]["paused"], &all[0]["after"]["paused"]),
        (&json!(false), &json!(true))
    );
    assert_eq!(all[3]["after"]["may"], json!(["view"]));
    let text = json!(all).to_string();
    assert!(
        !text.contains(secret.unwrap().expose())
            && !text.contains(PAYLOAD)
            && !text.contains("hash")
    );
}

#[tokio::test]
async fn registering_and_deleting_a_kind_is_audited_with_its_rules() {
    let (site, admin) = Site::locked().await;
    let schema = json!({"type": "object", "title": PAYLOAD});
    let put = json!({"sensitive": true, "schema": schema});
    let put = site.call(&admin, "PUT", "/v1/kinds/charge", put).await;
    assert_eq!(put.status, 200, "{put:?}");
    let bearer = format!("Bearer {admin}");
    let headers = [("authorization", &*bearer)];
    assert_eq!(site.send("DELETE", "/v1/kinds/charge", &headers, "").await.status, 200);
    let all = log(&site, &admin, "target=charge").await;
    let expected = [("kind.unregister", "charge"), ("kind.register", "charge")];
    let expected = expected.map(|(action, target)| (action.to_owned(), target.to_owned()));
    assert_eq!(reported(&all), expected, "{all:#?}");
    assert_eq!((&all[1]["before"], &all[1]["after"]["sensitive"]), (&Value::Null, &json!(true)));
    assert_eq!((&all[0]["before"]["sensitive"], &all[0]["after"]), (&json!(true), &Value::Null));
    assert!(all[1]["after"]["schema"]["bytes"].is_u64(), "{all:#?}");
    assert!(!json!(all).to_string().contains(PAYLOAD), "{all:#?}");
}

#[tokio::test]
async fn clients_cannot_write_to_the_audit_log() {
    let (site, admin) = Site::locked().await;
    site.call(&admin, "PATCH", "/v1/queues/mail", json!({"paused": true})).await;
    let id = log(&site, &admin, "").await[0]["id"].as_str().unwrap().to_owned();
    for key in [&*format!("audit/{id}"), "audit/0", "audit-swept"] {
        let put = json!({"put": {"key": key, "value": {"json": {}}}});
        for op in [put, json!({"delete": {"key": key}})] {
            let answer = site.post(&admin, "/internal/records", json!({"items": [op]})).await;
            let refused = (answer.status, answer.body["field"].as_str());
            assert_eq!(refused, (422, Some("key")), "{answer:?}");
        }
    }
    assert_eq!(log(&site, &admin, "").await.len(), 1);
}

#[tokio::test]
async fn actions_on_the_dashboard_are_audited_and_shown() {
    let (site, admin) = Site::locked().await;
    let bearer = format!("Bearer {admin}");
    let ours = [("sec-fetch-site", "same-origin"), ("authorization", &*bearer)];
    assert_eq!(site.send("POST", "/queues/mail/pause", &ours, "").await.status, 303);
    let page = site.send("GET", "/audit?action=queue", &ours, "").await;
    assert!(page.text.contains("queue.configure") && page.text.contains("mail"), "{page:?}");
    let none = site.send("GET", "/audit?action=job", &ours, "").await;
    assert!(none.text.contains("No matching audit entries"), "{none:?}");
}
