//! The content of each page, and the escaping of data from jobs.

use crate::support::Site;
use windlass_core::engine::*;
use windlass_core::model::{Due, JobError, KindPatch, Limit, NewJob, QueuePatch};

const EVIL: &str = "<script>alert('1')</script>\"><img src=x onerror=alert(2)>";

#[tokio::test]
async fn an_empty_store_shows_how_to_hand_over_the_first_job() {
    let site = Site::start().await;
    let page = site.get("/").await;
    assert_eq!((page.status, page.header("content-type")), (200, Some("text/html; charset=utf-8")));
    page.says("No jobs yet").says(&format!("http://{}/v1/jobs", site.host()));
    for path in ["/queues", "/jobs", "/dead", "/schedules", "/workers", "/queues/none"] {
        assert_eq!(site.get(path).await.status, 200, "{path}");
    }
}

#[tokio::test]
async fn the_overview_counts_queues_by_state_and_names_the_newest_jobs() {
    let site = Site::start().await;
    for _ in 0..3 {
        site.enqueue(NewJob::new("send").queue("mail")).await;
    }
    site.enqueue(NewJob::new("later").queue("mail").due(Due::After(5_430_000))).await;
    site.claim("mail").await.unwrap();
    site.dead("billing", "no money").await;
    let page = site.get("/").await;
    let tile = |count: u64, label: &str| format!("<b>{count}</b><span>{label}</span>");
    page.says(&tile(2, "available")).says(&tile(1, "running")).says(&tile(1, "scheduled"));
    page.says(&tile(1, "dead")).says("/queues/mail").says("broken: no money").says("in 90 min");
    site.get("/dead").await.says("broken: no money").hides("send");
    site.get("/workers").await.says("tester").says("1 online");
}

#[tokio::test]
async fn a_queue_counts_paused_jobs_as_paused_and_marks_a_paused_queue_apart() {
    let site = Site::start().await;
    let tile = |count: u64, label: &str| format!("<b>{count}</b><span>{label}</span>");
    let id = site.enqueue(NewJob::new("send").queue("mail")).await;
    site.enqueue(NewJob::new("send").queue("mail")).await;
    site.enqueue(NewJob::new("later").queue("mail").due(Due::After(5_430_000))).await;
    site.engine.change(vec![ChangeItem::new(id, Change::Pause)]).await.unwrap();
    let page = site.get("/queues/mail").await;
    page.says(&tile(1, "paused")).says(&tile(0, "blocked")).says(&tile(1, "available"));
    page.says("<small>next <time").says("in 90 min").hides("queue paused");
    site.post("/queues/mail/pause", "").await;
    let page = site.get("/queues/mail").await;
    page.says("queue paused").says(&tile(1, "paused")).says(&tile(1, "available"));
    site.get("/queues").await.says("queue paused");
}

#[tokio::test]
async fn the_jobs_of_a_queue_are_on_its_first_page_beside_thousands_of_others() {
    let site = Site::start().await;
    let dead = site.dead("mine", "no money").await;
    let mine = site.enqueue(NewJob::new("rare").queue("mine")).await;
    for _ in 0..3 {
        let others = vec![NewJob::new("send").queue("mail"); 5_000];
        site.engine.enqueue(Enqueue::each(others)).await.unwrap();
    }
    let page = site.get("/queues/mine").await;
    page.says(&mine.to_string()).says(&dead.to_string()).hides("so far").hides("No matching jobs");
    site.get("/jobs?kind=rare").await.says(&mine.to_string()).hides("Older jobs");
    site.get("/dead").await.says(&dead.to_string());
    site.get("/queues/mine?state=scheduled").await.says("No matching jobs.").hides("so far");
    site.get("/queues/mail").await.says("Older jobs");
}

#[tokio::test]
async fn rates_count_what_passes_through_the_server() {
    let site = Site::start().await;
    // Enqueue directly in the store, so that the server does not count it and there is a job to
    // show.
    site.enqueue(NewJob::new("k").queue("q")).await;
    site.get("/").await.says("<span>in</span><b>0<small>");
    for _ in 0..5 {
        assert_eq!(site.json("/v1/jobs", r#"{"kind":"k","queue":"q"}"#).await.status, 201);
    }
    let claimed = site.json("/v1/claim", r#"{"queues":["q"],"limit":2}"#).await;
    let jobs: serde_json::Value = serde_json::from_str(&claimed.body).unwrap();
    let report = |index: usize, outcome: &str| {
        let job = &jobs["jobs"][index];
        let error = serde_json::json!({"code": "c", "message": "m"});
        let mut report =
            serde_json::json!({"id": job["id"], "lease": job["lease"], "outcome": outcome});
        if outcome == "retry" {
            report["error"] = error;
        } else {
            report["follow_ups"] = serde_json::json!([{"kind": "next", "queue": "after"}]);
        }
        report
    };
    let settle = serde_json::json!({"items": [report(0, "complete"), report(1, "retry")]});
    assert_eq!(site.json("/v1/settle", &settle.to_string()).await.status, 200);
    let page = site.get("/").await;
    for flow in ["in", "out", "completed", "failed"] {
        page.says(&format!("<span>{flow}</span>"))
            .hides(&format!("<span>{flow}</span><b>0<small>"));
    }
    let followed = site.get("/queues/after").await;
    followed.hides("<span>in</span><b>0<small>").says("<span>out</span><b>0<small>");
}

#[tokio::test]
async fn the_rates_of_a_screen_are_of_one_window_and_rows_add_up() {
    let site = Site::start().await;
    for (queue, count) in [("a", 20), ("b", 10), ("b", 1)] {
        let job = serde_json::json!({"kind": "k", "queue": queue});
        let jobs = serde_json::json!({"jobs": vec![job; count]});
        assert_eq!(site.json("/v1/jobs/batch", &jobs.to_string()).await.status, 200);
    }
    // Rates are divided by the time since the first job, 5 s at least.
    let page = site.get("/").await;
    let number = |text: &str| text.split('<').next().unwrap().parse::<f64>().unwrap();
    let total = number(page.body.split("<span>in</span><b>").nth(1).unwrap());
    let rows = page.body.split("<tr data-key=\"").skip(1).take(2).map(|row| {
        let cells: Vec<_> = row.split("<td class=\"num").collect();
        number(cells[7].split('>').nth(1).unwrap())
    });
    let rows: Vec<f64> = rows.collect();
    assert!(total > 0.0 && (rows.iter().sum::<f64>() - total).abs() < 0.11, "{rows:?} {total}");
    site.get("/queues/a").await.hides("5 min").hides("through this server");
}

#[tokio::test]
async fn the_gates_of_a_kind_have_names_of_their_own() {
    let site = Site::start().await;
    for kind in ["by-hand", "broken"] {
        site.enqueue(NewJob::new(kind).queue("q")).await;
    }
    site.configure([Configure::kind("by-hand", KindPatch::permits(Some(0)))]).await;
    site.get("/queues/q").await.says("no permits").hides("breaker");
    site.open_breaker("broken").await;
    site.get("/queues/q").await.says("no permits").says("breaker open");
    // A paused kind can be resumed although its queue is paused, too.
    site.post("/kinds/by-hand/pause", "").await;
    site.post("/queues/q/pause", "").await;
    site.get("/queues/q").await.says("/kinds/by-hand/resume").says("/kinds/broken/pause");
}

#[tokio::test]
async fn an_ended_job_is_not_due() {
    let site = Site::start().await;
    let id = site.enqueue(NewJob::new("k").queue("q")).await;
    let job = site.claim("q").await.unwrap();
    let error = JobError::new("e", "m");
    site.settle(&job, Outcome::Retry { error: error.clone(), delay_ms: Some(5_430_000) }).await;
    site.get(&format!("/jobs/{id}")).await.says("<dt>due</dt>").says("in 90 min");
    site.engine.change(vec![ChangeItem::new(id, Change::Kill)]).await.unwrap();
    site.get(&format!("/jobs/{id}")).await.hides("<dt>due</dt>").hides("in 90 min");
}

#[tokio::test]
async fn one_job_is_shown_with_its_history_its_log_and_why_it_waits() {
    let site = Site::start().await;
    let payload = br#"{"to":"ada","n":1.10}"#.as_slice();
    let id = site.enqueue(NewJob::new("send").queue("mail").payload(payload).tag("vip")).await;
    site.get(&format!("/jobs/{id}"))
        .await
        .says("No worker with an open session serves queue mail.")
        .says("vip");
    let job = site.claim("mail").await.unwrap();
    let update =
        UpdateItem::new(id, job.lease.clone()).progress(3, Some(9), "warm").log("line one");
    site.engine.update(Update::new([update])).await.unwrap();
    let page = site.get(&format!("/jobs/{id}")).await;
    page.says("3 of 9 · warm").says("line one").says("&#34;n&#34;: 1.10");
    let error = JobError::new("smtp_451", "try later");
    site.settle(&job, Outcome::Retry { error, delay_ms: None }).await;
    let page = site.get(&format!("/jobs/{id}")).await;
    page.says("The job failed, and its next attempt is not due yet.")
        .says("smtp_451")
        .says("tester");
    page.says("Run now").says("1 of 5");
}

#[tokio::test]
async fn a_job_page_says_why_it_is_not_running_with_links_to_what_blocks_it() {
    let site = Site::start().await;
    let keyed = || NewJob::new("k").queue("q/1").key("account-7");
    let (holder, id) = (site.enqueue(keyed()).await, site.enqueue(keyed()).await);
    let page = site.get(&format!("/jobs/{id}")).await;
    page.says("<h2>Why</h2>").says(&format!("Job {holder}, which is available, holds"));
    page.says(&format!(r#"<a href="/jobs/{holder}">"#));
    site.configure([
        Configure::limit("api", Limit::max_running(1)),
        Configure::queue("q/1", QueuePatch::limits(["api"])),
    ])
    .await;
    let job = site.claim("q/1").await.unwrap();
    site.get(&format!("/jobs/{holder}")).await.says("runs the job.").says("ends <time");
    let limited = site.enqueue(NewJob::new("k").queue("q/1")).await;
    let page = site.get(&format!("/jobs/{limited}")).await;
    page.says("1 of 1 job runs under limit api.").says(r#"<a href="/v1/limits/api">"#);
    site.open_breaker("k").await;
    site.post("/queues/q%2F1/pause", "").await;
    let page = site.get(&format!("/jobs/{limited}")).await;
    page.says("Queue q/1 is paused.").says(r#"<a href="/queues/q%2F1">"#);
    page.says("The circuit breaker of kind k is open");
    site.settle(&job, Outcome::DONE).await;
    let page = site.get(&format!("/jobs/{holder}")).await;
    page.says("A handler completed the job.").hides("<h2>Why</h2>");
    site.get("/jobs/019a8b2c-7d4e-7f01-8a23-456789abcdef").await.says("No such job");
}

#[tokio::test]
async fn nothing_a_job_says_becomes_markup() {
    let site = Site::start().await;
    let id = site.enqueue(NewJob::new("k").queue("q").payload(EVIL.as_bytes()).tag(EVIL)).await;
    let job = site.claim("q").await.unwrap();
    let update = UpdateItem::new(id, job.lease.clone()).progress(1, None, EVIL).log(EVIL);
    site.engine.update(Update::new([update])).await.unwrap();
    site.get(&format!("/jobs/{id}"))
        .await
        .says("alert(")
        .hides("<script>alert")
        .hides("<img src=x");
    site.settle(&job, Outcome::Fail { error: JobError::new(EVIL, EVIL) }).await;
    let pages =
        [format!("/jobs/{id}"), "/".into(), "/dead".into(), "/jobs".into(), "/queues/q".into()];
    for path in pages {
        let page = site.get(&path).await;
        page.says("alert(").hides("<script>alert").hides("<img src=x");
    }
    let evil = "%3Cscript%3Ealert(1)%3C%2Fscript%3E";
    let echoes = [
        format!("/jobs/{evil}"),
        format!("/queues/{evil}"),
        format!("/jobs?find={evil}"),
        format!("/jobs?state={evil}"),
        format!("/jobs?queue={evil}"),
        format!("/queues?find={evil}"),
        format!("/jobs?after={evil}"),
        format!("/dead?queue={evil}"),
    ];
    for path in echoes {
        site.get(&path).await.hides("<script>alert");
    }
}

#[tokio::test]
async fn missing_pages_show_a_way_out() {
    let site = Site::start().await;
    let gone = site.get("/jobs/0199b2c8-0000-7000-8000-000000000000").await;
    assert_eq!((gone.status, gone.header("content-type")), (404, Some("text/html; charset=utf-8")));
    gone.says("No such job").says("past its retention").says("href=\"/jobs\"");
    for path in
        ["/jobs/xyz", "/jobs?state=odd", "/jobs?find=nothing", "/queues/a%20b", "/assets/x.js"]
    {
        assert_eq!(site.get(path).await.status, 404, "{path}");
    }
    let browser = ("accept", "text/html,application/xhtml+xml,*/*;q=0.8");
    let nowhere = site.get_with("/nope", &[browser]).await;
    assert_eq!(
        (nowhere.status, nowhere.header("content-type")),
        (404, Some("text/html; charset=utf-8"))
    );
    nowhere.says("No such page").says("href=\"/\"");
    assert!(nowhere.header("content-security-policy").is_some());
    assert_eq!(site.get_with("/logout", &[browser]).await.status, 405);
    for (path, accept) in [("/nope", "*/*"), ("/v1/nope", browser.1)] {
        let program = site.get_with(path, &[("accept", accept)]).await;
        assert_eq!(program.header("content-type"), Some("application/problem+json"), "{path}");
    }
    let json = site.get("/v1/jobs/0199b2c8-0000-7000-8000-000000000000").await;
    assert_eq!(json.header("content-type"), Some("application/problem+json"));
}

#[tokio::test]
async fn the_search_leads_to_a_job_a_queue_or_a_kind() {
    let site = Site::start().await;
    let id = site.enqueue(NewJob::new("send").queue("mail/out")).await;
    let to = async |text: &str| {
        let reply = site.get(&format!("/jobs?find={text}")).await;
        assert_eq!(reply.status, 303, "{reply:?}");
        reply.header("location").unwrap().to_owned()
    };
    assert_eq!(to(&id.to_string()).await, format!("/jobs/{id}"));
    assert_eq!(to("mail%2Fout").await, "/queues/mail%2Fout");
    assert_eq!(to("send").await, "/jobs?kind=send");
    assert_eq!(to("MAIL").await, "/queues/mail%2Fout", "the only match");
    assert_eq!(to(&id.to_string()[..35]).await, format!("/jobs/{id}"));
    site.enqueue(NewJob::new("sender").queue("mail/in")).await;
    assert_eq!(to("send").await, "/jobs?kind=send", "a whole name");
    site.get("/jobs?find=mail").await.says("mail/in").says("mail/out").hides("sender");
    site.get(&format!("/jobs?find={}", &id.to_string()[..8])).await.says(&id.to_string());
    site.get("/queues/mail%2Fout").await.says("send");
}

#[tokio::test]
async fn lists_are_filtered_by_the_address_and_searched_by_field_and_text() {
    let site = Site::start().await;
    let mine = site.enqueue(NewJob::new("send").json(r#"{"customer": 42, "to": "ada"}"#)).await;
    let other = site.enqueue(NewJob::new("send").json(r#"{"customer": 43}"#).tenant("acme")).await;
    let (mine, other) = (mine.to_string(), other.to_string());
    let by_field = site.get("/jobs?payload.customer=42").await;
    by_field.says(&mine).hides(&other).says(r#"value="payload.customer=42""#);
    site.get("/jobs?text=ADA").await.says(&mine).hides(&other);
    site.get("/jobs?tenant=acme")
        .await
        .says(&other)
        .hides(&mine)
        .says(r#"name="tenant" value="acme""#);
    site.get("/jobs?payload.customer=42&state=dead").await.hides(&mine);
    let written = site.get("/jobs?where=payload.customer%3D42&state=available&queue=").await;
    assert_eq!(
        written.header("location"),
        Some("/jobs?payload.customer=42&state=available"),
        "the filters are in the address"
    );
    let found = site.get("/jobs?find=payload.customer%3D42").await;
    assert_eq!(found.header("location"), Some("/jobs?where=payload%2Ecustomer%3D42"));
    let found = site.get("/jobs?find=ADA").await;
    assert_eq!(found.header("location"), Some(&*format!("/jobs/{mine}")), "by its payload");
    for bad in ["payload..x=1", "where=customer", "id=xyz", "created_from=now"] {
        let reply = site.get(&format!("/jobs?{bad}")).await;
        assert!((400..500).contains(&reply.status), "{bad}: {reply:?}");
    }
}
