//! Replaying and discarding several dead letters.

use super::webdriver::Browser;
use crate::support::Site;
use serde_json::json;
use windlass_core::JobId;
use windlass_core::model::{KindRules, State};
use windlass_services::Kinds;

/// The key that activates a control, in WebDriver's notation.
const ENTER: &str = "\u{e007}";

fn tick(browser: &Browser, id: JobId) {
    browser.click(&format!("input[value=\"{id}\"]"));
}

#[tokio::test(flavor = "multi_thread")]
async fn enter_in_a_checkbox_replays_nothing() {
    let Some(browser) = Browser::start() else { return };
    let site = Site::start().await;
    let id = site.dead("q", "one").await;
    browser.goto(&site.url("/dead"));
    tick(&browser, id);
    browser.run("window.sameVisit = true");
    browser.type_into(&format!("input[value=\"{id}\"]"), ENTER);
    browser.type_into("label.all input", ENTER);
    // A submitted form would have been answered before this one.
    let other = "await fetch('/dead'); return window.sameVisit === true";
    assert_eq!(browser.run(&format!("return (async () => {{ {other} }})()")), json!(true));
    assert_eq!(site.state(id).await, Some(State::Dead));
    browser.disable_scripts();
    browser.goto(&site.url("/dead"));
    tick(&browser, id);
    browser.type_into(&format!("input[value=\"{id}\"]"), ENTER);
    browser.until_says(".notice", "Nothing was changed");
    assert_eq!(site.state(id).await, Some(State::Dead));
}

#[tokio::test(flavor = "multi_thread")]
async fn buttons_for_selected_jobs_need_a_selection() {
    let Some(browser) = Browser::start() else { return };
    let site = Site::start().await;
    let id = site.dead("q", "one").await;
    browser.goto(&site.url("/dead"));
    let disabled = "return [...document.querySelectorAll('.bulk button')].map((it) => it.disabled)";
    assert_eq!(browser.run(disabled), json!([true, true]));
    tick(&browser, id);
    assert_eq!(browser.run(disabled), json!([false, false]));
    tick(&browser, id);
    assert_eq!(browser.run(disabled), json!([true, true]));
    // Without the script, the buttons answer with the page itself and a message.
    browser.disable_scripts();
    browser.goto(&site.url("/dead?queue=q"));
    browser.click("[data-selected][value=replay]");
    browser.until_says(".notice", "No job was selected");
    browser.until_says("h1", "Dead letters");
    assert_eq!(browser.run("return location.search.includes('queue=q')"), json!(true));
    assert_eq!(site.state(id).await, Some(State::Dead));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_bulk_replay_of_sensitive_kinds_asks_for_their_names_and_goes_on() {
    let Some(browser) = Browser::start() else { return };
    let site = Site::start().await;
    let mut sensitive = KindRules::default();
    sensitive.sensitive = true;
    let mut jobs = Vec::new();
    for kind in ["charge", "refund", "send"] {
        jobs.push(site.dead_of("q", kind, "no money").await);
    }
    for kind in ["charge", "refund"] {
        Kinds::new(site.engine.clone()).put(kind, &sensitive).await.unwrap();
    }
    browser.goto(&site.url("/dead"));
    browser.click("label.all input");
    browser.click("[data-selected][value=replay]");
    browser.until_says("main", "1 of 3 jobs were changed. 2 are of a sensitive kind");
    assert_eq!(site.state(jobs[2]).await, Some(State::Available));
    assert_eq!(site.state(jobs[0]).await, Some(State::Dead));
    // One wrong name: the other job is replayed, and the page asks again.
    let field = |place: u32| format!("main form p:nth-of-type({place}) input");
    browser.type_into(&field(1), "charge");
    browser.type_into(&field(2), "another");
    browser.click("main form button");
    browser.until_says("main", "1 of 2 jobs were changed. 1 are of a sensitive kind");
    assert_eq!(site.state(jobs[0]).await, Some(State::Available));
    browser.type_into(&field(1), "refund");
    browser.click("main form button");
    browser.until_says(".notice", "Replayed 1 job.");
    browser.until_says("h1", "Dead letters");
    assert_eq!(site.state(jobs[1]).await, Some(State::Available));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_message_is_shown_once_and_kept_out_of_the_address() {
    let Some(browser) = Browser::start() else { return };
    let site = Site::start().await;
    site.dead("q", "one").await;
    browser.goto(&site.url("/queues/q"));
    browser.click(".head button");
    browser.until_says(".notice", "Paused the queue");
    assert_eq!(browser.run("return location.href"), json!(site.url("/queues/q")));
    browser.click(".head button");
    browser.until_says(".notice", "Resumed the queue");
    browser.goto(&site.url("/queues/q"));
    assert_eq!(browser.run("return document.querySelectorAll('.notice').length"), json!(0));
}
