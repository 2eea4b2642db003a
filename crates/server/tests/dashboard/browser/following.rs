//! A user watches jobs and presses buttons.

use super::webdriver::Browser;
use crate::support::Site;
use serde_json::{Value, json};
use windlass_core::model::{NewJob, State};

#[tokio::test(flavor = "multi_thread")]
async fn a_job_appears_by_itself_and_nothing_a_person_does_is_disturbed() {
    let Some(browser) = Browser::start() else { return };
    let site = Site::start().await;
    let home = format!("http://{}/", site.host());
    browser.goto(&home);
    browser.until_says("#live", "No jobs yet");
    browser.until_says("#status", "live");
    browser.run("window.sameVisit = true");
    browser.type_into("header input", "half a wo");
    let evil = "<img src=x onerror=\"window.evil = 1\">";
    let id = site.enqueue(NewJob::new("greet").queue("hello/world").payload(evil).tag(evil)).await;
    browser.until(&format!("return !!document.querySelector('tr[data-key=\"{id}\"]')"));
    let kept = "const box = document.querySelector('header input');
        return window.sameVisit && box.value === 'half a wo' && document.activeElement === box";
    assert_eq!(browser.run(kept), json!(true), "the page was not loaded again");

    browser.click(&format!("tr[data-key=\"{id}\"] a"));
    browser.until_says("h1", "greet");
    browser.until_says("#main", "onerror=");
    assert_eq!(browser.run("return window.evil === undefined"), json!(true));
    let job = site.claim("hello/world").await.unwrap();
    browser.until_says("h1 .state", "running");
    assert_eq!(job.header.id, id);
    browser.back();
    browser.until_says("h1", "Overview");
    assert_eq!(browser.complaints(), Vec::<Value>::new());

    site.server.stop().await;
    browser.until_says("#status.lost", "server unreachable");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_person_pauses_a_queue_and_replays_and_discards_dead_jobs() {
    let Some(browser) = Browser::start() else { return };
    let site = Site::start().await;
    let url = |path: &str| format!("http://{}{path}", site.host());
    site.enqueue(NewJob::new("send").queue("mail")).await;
    browser.goto(&url("/queues/mail"));
    browser.click(".head button");
    browser.until_says(".head button", "Resume");
    assert!(site.claim("mail").await.is_none(), "a paused queue hands out nothing");
    browser.click(".head button");
    browser.until_says(".head button", "Pause");
    assert!(site.claim("mail").await.is_some());

    let (again, away, kept) =
        (site.dead("q", "one").await, site.dead("q", "two").await, site.dead("q", "three").await);
    browser.goto(&url("/"));
    // By keyboard shortcut.
    browser.type_into("body", "gd");
    browser.until_says("h1", "Dead letters");
    browser.click(&format!("tr[data-key=\"{again}\"] button[formaction$=replay]"));
    browser.until(&format!("return !document.querySelector('tr[data-key=\"{again}\"]')"));
    assert_eq!(site.state(again).await, Some(State::Available));

    browser.click(&format!("tr[data-key=\"{away}\"] button[formaction$=discard]"));
    browser.until_says("#confirm[open]", "permanently");
    assert_eq!(site.state(away).await, Some(State::Dead), "not before it is confirmed");
    browser.click("#confirm button[value=yes]");
    browser.until(&format!("return !document.querySelector('tr[data-key=\"{away}\"]')"));
    assert_eq!(site.state(away).await, None);

    let box_of_kept = format!("input[value=\"{kept}\"]");
    browser.click(&box_of_kept);
    let late = site.dead("another", "four").await;
    browser.until(&format!("return !!document.querySelector('tr[data-key=\"{late}\"]')"));
    let ticked = format!("return document.querySelector('{box_of_kept}').checked");
    assert_eq!(browser.run(&ticked), json!(true), "what was ticked stays so when rows arrive");
    browser.click("[data-selected][value=replay]");
    browser.until(&format!("return !document.querySelector('tr[data-key=\"{kept}\"]')"));
    assert_eq!(site.state(kept).await, Some(State::Available));
    assert_eq!(site.state(late).await, Some(State::Dead));

    browser.click("label.all input");
    browser.click("[data-selected][value=replay]");
    browser.until_says("#live", "No dead letters.");
    assert_eq!(site.state(late).await, Some(State::Available));
    assert_eq!(browser.complaints(), Vec::<Value>::new());
}
