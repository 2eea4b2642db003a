//! Changes of all jobs that match: counted on one page, made on the next.

use crate::support::{Reply, Site};
use windlass_core::JobId;
use windlass_core::model::{KindRules, NewJob, State};
use windlass_services::{Bulk, Bulks, Kinds};

/// Runs the operation that a reply leads to, as the services do, and returns its page and its result.
async fn finish(site: &Site, reply: &Reply) -> (String, Bulk) {
    assert_eq!(reply.status, 303, "{reply:?}");
    let page = reply.header("location").expect("a page").split('?').next().unwrap_or_default();
    let page = page.to_owned();
    let id = page.strip_prefix("/bulk/").expect("the page of an operation");
    let bulk = Bulks::new(site.engine.clone()).run(id, |_| {}).await.expect("it runs");
    (page, bulk)
}

async fn states(site: &Site, ids: &[JobId]) -> Vec<State> {
    let mut states = Vec::new();
    for id in ids {
        states.push(site.state(*id).await.expect("the job exists"));
    }
    states
}

#[tokio::test]
async fn all_jobs_that_match_are_counted_before_they_are_changed() {
    let site = Site::start().await;
    let mut mail = Vec::new();
    for _ in 0..3 {
        mail.push(site.enqueue(NewJob::new("send").queue("mail")).await);
    }
    let other = site.enqueue(NewJob::new("send").queue("other")).await;

    let list = site.get("/jobs?queue=mail").await;
    list.says("action=\"/bulk\"").says("value=\"queue=mail\"").says("value=\"cancel\"");
    site.get("/jobs").await.hides("action=\"/bulk\"");

    let counted = site.post("/bulk", "change=cancel&filter=queue%3Dmail").await;
    let (page, bulk) = finish(&site, &counted).await;
    assert_eq!((bulk.total, bulk.changed, bulk.dry_run), (3, 0, true));
    assert_eq!(states(&site, &mail).await, [State::Available; 3], "only counted");
    site.get(&page).await.says("Cancel 3 jobs").says("<dd class=\"mono\">mail</dd>");

    let started = site.post(&format!("{page}/start"), "").await;
    let (page, bulk) = finish(&site, &started).await;
    assert_eq!((bulk.total, bulk.changed, bulk.dry_run), (3, 3, false));
    assert_eq!(states(&site, &mail).await, [State::Cancelled; 3]);
    assert_eq!(site.state(other).await, Some(State::Available), "it does not match");
    site.get(&page).await.says("3 of 3 changed").hides("Stop this operation");
    site.get("/bulk").await.says("count only").says("queue=mail").says(&page);
}

#[tokio::test]
async fn all_dead_letters_of_a_queue_are_replayed_and_a_sensitive_kind_needs_its_name() {
    let site = Site::start().await;
    let ids = [site.dead("q", "1").await, site.dead("q", "2").await];
    let elsewhere = site.dead("r", "3").await;
    let mut rules = KindRules::default();
    rules.sensitive = true;
    Kinds::new(site.engine.clone()).put("breaks", &rules).await.unwrap();
    site.get("/dead?queue=q").await.says("Replay all 2…").says("value=\"queue=q&#38;state=dead\"");

    let counted = site.post("/bulk", "change=replay&filter=queue%3Dq%26state%3Ddead").await;
    let (count_page, _) = finish(&site, &counted).await;
    site.get(&count_page).await.says("name=\"confirm\"").says("Replay 2 jobs");

    let (page, refused) = finish(&site, &site.post(&format!("{count_page}/start"), "").await).await;
    assert_eq!((refused.changed, refused.refused), (0, 2));
    site.get(&page).await.says("2 refused").says("First refusal");
    assert_eq!(states(&site, &ids).await, [State::Dead; 2]);

    let confirmed = site.post(&format!("{count_page}/start"), "confirm=breaks").await;
    assert_eq!(finish(&site, &confirmed).await.1.changed, 2);
    assert_eq!(states(&site, &ids).await, [State::Available; 2]);
    assert_eq!(site.state(elsewhere).await, Some(State::Dead));
}

#[tokio::test]
async fn an_operation_that_is_stopped_changes_nothing_more() {
    let site = Site::start().await;
    let id = site.enqueue(NewJob::new("send").queue("mail")).await;
    let (counted, _) =
        finish(&site, &site.post("/bulk", "change=pause&filter=queue%3Dmail").await).await;
    let started = site.post(&format!("{counted}/start"), "").await;
    let (page, _) = started.leads_to();
    site.get(page).await.says("Stop this operation");
    let stopped = site.post(&format!("{page}/cancel"), "").await;
    assert_eq!(stopped.leads_to(), (page, "bulk-cancelled"));
    finish(&site, &started).await;
    assert_eq!(
        site.state(id).await,
        Some(State::Available),
        "it was stopped before its first step"
    );
    site.get(page).await.says(">cancelled<");
}

#[tokio::test]
async fn a_change_or_a_filter_that_does_not_exist_starts_nothing() {
    let site = Site::start().await;
    for form in ["change=explode&filter=queue%3Da", "change=cancel&filter=queu%3Da", "change=purge"]
    {
        let refused = site.post("/bulk", form).await;
        assert_eq!(refused.status, 404, "{form}");
    }
    site.get("/bulk").await.says("No bulk operations");
    assert_eq!(site.get("/bulk/none").await.status, 404);
}
