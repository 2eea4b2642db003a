//! The search field, and addresses that do not exist.

use super::webdriver::Browser;
use crate::support::Site;
use serde_json::json;
use windlass_core::model::NewJob;

fn find(browser: &Browser, site: &Site, text: &str) {
    browser.goto(&site.url("/"));
    browser.type_into("header input", &format!("{text}\u{e007}"));
}

#[tokio::test(flavor = "multi_thread")]
async fn the_search_finds_parts_of_names_and_the_start_of_an_id() {
    let Some(browser) = Browser::start() else { return };
    let site = Site::start().await;
    let first = site.enqueue(NewJob::new("send_mail").queue("newsletter")).await;
    let second = site.enqueue(NewJob::new("send_sms").queue("alerts")).await;
    find(&browser, &site, "News");
    browser.until_says("h1", "newsletter");
    find(&browser, &site, "send_s");
    browser.until(&format!("return location.href === {}", json!(site.url("/jobs?kind=send_sms"))));
    find(&browser, &site, "send");
    browser.until_says("main", "send_mail");
    browser.until_says("main", "send_sms");
    browser.click("main a[href*=send_mail]");
    browser.until_says("main", &first.to_string());
    // Both ids were made at nearly the same time: their first digits are the same.
    find(&browser, &site, &second.to_string()[..8]);
    browser.until_says("h1", "Found");
    browser.until_says("main", &first.to_string());
    browser.click(&format!("tr[data-key=\"{second}\"] a"));
    browser.until_says(".id", &second.to_string());
    let text = second.to_string();
    find(&browser, &site, &text[..text.len() - 1]);
    browser.until_says(".id", &text);
    find(&browser, &site, "nothing like it");
    browser.until_says("h1", "Not found");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_address_that_does_not_exist_is_a_page_with_a_way_back() {
    let Some(browser) = Browser::start() else { return };
    let site = Site::start().await;
    site.enqueue(NewJob::new("k").queue("q")).await;
    for path in ["/nope", "/queues/a/b/c", "/logout"] {
        browser.goto(&site.url(path));
        browser.until_says("h1", if path == "/logout" { "Not a page" } else { "No such page" });
        browser.click("header nav a[href='/queues']");
        browser.until_says("h1", "Queues");
    }
}
