//! Pages of a large store are limited in size and link to the next page.

use crate::support::Site;
use windlass_core::engine::*;
use windlass_core::model::NewJob;

#[tokio::test]
async fn a_thousand_queues_are_shown_in_part_and_found_by_name() {
    let site = Site::start().await;
    let jobs = (0..1_000).map(|n| NewJob::new("k").queue(format!("queue-{n:04}")));
    site.engine.enqueue(Enqueue::each(jobs)).await.unwrap();
    let overview = site.get("/").await;
    overview.says("of 1000");
    assert!(overview.body.len() < 64 * 1024, "{}", overview.body.len());
    let first = site.get("/queues").await;
    first.says("queue-0000").hides("queue-0100").says("1–100 of 1000").says("/queues?page=1");
    site.get("/queues?page=9").await.says("queue-0999").hides("rel=\"next\"");
    site.get("/queues?page=99999").await.says("queue-0999");
    site.get("/queues?find=0777").await.says("queue-0777").hides("queue-0778");
    site.get("/queues?find=nope").await.says("Show all 1000");
}

#[tokio::test]
async fn pages_of_jobs_lead_through_all_of_them_once() {
    let site = Site::start().await;
    let jobs = (0..120).map(|_| NewJob::new("k").queue("q"));
    let enqueued = site.engine.enqueue(Enqueue::each(jobs)).await.unwrap().value;
    let (mut path, mut seen) = ("/jobs?queue=q&state=available".to_owned(), Vec::new());
    loop {
        let page = site.get(&path).await;
        assert_eq!(page.status, 200);
        let keys = page.body.split("<tr data-key=\"").skip(1);
        seen.extend(keys.map(|rest| rest.split('"').next().unwrap().to_owned()));
        let Some(next) = page.body.find("rel=\"next\"") else { break };
        let link = page.body[..next].rsplit("href=\"").next().unwrap();
        path = link.split('"').next().unwrap().replace("&#38;", "&");
        assert!(path.contains("queue=q") && path.contains("state=available"), "{path}");
    }
    let mut all: Vec<_> = enqueued.into_iter().map(|it| it.unwrap().id.to_string()).collect();
    seen.sort();
    all.sort();
    assert_eq!(seen, all);
}

#[tokio::test]
async fn a_large_payload_is_cut_and_a_binary_one_is_named() {
    let site = Site::start().await;
    let large = format!("\"{}\"", "x".repeat(60_000));
    let id = site.enqueue(NewJob::new("k").queue("q").payload(large.into_bytes())).await;
    let page = site.get(&format!("/jobs/{id}")).await;
    page.says("58.6 KiB").says("There is more").says(&format!("/v1/jobs/{id}?parts=payload"));
    assert!(page.body.len() < 48 * 1024, "{}", page.body.len());
    let id = site.enqueue(NewJob::new("k").queue("q").payload(vec![0_u8, 255, 1])).await;
    site.get(&format!("/jobs/{id}")).await.says("binary, 3 B").says("00 ff 01");
}

#[tokio::test]
async fn a_form_too_large_to_be_ours_is_refused() {
    let site = Site::start().await;
    let form = "x".repeat(70_000);
    assert_eq!(site.post("/queues/q/pause", &form).await.status, 413);
}
