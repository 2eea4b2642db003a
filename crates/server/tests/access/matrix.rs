//! Every route with every type of principal: the table below lists the expected status of each.

use crate::support::Site;
use std::collections::BTreeSet;
use std::time::Duration;
use windlass_services::{Grants, NewKey};

/// Method, route, an example path, a body; then the expected status for a request without a valid
/// key (none, wrong, revoked, expired), and for a producer, a worker, a viewer and an admin. 404,
/// 409, 422 and similar mean that the request was authorized: the target does not exist, or the
/// request is incomplete.
type Row = (&'static str, &'static str, &'static str, &'static str, [u16; 5]);

const ID: &str = "/v1/jobs/0190a000-0000-7000-8000-000000000001";
const PART: &str = "/v1/jobs/0190a000-0000-7000-8000-000000000001/checkpoint";
const WHY: &str = "/v1/jobs/0190a000-0000-7000-8000-000000000001/why";
/// An action on the same job.
macro_rules! concat_id {
    ($action:literal) => {
        concat!("/v1/jobs/0190a000-0000-7000-8000-000000000001/", $action)
    };
}
const SIGNAL: &str = "/v1/jobs/0190a000-0000-7000-8000-000000000001/signal";
const BULK: &str = "/v1/bulk/0190a000-0000-7000-8000-000000000001";
const BULK_CANCEL: &str = "/v1/bulk/0190a000-0000-7000-8000-000000000001/cancel";
const JOB_PAGE: &str = "/jobs/0190a000-0000-7000-8000-000000000001";
const JOB_BUTTON: &str = "/jobs/0190a000-0000-7000-8000-000000000001/cancel";
const SCHEDULE: &str = r#"{"schedule": {"every_ms": 60000}, "job": {"kind": "mail"}}"#;

#[rustfmt::skip]
const ROWS: &[Row] = &[
    //                                                                              stranger producer worker viewer admin
    ("POST",   "/v1/jobs",                    "/v1/jobs",              r#"{"kind": "mail"}"#,            [401, 201, 403, 403, 201]),
    ("GET",    "/v1/jobs",                    "/v1/jobs",              "",                               [401, 403, 403, 200, 200]),
    ("POST",   "/v1/jobs/batch",              "/v1/jobs/batch",        r#"{"jobs": [{"kind": "mail"}]}"#,[401, 200, 403, 403, 200]),
    ("POST",   "/v1/jobs/get",                "/v1/jobs/get",          r#"{"ids": []}"#,                 [401, 403, 403, 200, 200]),
    ("POST",   "/v1/jobs/import",             "/v1/jobs/import",       r#"{"jobs": []}"#,                [401, 403, 403, 403, 200]),
    ("POST",   "/v1/jobs/change",             "/v1/jobs/change",       r#"{"items": []}"#,               [401, 403, 403, 403, 200]),
    ("GET",    "/v1/jobs/{id}",               ID,                      "",                               [401, 404, 403, 404, 404]),
    ("GET",    "/v1/jobs/{id}/why",           WHY,                     "",                               [401, 403, 403, 404, 404]),
    ("POST",   "/v1/jobs/{id}/cancel", concat_id!("cancel"), r#"{}"#, [401, 403, 403, 403, 404]),
    ("POST",   "/v1/jobs/{id}/discard", concat_id!("discard"), r#"{}"#, [401, 403, 403, 403, 404]),
    ("POST",   "/v1/jobs/{id}/kill", concat_id!("kill"), r#"{}"#, [401, 403, 403, 403, 404]),
    ("POST",   "/v1/jobs/{id}/move", concat_id!("move"), r#"{"queue": "q"}"#, [401, 403, 403, 403, 404]),
    ("POST",   "/v1/jobs/{id}/pause", concat_id!("pause"), r#"{}"#, [401, 403, 403, 403, 404]),
    ("POST",   "/v1/jobs/{id}/promote", concat_id!("promote"), r#"{}"#, [401, 403, 403, 403, 404]),
    ("POST",   "/v1/jobs/{id}/replay", concat_id!("replay"), r#"{}"#, [401, 403, 403, 403, 404]),
    ("POST",   "/v1/jobs/{id}/reprioritise", concat_id!("reprioritise"), r#"{"priority": 1}"#, [401, 403, 403, 403, 404]),
    ("POST",   "/v1/jobs/{id}/reschedule", concat_id!("reschedule"), r#"{}"#, [401, 403, 403, 403, 404]),
    ("POST",   "/v1/jobs/{id}/resume", concat_id!("resume"), r#"{}"#, [401, 403, 403, 403, 404]),
    ("POST",   "/v1/jobs/{id}/signal",        SIGNAL,                  r#"{"name": "go"}"#,              [401, 403, 403, 403, 404]),
    ("GET",    "/v1/jobs/{id}/{part}",        PART,                    "",                               [401, 403, 403, 404, 404]),
    ("PUT",    "/v1/jobs/{id}/{part}",        PART,                    "{}",                             [401, 403, 422, 403, 422]),
    ("POST",   "/v1/flows",                   "/v1/flows",             r#"{"nodes": {"a": {"kind": "mail"}}}"#, [401, 201, 403, 403, 201]),
    ("GET",    "/v1/flows/{flow}",            "/v1/flows/f",           "",                               [401, 403, 403, 404, 404]),
    ("POST",   "/v1/flows/{flow}/cancel",     "/v1/flows/f/cancel",    "{}",                             [401, 403, 403, 403, 200]),
    ("POST",   "/v1/flows/{flow}/replay",     "/v1/flows/f/replay",    "{}",                             [401, 403, 403, 403, 200]),
    ("GET",    "/v1/dead",                    "/v1/dead",              "",                               [401, 403, 403, 200, 200]),
    ("POST",   "/v1/dead/replay",             "/v1/dead/replay",       r#"{"filter": {}}"#,              [401, 403, 403, 403, 200]),
    ("POST",   "/v1/dead/discard",            "/v1/dead/discard",      r#"{"filter": {}}"#,              [401, 403, 403, 403, 200]),
    ("POST",   "/v1/bulk",                    "/v1/bulk",              r#"{"filter": {}, "change": "cancel", "dry_run": true}"#, [401, 403, 403, 403, 200]),
    ("GET",    "/v1/bulk",                    "/v1/bulk",              "",                               [401, 403, 403, 200, 200]),
    ("GET",    "/v1/bulk/{id}",               BULK,                    "",                               [401, 403, 403, 404, 404]),
    ("POST",   "/v1/bulk/{id}/cancel",        BULK_CANCEL,             "{}",                             [401, 403, 403, 403, 404]),
    ("POST",   "/v1/sessions",                "/v1/sessions",          r#"{"worker": "w"}"#,             [401, 403, 201, 403, 201]),
    ("DELETE", "/v1/sessions/{session}",      "/v1/sessions/x",        "",                               [401, 403, 409, 403, 409]),
    ("POST",   "/v1/heartbeat",               "/v1/heartbeat",         r#"{"session": "x", "held": [], "upto": 0}"#, [401, 403, 409, 403, 409]),
    ("POST",   "/v1/claim",                   "/v1/claim",             r#"{"queues": ["mail"]}"#,        [401, 403, 200, 403, 200]),
    ("POST",   "/v1/wait",                    "/v1/wait",              r#"{"queues": ["mail"], "wait_ms": 0}"#, [401, 403, 200, 403, 200]),
    ("POST",   "/v1/settle",                  "/v1/settle",            r#"{"items": []}"#,               [401, 403, 200, 403, 200]),
    ("POST",   "/v1/update",                  "/v1/update",            r#"{"items": []}"#,               [401, 403, 200, 403, 200]),
    ("GET",    "/v1/stats",                   "/v1/stats",             "",                               [401, 403, 403, 200, 200]),
    ("GET",    "/v1/workers",                 "/v1/workers",           "",                               [401, 403, 403, 200, 200]),
    ("GET",    "/v1/settings",                "/v1/settings",          "",                               [401, 403, 403, 200, 200]),
    ("POST",   "/v1/settings",                "/v1/settings",          r#"{"items": []}"#,               [401, 403, 403, 403, 200]),
    ("GET",    "/v1/queues",                  "/v1/queues",            "",                               [401, 403, 403, 200, 200]),
    ("GET",    "/v1/queues/{queue}",          "/v1/queues/mail",       "",                               [401, 403, 403, 200, 200]),
    ("GET",    "/v1/queues/{queue}/events",   "/v1/queues/mail/events", "",                              [401, 403, 403, 422, 422]),
    ("GET",    "/v1/queues/{queue}/events/stream", "/v1/queues/mail/events/stream", "",                [401, 403, 403, 422, 422]),
    ("PATCH",  "/v1/queues/{queue}",          "/v1/queues/mail",       r#"{"paused": false}"#,           [401, 403, 403, 403, 200]),
    ("GET",    "/v1/kinds",                   "/v1/kinds",             "",                               [401, 403, 403, 200, 200]),
    ("GET",    "/v1/kinds/{kind}",            "/v1/kinds/mail",        "",                               [401, 403, 403, 200, 200]),
    ("PATCH",  "/v1/kinds/{kind}",            "/v1/kinds/mail",        r#"{"paused": false}"#,           [401, 403, 403, 403, 200]),
    ("PUT",    "/v1/kinds/{kind}",            "/v1/kinds/mail",        r#"{"sensitive": true}"#,         [401, 403, 403, 403, 200]),
    ("DELETE", "/v1/kinds/{kind}",            "/v1/kinds/mail",        "",                               [401, 403, 403, 403, 200]),
    ("GET",    "/v1/limits",                  "/v1/limits",            "",                               [401, 403, 403, 200, 200]),
    ("PUT",    "/v1/limits/{limit}",          "/v1/limits/l",          r#"{"rate": {"bucket": {"amount": 9, "per_ms": 1}}}"#, [401, 403, 403, 403, 200]),
    ("GET",    "/v1/limits/{limit}",          "/v1/limits/l",          "",                               [401, 403, 403, 200, 200]),
    ("POST",   "/v1/limits/{limit}/take",     "/v1/limits/l/take",     "{}",                             [401, 403, 200, 403, 200]),
    ("DELETE", "/v1/limits/{limit}",          "/v1/limits/l",          "",                               [401, 403, 403, 403, 200]),
    ("GET",    "/v1/series",                  "/v1/series",            "",                               [401, 403, 403, 200, 200]),
    ("GET",    "/v1/scale",                   "/v1/scale?queue=mail",  "",                               [401, 403, 403, 200, 200]),
    ("GET",    "/v1/history",                 "/v1/history",           "",                               [401, 403, 403, 200, 200]),
    // This server has no metrics exporter.
    ("GET",    "/metrics",                    "/metrics",              "",                               [401, 403, 403, 404, 404]),
    ("GET",    "/v1/schedules",               "/v1/schedules",         "",                               [401, 403, 403, 200, 200]),
    ("GET",    "/v1/schedules/{name}",        "/v1/schedules/s",       "",                               [401, 403, 403, 404, 404]),
    ("PUT",    "/v1/schedules/{name}",        "/v1/schedules/s",       SCHEDULE,                         [401, 403, 403, 403, 200]),
    ("PATCH",  "/v1/schedules/{name}",        "/v1/schedules/s",       r#"{"paused": true}"#,            [401, 403, 403, 403, 200]),
    ("POST",   "/v1/schedules/{name}/trigger","/v1/schedules/s/trigger","{}",                            [401, 403, 403, 403, 201]),
    ("DELETE", "/v1/schedules/{name}",        "/v1/schedules/s",       "",                               [401, 403, 403, 403, 200]),
    ("GET",    "/v1/audit",                   "/v1/audit",             "",                               [401, 403, 403, 200, 200]),
    ("GET",    "/v1/keys",                    "/v1/keys",              "",                               [401, 403, 403, 403, 200]),
    ("POST",   "/v1/keys",                    "/v1/keys",              r#"{"name": "n", "may": ["view"]}"#, [401, 403, 403, 403, 201]),
    ("DELETE", "/v1/keys/{key}",              "/v1/keys/x",            "",                               [401, 403, 403, 403, 404]),
    ("POST",   "/internal/records",                 "/internal/records",           r#"{"items": []}"#,               [401, 403, 403, 403, 200]),
    ("POST",   "/internal/maintain",                "/internal/maintain",          r#"{"work": "promote", "budget": 1}"#, [401, 403, 403, 403, 200]),
    ("POST",   "/internal/check",                   "/internal/check",             r#"{"repair": false}"#,           [401, 403, 403, 403, 200]),
    ("GET",    "/v1/capabilities",            "/v1/capabilities",      "",                               [401, 200, 200, 200, 200]),
    ("GET",    "/v1/health",                  "/v1/health",            "",                               [401, 200, 200, 200, 200]),
    ("GET",    "/healthz",                    "/healthz",              "",                               [200, 200, 200, 200, 200]),
    ("GET",    "/readyz",                     "/readyz",               "",                               [200, 200, 200, 200, 200]),
    ("GET",    "/openapi.json",               "/openapi.json",         "",                               [200, 200, 200, 200, 200]),
    // The dashboard.
    ("GET",    "/",                           "/",                     "",                               [401, 403, 403, 200, 200]),
    ("GET",    "/queues",                     "/queues",               "",                               [401, 403, 403, 200, 200]),
    ("GET",    "/queues/{queue}",             "/queues/mail",          "",                               [401, 403, 403, 200, 200]),
    ("POST",   "/queues/{queue}/{change}",    "/queues/mail/resume",   "",                               [401, 403, 403, 403, 303]),
    ("POST",   "/kinds/{kind}/{change}",      "/kinds/mail/resume",    "",                               [401, 403, 403, 403, 303]),
    ("GET",    "/jobs",                       "/jobs",                 "",                               [401, 403, 403, 200, 200]),
    ("POST",   "/jobs/change",                "/jobs/change",          "change=cancel",                  [401, 403, 403, 403, 303]),
    ("GET",    "/jobs/{id}",                  JOB_PAGE,                "",                               [401, 403, 403, 404, 404]),
    ("POST",   "/jobs/{id}/{change}",         JOB_BUTTON,              "",                               [401, 403, 403, 403, 404]),
    ("GET",    "/dead",                       "/dead",                 "",                               [401, 403, 403, 200, 200]),
    ("GET",    "/bulk",                       "/bulk",                 "",                               [401, 403, 403, 200, 200]),
    ("POST",   "/bulk",                       "/bulk",                 "change=cancel&filter=queue%3Da", [401, 403, 403, 403, 303]),
    ("GET",    "/bulk/{id}",                  "/bulk/none",            "",                               [401, 403, 403, 404, 404]),
    ("POST",   "/bulk/{id}/{change}",         "/bulk/none/cancel",     "",                               [401, 403, 403, 403, 404]),
    ("GET",    "/schedules",                  "/schedules",            "",                               [401, 403, 403, 200, 200]),
    ("GET",    "/workers",                    "/workers",              "",                               [401, 403, 403, 200, 200]),
    ("GET",    "/audit",                      "/audit",                "",                               [401, 403, 403, 200, 200]),
    ("GET",    "/login",                      "/login",                "",                               [200, 200, 200, 200, 200]),
    ("POST",   "/login",                      "/login",                "key=wl_nothing",                 [401, 401, 401, 401, 401]),
    ("POST",   "/logout",                     "/logout",               "",                               [303, 303, 303, 303, 303]),
    ("GET",    "/assets/{file}",              "/assets/dashboard.css", "",                               [200, 200, 200, 200, 200]),
];

#[test]
fn no_route_is_missing_in_the_matrix() {
    let rows = ROWS.iter().map(|(method, route, ..)| ((*method).to_owned(), (*route).to_owned()));
    let served: BTreeSet<_> = windlass_server::served().into_iter().collect();
    assert_eq!(rows.collect::<BTreeSet<_>>(), served);
}

#[tokio::test]
async fn every_role_gets_the_access_of_the_matrix_on_every_route() {
    let (site, admin) = Site::locked().await;
    let grants = |text: &str| text.parse::<Grants>().unwrap();
    let wrong = format!("{}{}", &admin[..admin.len() - 4], "0000");
    let (revoked_id, revoked) = site.key_of(NewKey::new("revoked", grants("admin"))).await;
    site.keys.revoke(&revoked_id).await.unwrap();
    let brief = NewKey::new("brief", grants("admin")).expires(Duration::from_millis(1));
    let (_, expired) = site.key_of(brief).await;
    let strangers = [
        ("no key", None),
        ("a wrong key", Some(wrong)),
        ("no key at all", Some("wl_nothing".to_owned())),
        ("a revoked key", Some(revoked)),
        ("an expired key", Some(expired)),
    ];
    let producer = site.key("enqueue:mail").await;
    let worker = site.key("work:mail").await;
    let viewer = site.key("view").await;
    tokio::time::sleep(std::time::Duration::from_millis(2)).await;
    let known =
        [("a producer", producer), ("a worker", worker), ("a viewer", viewer), ("an admin", admin)];
    for (method, route, path, body, [stranger, others @ ..]) in ROWS {
        for (name, key) in &strangers {
            let answer = ask(&site, key.as_deref(), method, path, body).await;
            assert_eq!(answer.status, *stranger, "{name}: {method} {route}: {answer:?}");
            if answer.status == 401 && route.starts_with("/v1") {
                assert_eq!(answer.body["code"], "unauthenticated", "{answer:?}");
                assert_eq!(answer.header("www-authenticate"), Some("Bearer realm=\"windlass\""));
            }
        }
        for ((name, key), expected) in known.iter().zip(others) {
            let answer = ask(&site, Some(key), method, path, body).await;
            assert_eq!(answer.status, *expected, "{name}: {method} {route}: {answer:?}");
            if answer.status == 403 && route.starts_with("/v1") {
                assert_eq!(answer.body["code"], "forbidden", "{answer:?}");
                assert!(answer.body["needs"].is_string(), "{answer:?}");
            }
        }
    }
}

async fn ask(
    site: &Site,
    key: Option<&str>,
    method: &str,
    path: &str,
    body: &str,
) -> crate::support::Answer {
    let bearer = key.map(|key| format!("Bearer {key}"));
    let mut headers = vec![("sec-fetch-site", "same-origin")];
    headers.extend(bearer.as_deref().map(|bearer| ("authorization", bearer)));
    site.send(method, path, &headers, body).await
}
