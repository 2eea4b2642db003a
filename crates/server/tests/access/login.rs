//! The dashboard with keys: sign-in by cookie, read access for viewers, actions for admins.

use crate::support::{Answer, Site};
use hmac::{Hmac, KeyInit as _, Mac as _};
use serde_json::json;
use sha2::{Digest as _, Sha256};
use std::sync::Arc;
use std::time::Duration;
use windlass_memory::MemoryEngine;
use windlass_server::{Options, Server};
use windlass_services::{Grants, KeyRing, Keys, NewKey};

const OURS: (&str, &str) = ("sec-fetch-site", "same-origin");

async fn sign_in(site: &Site, key: &str) -> Answer {
    site.send("POST", "/login", &[OURS], &format!("key={key}&back=%2Fqueues")).await
}

fn cookie(answer: &Answer) -> String {
    let set = answer.header("set-cookie").expect("a cookie");
    set.split(';').next().expect("a value").to_owned()
}

#[tokio::test]
async fn a_visitor_without_a_session_sees_the_form_and_returns_to_the_requested_page() {
    let (site, _) = Site::locked().await;
    let requested = site.send("GET", "/jobs?state=dead", &[], "").await;
    assert_eq!(requested.status, 401);
    assert!(requested.text.contains(r#"action="/login""#), "{requested:?}");
    assert!(requested.text.contains("/jobs?state=dead"), "{requested:?}");
    let viewer = site.key("view").await;
    let signed = sign_in(&site, &viewer).await;
    assert_eq!((signed.status, signed.header("location")), (303, Some("/queues")), "{signed:?}");
    let set = signed.header("set-cookie").unwrap();
    assert!(set.contains("HttpOnly") && set.contains("SameSite=Strict"), "{set}");
    assert!(!set.contains(&viewer) && !signed.text.contains(&viewer));
    let form = format!("key={viewer}&back=%2F%2Fevil.example");
    let elsewhere = site.send("POST", "/login", &[OURS], &form).await;
    assert_eq!(elsewhere.header("location"), Some("/"));
}

#[tokio::test]
async fn a_viewer_reads_and_an_admin_acts() {
    let (site, admin) = Site::locked().await;
    let viewer = cookie(&sign_in(&site, &site.key("view").await).await);
    let admin = cookie(&sign_in(&site, &admin).await);
    let page = site.send("GET", "/queues/mail", &[("cookie", &viewer)], "").await;
    assert!(page.status == 200 && page.text.contains("Sign out"), "{page:?}");
    let raw = site.send("GET", "/v1/stats", &[("cookie", &viewer)], "").await;
    assert_eq!(raw.status, 200, "the JSON that pages link to");
    let press = async |cookie: &str| {
        site.send("POST", "/queues/mail/pause", &[OURS, ("cookie", cookie)], "").await
    };
    assert_eq!(press(&viewer).await.status, 403);
    assert_eq!(press(&admin).await.status, 303);
    let foreign = [("sec-fetch-site", "cross-site"), ("cookie", &*admin)];
    assert_eq!(site.send("POST", "/queues/mail/resume", &foreign, "").await.status, 403);
    // A cookie is for pages: it must not permit changes on the JSON routes.
    let change = [OURS, ("cookie", &*admin)];
    let changed = site.send("POST", "/v1/settings", &change, r#"{"items": []}"#).await;
    assert_eq!(changed.status, 401);
}

#[tokio::test]
async fn a_wrong_key_or_one_without_read_access_gets_no_cookie() {
    let (site, admin) = Site::locked().await;
    for (key, status) in [
        (site.key("enqueue:*").await, 403),
        (site.key("work:*").await, 403),
        (format!("{}{}", &admin[..admin.len() - 4], "0000"), 401),
        (String::new(), 401),
    ] {
        let answer = sign_in(&site, &key).await;
        assert_eq!((answer.status, answer.header("set-cookie")), (status, None), "{answer:?}");
        assert!(answer.text.contains(r#"role="alert""#), "{answer:?}");
    }
}

#[tokio::test]
async fn a_cookie_cannot_be_forged_and_ends_with_its_key() {
    let (site, _) = Site::locked().await;
    let (id, key) = site.key_of(NewKey::new("v", "view".parse().unwrap())).await;
    let signed = cookie(&sign_in(&site, &key).await);
    let look = async |cookie: &str| site.send("GET", "/", &[("cookie", cookie)], "").await.status;
    assert_eq!(look(&signed).await, 200);
    let (_, value) = signed.split_once('=').unwrap();
    let parts: Vec<&str> = value.split('.').collect();
    let later = (parts[1].parse::<u64>().unwrap() + 1).to_string();
    let other = site.keys.list().await.unwrap().value[0].id.clone();
    for forged in
        [[parts[0], &*later, parts[2]], [&*other, parts[1], parts[2]], [parts[0], "1", parts[2]]]
    {
        assert_eq!(look(&format!("windlass-session={}", forged.join("."))).await, 401);
    }
    assert_eq!(look("windlass-session=").await, 401);
    let out = site.send("POST", "/logout", &[OURS, ("cookie", &signed)], "").await;
    assert!(out.header("set-cookie").unwrap().contains("Max-Age=0"), "{out:?}");
    site.keys.revoke(&id).await.unwrap();
    let gone = async { while look(&signed).await != 401 {} };
    tokio::time::timeout(crate::support::DEADLINE, gone).await.expect("it ends with its key");
}

#[tokio::test]
async fn a_cookie_made_of_all_that_an_admin_can_read_is_refused() {
    let (site, admin) = Site::locked().await;
    let list = json!({"items": [{"list": {"prefix": "", "limit": 1000}}]});
    let listed = site.post(&admin, "/internal/records", list).await;
    assert_eq!(listed.status, 200, "{listed:?}");
    let rows = listed.body["items"][0]["reply"]["records"]["rows"].as_array().expect("records");
    assert!(!rows.is_empty() && !listed.text.contains("secret/"), "{listed:?}");
    let until = until_in(&site, Duration::from_secs(60)).await;
    for row in rows {
        let (name, content) = (row["key"].as_str().unwrap(), &row["value"]["json"]);
        let Some(id) = name.strip_prefix("key/") else { continue };
        let texts = content.as_object().into_iter().flatten().filter_map(|(_, it)| it.as_str());
        for secret in texts.chain([name, ""]) {
            for text in [format!("dashboard {until}"), format!("{id}\0dashboard {until}")] {
                for signature in [sha256(&format!("{secret}\0{text}")), hmac(secret, &text)] {
                    let cookie = format!("windlass-session={id}.{until}.{signature}");
                    let page = site.send("GET", "/", &[("cookie", &cookie)], "").await;
                    assert_eq!(page.status, 401, "forged from {name}");
                }
            }
        }
    }
    for op in ["get", "put", "delete"] {
        let mut name = json!({"key": "secret/signing"});
        if op == "put" {
            name["value"] = json!({"json": {"secret": "0".repeat(64)}});
        }
        let answer = site.post(&admin, "/internal/records", json!({"items": [{op: name}]})).await;
        assert!(answer.text.contains("only servers"), "{op}: {answer:?}");
    }
}

#[tokio::test]
async fn a_cookie_for_longer_than_twelve_hours_is_refused_even_if_the_store_signed_it() {
    let engine = Arc::new(MemoryEngine::new());
    let keys = Keys::new(engine.clone());
    let (key, _) = keys.create(NewKey::new("ops", Grants::admin())).await.unwrap();
    let options = Options::new(([127, 0, 0, 1], 0).into()).services(None);
    let server = Server::bind(options).await.unwrap().serve(engine.clone()).unwrap();
    let (site, id) = (Site { server, keys }, key.id);
    let ring = KeyRing::read(&*engine, None).await.unwrap();
    let who = ring.by_id(&id, ring.now()).unwrap();
    for (hours, status) in [(11, 200), (13, 401), (24 * 365, 401)] {
        let until = until_in(&site, Duration::from_secs(hours * 3_600)).await;
        let signature = who.sign(&format!("dashboard {until}")).unwrap();
        let cookie = format!("windlass-session={id}.{until}.{signature}");
        let page = site.send("GET", "/", &[("cookie", &cookie)], "").await;
        assert_eq!(page.status, status, "{hours} hours");
    }
}

/// An expiry time in the format of cookies.
async fn until_in(site: &Site, time: Duration) -> i64 {
    let now = site.keys.list().await.unwrap().now;
    now.plus(time.as_millis() as u64).as_millis()
}

fn sha256(text: &str) -> String {
    hex(&Sha256::digest(text))
}

fn hmac(secret: &str, text: &str) -> String {
    let mut mac = Hmac::<Sha256>::new_from_slice(secret.as_bytes()).unwrap();
    mac.update(text.as_bytes());
    hex(&mac.finalize().into_bytes())
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
