//! Buttons, and their effect on jobs.

use crate::support::Site;
use windlass_core::model::{Due, KindRules, NewJob, State};
use windlass_services::Kinds;

#[tokio::test]
async fn a_paused_queue_gives_no_jobs_until_it_is_resumed() {
    let site = Site::start().await;
    site.enqueue(NewJob::new("send").queue("a/b")).await;
    let reply = site.post("/queues/a%2Fb/pause", "").await;
    assert_eq!(reply.leads_to(), ("/queues/a%2Fb", "queue-paused"));
    assert!(site.claim("a/b").await.is_none());
    site.get("/queues/a%2Fb").await.says("Resume").says("queue paused");
    let reply = site.post("/queues/a%2Fb/resume", "back=%2Fqueues%3Ffind%3Da").await;
    assert_eq!(reply.leads_to(), ("/queues?find=a", "queue-resumed"));
    assert!(site.claim("a/b").await.is_some());
}

#[tokio::test]
async fn a_paused_kind_is_not_claimed() {
    let site = Site::start().await;
    site.enqueue(NewJob::new("slow").queue("q")).await;
    assert_eq!(site.post("/kinds/slow/pause", "").await.status, 303);
    assert!(site.claim("q").await.is_none());
    site.get("/queues/q").await.says("kind paused");
    site.post("/kinds/slow/resume", "").await;
    assert!(site.claim("q").await.is_some());
}

#[tokio::test]
async fn a_job_does_what_its_buttons_say() {
    let site = Site::start().await;
    let id = site.enqueue(NewJob::new("k").queue("q").due(Due::After(3_600_000))).await;
    let press = async |change: &str| site.post(&format!("/jobs/{id}/{change}"), "").await;
    let reply = press("promote").await;
    assert_eq!(reply.leads_to(), (&*format!("/jobs/{id}"), "promoted"));
    assert_eq!(site.state(id).await, Some(State::Available));
    press("pause").await;
    assert_eq!(site.state(id).await, Some(State::Paused));
    press("resume").await;
    press("cancel").await;
    assert_eq!(site.state(id).await, Some(State::Cancelled));
    press("replay").await;
    assert_eq!(site.state(id).await, Some(State::Available));

    let refused = press("discard").await;
    assert_eq!(refused.status, 409);
    refused.says("cancel it first").says(&format!("href=\"/jobs/{id}\""));
    press("cancel").await;
    let discarded =
        site.post(&format!("/jobs/{id}/discard"), &format!("back=%2Fjobs%2F{id}")).await;
    assert_eq!(discarded.leads_to(), ("/jobs", "discarded"), "its own page is gone");
    assert_eq!(site.state(id).await, None);
    assert_eq!(press("explode").await.status, 404);
}

#[tokio::test]
async fn every_button_a_page_offers_works_in_that_state() {
    let site = Site::start().await;
    let dead = site.dead("q", "m").await;
    let running = site.enqueue(NewJob::new("k").queue("r")).await;
    site.claim("r").await.unwrap();
    let available = site.enqueue(NewJob::new("k").queue("q")).await;
    let scheduled = site.enqueue(NewJob::new("k").queue("q").due(Due::After(60_000))).await;
    let mut pressed = 0;
    for id in [dead, running, available, scheduled] {
        let page = site.get(&format!("/jobs/{id}")).await;
        let start = format!("formaction=\"/jobs/{id}/");
        let mut moved = false;
        for button in page.body.split(&start).skip(1) {
            let change = button.split('"').next().unwrap();
            let reply = site.post(&format!("/jobs/{id}/{change}"), "").await;
            // After an action that ended or replayed the job, the page's other buttons are out of date.
            let ok = reply.status == 303 || (moved && reply.status == 409);
            assert!(ok, "{change} of {id}: {reply:?}");
            moved |= matches!(change, "cancel" | "kill" | "replay");
            pressed += 1;
        }
    }
    assert!(pressed >= 7, "{pressed}");
}

#[tokio::test]
async fn selected_dead_letters_are_replayed_and_the_others_stay() {
    let site = Site::start().await;
    let (one, two, three) =
        (site.dead("q", "1").await, site.dead("q", "2").await, site.dead("q", "3").await);
    let form = format!("back=%2Fdead&id={one}&id={three}&change=replay");
    let reply = site.post("/jobs/change", &form).await;
    assert_eq!(reply.leads_to(), ("/dead", "replayed"));
    site.get(reply.header("location").unwrap()).await.says("Replayed 2 jobs.");
    assert_eq!(site.state(one).await, Some(State::Available));
    assert_eq!(site.state(two).await, Some(State::Dead));
    assert_eq!(site.state(three).await, Some(State::Available));

    let form = format!("back=%2Fdead&id={one}&id={two}&change=discard");
    let partly = site.post("/jobs/change", &form).await;
    assert_eq!(partly.status, 409);
    partly.says("1 of 2 jobs were changed").says(&one.to_string());
    assert_eq!(site.state(two).await, None);
    let nothing = site.post("/jobs/change", "change=replay&back=%2Fdead").await;
    assert_eq!(nothing.leads_to(), ("/dead", "nothing-selected"));
}

#[tokio::test]
async fn a_sensitive_kind_asks_for_its_name_before_it_is_replayed() {
    let site = Site::start().await;
    let mut rules = KindRules::default();
    rules.sensitive = true;
    let id = site.dead("q", "no money").await;
    Kinds::new(site.engine.clone()).put("breaks", &rules).await.unwrap();
    let replay = format!("/jobs/{id}/replay");
    let requested = site.post(&replay, "if_state=dead").await;
    assert_eq!(requested.status, 422);
    requested.says("name=\"confirm\"").says("action=\"/jobs/change\"").says("value=\"dead\"");
    assert_eq!(site.post(&replay, "confirm=another").await.status, 422);
    assert_eq!(site.state(id).await, Some(State::Dead));
    let form = format!("change=replay&if_state=dead&id={id}&confirm=breaks&back=%2Fjobs%2F{id}");
    let replayed = site.post("/jobs/change", &form).await;
    assert_eq!(replayed.leads_to(), (&*format!("/jobs/{id}"), "replayed"));
    assert_eq!(site.state(id).await, Some(State::Available));
}

#[tokio::test]
async fn a_running_job_is_not_said_to_be_cancelled_before_its_worker_stops() {
    let site = Site::start().await;
    let id = site.enqueue(NewJob::new("k").queue("q")).await;
    site.claim("q").await.unwrap();
    let reply = site.post(&format!("/jobs/{id}/cancel"), "").await;
    assert_eq!(reply.leads_to().1, "stop-requested");
    site.get(reply.header("location").unwrap()).await.says("Asked the worker to stop 1 job.");
}

#[tokio::test]
async fn a_link_cannot_show_a_message_of_its_own() {
    let site = Site::start().await;
    site.get("/?notice=pay+here&count=1").await.hides("pay here").hides("role=\"status\">");
    site.get("/?notice=replayed&count=pay+here").await.hides("pay here");
}
