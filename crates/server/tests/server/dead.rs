//! Dead letters: listed, replayed and discarded, by id and by filter.

use crate::rescued::ReplayedFirst;
use crate::support::{
    Answer, assert_problem, call, claimed, dead, get, ids, json_request, options, post, send,
    start, start_over,
};
use serde_json::{Value, json};
use std::sync::Arc;
use windlass_server::ServerHandle;

async fn state(server: &ServerHandle, id: &str) -> Option<String> {
    let job = get(server, &format!("/v1/jobs/{id}")).await;
    job.body["state"].as_str().map(str::to_owned)
}

fn codes(answer: &Answer) -> Vec<(String, String)> {
    let items = answer.body["items"].as_array().unwrap_or_else(|| panic!("{answer:?}"));
    let code = |item: &Value| match item["ok"].as_bool() {
        Some(true) => "ok".to_owned(),
        _ => item["code"].as_str().expect("an error has a code").to_owned(),
    };
    let id = |item: &Value| item["id"].as_str().expect("every item names its job").to_owned();
    items.iter().map(|item| (id(item), code(item))).collect()
}

#[tokio::test]
async fn dead_letters_are_listed_with_what_went_wrong_and_nothing_else_is() {
    let server = start().await;
    let one = dead(&server, json!({"kind": "k", "queue": "a", "tags": ["x"]})).await;
    let two = dead(&server, json!({"kind": "k", "queue": "b"})).await;
    post(&server, "/v1/jobs", json!({"kind": "k", "queue": "a"})).await;
    let page = get(&server, "/v1/dead?order=oldest").await;
    assert_eq!((page.status, ids(&page)), (200, vec![&*one, &*two]));
    let job = &page.body["jobs"][0];
    assert_eq!((&job["state"], &job["finish"]), (&json!("dead"), &json!("failed")));
    assert_eq!(job["error"], json!({"code": "smtp_550", "message": "no such mailbox"}));
    assert_eq!(ids(&get(&server, "/v1/dead?queue=b").await), [&*two]);
    assert_eq!(ids(&get(&server, "/v1/dead?tag=x&kind=k").await), [&*one]);
    let first = get(&server, "/v1/dead?limit=1").await;
    assert_eq!(ids(&first), [&*two], "the newest first");
    let next = first.body["next"].as_str().expect("there is another");
    assert_eq!(ids(&get(&server, &format!("/v1/dead?limit=1&after={next}")).await), [&*one]);
}

#[tokio::test]
async fn dead_letters_named_by_id_get_another_life_and_each_is_answered() {
    let server = start().await;
    let one = dead(&server, json!({"kind": "k", "queue": "a"})).await;
    let two = dead(&server, json!({"kind": "k", "queue": "b", "unique": {"key": "u"}})).await;
    post(&server, "/v1/jobs", json!({"kind": "k", "queue": "b", "unique": {"key": "u"}})).await;
    let (alive, _) = claimed(&server, json!({"kind": "k", "queue": "c"})).await;
    let missing = "019a0000-0000-7000-8000-000000000000".to_owned();
    let batch = json!({"ids": [one, alive, two, missing]});
    let replayed = post(&server, "/v1/dead/replay", batch).await;
    assert_eq!(replayed.status, 200);
    let expected =
        [(&one, "ok"), (&alive, "state_conflict"), (&two, "duplicate"), (&missing, "not_found")];
    let expected = expected.map(|(id, code)| (id.clone(), code.to_owned()));
    assert_eq!(codes(&replayed), expected);
    assert_eq!(replayed.body["items"][0]["state"], "available");
    assert!(replayed.body.get("next").is_none());
    assert_eq!(state(&server, &one).await.as_deref(), Some("available"));
    assert_eq!(state(&server, &two).await.as_deref(), Some("dead"), "its key is taken");
}

#[tokio::test]
async fn a_discard_takes_dead_letters_and_no_other_ended_job() {
    let server = start().await;
    let letter = dead(&server, json!({"kind": "k", "queue": "a"})).await;
    let (done, lease) = claimed(&server, json!({"kind": "k", "queue": "b"})).await;
    let report = json!({"items": [{"id": done, "lease": lease, "outcome": "complete"}]});
    post(&server, "/v1/settle", report).await;
    let discarded = post(&server, "/v1/dead/discard", json!({"ids": [letter, done]})).await;
    let expected = [(letter.clone(), "ok".to_owned()), (done.clone(), "state_conflict".to_owned())];
    assert_eq!(codes(&discarded), expected);
    assert!(discarded.body["items"][0].get("state").is_none(), "it is gone");
    assert_eq!(state(&server, &letter).await, None);
    assert_eq!(state(&server, &done).await.as_deref(), Some("completed"));
}

#[tokio::test]
async fn a_dead_letter_that_is_replayed_and_completed_before_its_discard_keeps_its_record() {
    for by_id in [true, false] {
        let server = start_over(Arc::new(ReplayedFirst::default()), options()).await;
        let letter = dead(&server, json!({"kind": "k", "queue": "a"})).await;
        let batch = if by_id { json!({"ids": [letter]}) } else { json!({"filter": {}}) };
        let discarded = post(&server, "/v1/dead/discard", batch).await;
        assert_eq!(codes(&discarded), [(letter.clone(), "state_conflict".to_owned())]);
        let item = &discarded.body["items"][0];
        assert_eq!((&item["expected"], &item["state"]), (&json!("dead"), &json!("completed")));
        assert_eq!(state(&server, &letter).await.as_deref(), Some("completed"));
    }
}

#[tokio::test]
async fn all_matching_jobs_are_processed_page_by_page() {
    let server = start().await;
    let mut letters = Vec::new();
    for _ in 0..5 {
        letters.push(dead(&server, json!({"kind": "k", "queue": "q", "tags": ["x"]})).await);
    }
    let kept = dead(&server, json!({"kind": "k", "queue": "q"})).await;
    let filter = json!({"queue": "q", "tag": "x"});
    let (mut taken, mut after, mut calls) = (Vec::new(), Value::Null, 0);
    loop {
        let mut batch = json!({"filter": filter, "limit": 2});
        if !after.is_null() {
            batch["after"] = after;
        }
        let page = post(&server, "/v1/dead/discard", batch).await;
        assert!(codes(&page).len() <= 2 && codes(&page).iter().all(|(_, code)| code == "ok"));
        taken.extend(codes(&page).into_iter().map(|(id, _)| id));
        calls += 1;
        match page.body.get("next") {
            Some(next) => after = next.clone(),
            None => break,
        }
    }
    assert_eq!(taken, letters, "the oldest first, each once");
    assert!(calls >= 3, "{calls}");
    assert_eq!(ids(&get(&server, "/v1/dead").await), [&*kept]);
    let rest = post(&server, "/v1/dead/replay", json!({"filter": {}})).await;
    assert_eq!(codes(&rest), [(kept.clone(), "ok".to_owned())]);
    assert_eq!(get(&server, "/v1/dead").await.body["jobs"], json!([]));
}

#[tokio::test]
async fn a_replay_can_start_over_without_the_checkpoint() {
    let server = start().await;
    let parts = json!({"checkpoint": {"json": {"step": 3}}});
    for start_over in [false, true] {
        let id = dead(&server, json!({"kind": "k", "parts": parts})).await;
        let batch = json!({"ids": [id], "start_over": start_over});
        assert_eq!(codes(&post(&server, "/v1/dead/replay", batch).await)[0].1, "ok");
        let job = get(&server, &format!("/v1/jobs/{id}?parts=checkpoint")).await;
        assert_eq!(job.body.get("parts").is_none(), start_over, "{job:?}");
        post(&server, &format!("/v1/jobs/{id}/cancel"), json!({})).await;
    }
}

#[tokio::test]
async fn a_dead_letter_can_be_edited_and_replayed() {
    let server = start().await;
    let id = dead(&server, json!({"kind": "k", "queue": "q", "payload": {"to": "missing"}})).await;
    let edits = json!({"parts": {"payload": {"json": {"to": "ada"}}}});
    let replayed = post(&server, &format!("/v1/jobs/{id}/replay"), edits).await;
    assert_eq!((replayed.status, &replayed.body["state"]), (200, &json!("available")));
    let again = post(&server, "/v1/claim", json!({"queues": ["q"]})).await;
    assert_eq!(again.body["jobs"][0]["payload"], json!({"to": "ada"}));
}

#[tokio::test]
async fn invalid_requests_are_refused_by_field_and_change_nothing() {
    let server = start().await;
    let letter = dead(&server, json!({"kind": "k"})).await;
    let both = json!({"ids": [letter], "filter": {}});
    let many = json!({"ids": vec![letter.clone(); 10_001]});
    for (path, body, status, field) in [
        ("discard", json!({}), 422, "ids"),
        ("replay", json!({"ids": "all"}), 422, "ids"),
        ("replay", json!({"ids": ["zzz"]}), 422, "ids[0]"),
        ("discard", many, 413, "ids"),
        ("discard", both, 422, "filter"),
        ("discard", json!({"ids": [letter], "limit": 5}), 422, "limit"),
        ("discard", json!({"ids": [letter], "after": "x"}), 422, "after"),
        ("discard", json!({"filter": {}, "start_over": true}), 422, "start_over"),
        ("discard", json!({"filter": {}, "limit": 0}), 422, "limit"),
        ("discard", json!({"filter": {}, "limit": 1_001}), 422, "limit"),
        ("discard", json!({"filter": {}, "after": "nonsense"}), 422, "cursor"),
        ("discard", json!({"filter": {"state": "dead"}}), 422, "filter.state"),
        ("discard", json!({"filter": {"queue": "a b"}}), 422, "filter.queue"),
        ("discard", json!({"filter": {"tag": ""}}), 422, "filter.tag"),
        ("discard", json!({"all": true}), 422, "all"),
    ] {
        assert_problem(&post(&server, &format!("/v1/dead/{path}"), body).await, status, field);
    }
    assert_problem(&get(&server, "/v1/dead?state=dead").await, 422, "state");
    assert_problem(&get(&server, "/v1/dead?colour=red").await, 422, "colour");
    assert_problem(&get(&server, "/v1/dead/replay").await, 405, "method");
    assert_problem(&call(&server, "DELETE", "/v1/dead", json!({})).await, 405, "method");
    let text = json_request("POST", "/v1/dead/discard", "{\"filter\":{}}");
    let plain = send(server.address(), &text.replace("application/json", "text/plain")).await;
    assert_problem(&plain, 415, "content-type");
    assert_eq!(ids(&get(&server, "/v1/dead").await), [&*letter], "it is still there");
}
