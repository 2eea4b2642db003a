//! Lists and searches jobs by their attributes and the time of their enqueue.

use crate::support::{assert_problem, get, ids, millis, post, start};
use serde_json::json;

#[tokio::test]
async fn jobs_are_found_by_each_thing_one_can_search_for() {
    let server = start().await;
    let parent = "019a0000-0000-7000-8000-000000000000";
    let wanted = json!({"kind": "k", "queue": "q", "tenant": "acme & co", "key": "k1",
                        "tags": ["a", "b c"], "parent": parent});
    let created = post(&server, "/v1/jobs", wanted).await;
    assert_eq!(created.status, 201, "{created:?}");
    let id = created.body["id"].as_str().unwrap();
    for n in 0..3 {
        let other =
            json!({"kind": "other", "tenant": "acme", "key": format!("k{n}2"), "tags": ["b"]});
        assert_eq!(post(&server, "/v1/jobs", other).await.status, 201);
    }
    for query in [
        "tenant=acme%20%26%20co".to_owned(),
        "key=k1".to_owned(),
        "tag=b%20c".to_owned(),
        format!("parent={parent}"),
        format!("tag=a&tenant=acme+%26+co&queue=q&kind=k&state=available&parent={parent}"),
    ] {
        let page = get(&server, &format!("/v1/jobs?{query}")).await;
        assert_eq!(ids(&page), [id], "{query}");
    }
    for query in ["tenant=acm", "key=k", "tag=b%20c&tenant=acme", "tag=c"] {
        let page = get(&server, &format!("/v1/jobs?{query}")).await;
        assert_eq!((page.status, ids(&page).len()), (200, 0), "{query}");
    }
}

#[tokio::test]
async fn jobs_are_found_by_fields_text_and_the_start_of_their_id() {
    let server = start().await;
    let wanted = json!({"kind": "k", "payload": {"customer": 42, "to": {"name": "Ada & Co"}},
                        "parts": {"metadata": {"json": {"source": "import"}}}});
    let created = post(&server, "/v1/jobs", wanted).await;
    assert_eq!(created.status, 201, "{created:?}");
    let id = created.body["id"].as_str().unwrap();
    for n in 0..3 {
        let other = json!({"kind": "k", "payload": {"customer": n}});
        assert_eq!(post(&server, "/v1/jobs", other).await.status, 201);
    }
    for query in [
        "payload.customer=42".to_owned(),
        "payload.to.name=Ada+%26+Co&metadata.source=import&state=available".to_owned(),
        "text=ada+%26".to_owned(),
        format!("id={id}"),
    ] {
        let page = get(&server, &format!("/v1/jobs?{query}")).await;
        assert_eq!(ids(&page), [id], "{query}");
        assert_eq!(page.body["cut_short"], json!(false));
    }
    for query in ["payload.customer=4", "metadata.customer=42", "text=bob", "id=ffff"] {
        let page = get(&server, &format!("/v1/jobs?{query}")).await;
        assert_eq!((page.status, ids(&page).len()), (200, 0), "{query}");
    }
    let dead = get(&server, "/v1/dead?payload.customer=42").await;
    assert_eq!((dead.status, ids(&dead).len()), (200, 0));
}

#[tokio::test]
async fn a_window_of_time_takes_in_its_beginning_and_leaves_out_its_end() {
    let server = start().await;
    let created = post(&server, "/v1/jobs", json!({"kind": "k"})).await;
    let id = created.body["id"].as_str().unwrap();
    let shown = get(&server, &format!("/v1/jobs/{id}")).await;
    let at = millis(&shown.body["created_at"]);
    let found = async |query: String| ids(&get(&server, &format!("/v1/jobs?{query}")).await).len();
    assert_eq!(found(format!("created_from={at}")).await, 1);
    assert_eq!(found(format!("created_from={at}&created_until={}", at + 1)).await, 1);
    assert_eq!(found(format!("created_from={}", at + 1)).await, 0);
    assert_eq!(found(format!("created_until={at}")).await, 0);
}

#[tokio::test]
async fn a_search_goes_on_where_its_page_ended() {
    let server = start().await;
    let jobs: Vec<_> = (0..30)
        .map(|n| json!({"kind": "k", "tags": [if n % 3 == 0 { "wanted" } else { "other" }]}))
        .collect();
    post(&server, "/v1/jobs/batch", json!({"jobs": jobs})).await;
    let (mut found, mut after) = (Vec::new(), String::new());
    for _ in 0..30 {
        let page = get(&server, &format!("/v1/jobs?tag=wanted&limit=3&order=oldest{after}")).await;
        assert!(ids(&page).len() <= 3);
        found.extend(ids(&page).into_iter().map(str::to_owned));
        match page.body["next"].as_str() {
            Some(next) => after = format!("&after={next}"),
            None => break,
        }
    }
    assert_eq!(found.len(), 10);
    assert!(found.is_sorted_by(|a, b| a < b), "{found:?}");
}

#[tokio::test]
async fn a_search_that_makes_no_sense_is_refused_by_its_field() {
    let server = start().await;
    let long = "x".repeat(300);
    for (query, status, field) in [
        ("tenant=", 422, "tenant"),
        ("key=a%0Ab", 422, "key"),
        ("tag=", 422, "tag"),
        (&*format!("tag={long}"), 413, "tag"),
        (&*format!("key={long}"), 413, "key"),
        (&*format!("tenant={long}"), 413, "tenant"),
        ("parent=zzz", 422, "parent"),
        ("created_from=yesterday", 422, "created_from"),
        ("created_from=5&created_until=5", 422, "created_until"),
        ("queue=a%20b", 422, "queue"),
        ("kind=", 422, "kind"),
        ("state=lost", 422, "state"),
        ("order=sideways", 422, "order"),
        ("limit=0", 422, "limit"),
        ("limit=1001", 422, "limit"),
        ("limit=many", 422, "limit"),
        ("after=nonsense", 422, "cursor"),
        ("tag=a&tag=b", 422, "tag"),
        ("tags=a", 422, "tags"),
        ("payload=a", 422, "payload"),
        ("payload.=a", 422, "field"),
        ("payload.a..b=a", 422, "field"),
        (&*format!("payload.{long}=a"), 413, "field"),
        (&*format!("payload.a={}", "x".repeat(1_100)), 413, "fields"),
        (&*(0..9).map(|n| format!("payload.f{n}=1&")).collect::<String>(), 422, "fields"),
        ("id=nothing", 422, "id"),
        ("text=", 422, "text"),
        (&*format!("text={long}"), 413, "text"),
        ("due_from=5&due_until=5", 422, "due_until"),
        ("ended_from=5&ended_until=4", 422, "ended_until"),
    ] {
        let answer = get(&server, &format!("/v1/jobs?{query}")).await;
        assert_problem(&answer, status, field);
    }
}
