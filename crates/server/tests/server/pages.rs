//! Lists that grow are read in pages, and what does not exist is `not_found`.

use crate::support::{assert_code, assert_problem, call, get, post, send, start};
use serde_json::{Value, json};

#[tokio::test]
async fn queues_kinds_limits_and_flows_are_read_in_pages() {
    let server = start().await;
    for n in 0..5 {
        let job = json!({"kind": format!("k{n}"), "queue": format!("q{n}"), "flow": "f"});
        assert_eq!(post(&server, "/v1/jobs", job).await.status, 201);
        let limit = json!({"max_running": 1});
        call(&server, "PUT", &format!("/v1/limits/l{n}"), limit).await;
    }
    for (path, rows, name) in [
        ("/v1/queues", "queues", "name"),
        ("/v1/kinds", "kinds", "name"),
        ("/v1/limits", "limits", "name"),
        ("/v1/flows/f", "jobs", "kind"),
    ] {
        let (mut names, mut after, mut pages) = (Vec::new(), String::new(), 0);
        loop {
            let page = get(&server, &format!("{path}?limit=2{after}")).await;
            assert_eq!(page.status, 200, "{page:?}");
            let of = |row: &Value| row[name].as_str().expect("a name").to_owned();
            names.extend(page.body[rows].as_array().expect("rows").iter().map(of));
            pages += 1;
            let Some(next) = page.body["next"].as_str() else { break };
            after = format!("&after={next}");
        }
        names.sort();
        names.dedup();
        assert_eq!((names.len(), pages), (5, 3), "{path}: {names:?}");
        assert_problem(&get(&server, &format!("{path}?limit=0")).await, 422, "limit");
    }
    let flow = get(&server, "/v1/flows/f?limit=1").await;
    assert_eq!(flow.body["states"], json!({"available": 5}), "of all jobs: {flow:?}");
}

#[tokio::test]
async fn everything_that_is_missing_is_not_found() {
    let server = start().await;
    let none = "0199b2c8-0000-7000-8000-000000000000";
    let job = format!("/v1/jobs/{none}");
    for (method, path, what) in [
        ("GET", job.as_str(), None),
        ("GET", "/v1/flows/none", Some("flow")),
        ("GET", "/v1/limits/none", Some("limit")),
        ("DELETE", "/v1/limits/none", Some("limit")),
        ("GET", "/v1/schedules/none", Some("schedule")),
        ("PATCH", "/v1/schedules/none", Some("schedule")),
        ("POST", "/v1/schedules/none/trigger", Some("schedule")),
        ("DELETE", "/v1/schedules/none", Some("schedule")),
        ("DELETE", "/v1/kinds/none", Some("registered kind")),
        ("DELETE", "/v1/keys/none", Some("key")),
        ("GET", "/v1/bulk/none", Some("bulk operation")),
        ("POST", "/v1/bulk/none/cancel", Some("bulk operation")),
        ("GET", "/v1/none", Some("route")),
        ("GET", "/v1/records", Some("route")),
    ] {
        let body = if method == "PATCH" { json!({"paused": true}) } else { json!({}) };
        let answer = match method {
            "GET" => get(&server, path).await,
            _ => call(&server, method, path, body).await,
        };
        assert_code(&answer, 404, "not_found");
        assert_eq!(answer.body["what"].as_str(), what, "{method} {path}: {answer:?}");
    }
}

#[tokio::test]
async fn a_page_of_another_site_cannot_cancel_or_replay() {
    let server = start().await;
    post(&server, "/v1/jobs", json!({"kind": "k", "flow": "f"})).await;
    // A form of another site cannot send the JSON media type.
    for path in ["/v1/flows/f/cancel", "/v1/flows/f/replay", "/v1/bulk/x/cancel"] {
        let request = format!(
            "POST {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\ncontent-length: 0\r\n\r\n"
        );
        let plain = send(server.address(), &request).await;
        assert_eq!(plain.status, 415, "{path}: {plain:?}");
    }
}
