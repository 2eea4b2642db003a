//! Every page as it is for each role: all see the data, and only those who may act see buttons.

use super::samples::{PAGES, fill};
use super::webdriver::Browser;
use crate::support::Site;
use serde_json::json;
use windlass_core::model::State;

/// Visible buttons of the page itself, and visible rows of its tables.
const SEEN: &str = "const shown = (css) => [...document.querySelectorAll(css)].filter((it) => it.offsetHeight > 0);
    return { rows: shown('main tbody tr').length, buttons: shown('main form[method=post] button').length };";

fn sign_in(browser: &Browser, site: &Site, key: &str) {
    browser.goto(&site.url("/login"));
    browser.type_into("#key", key);
    browser.click("main button");
    browser.until_says("header", "Sign out");
}

/// The rows and the buttons of each page.
fn seen(browser: &Browser, site: &Site, job: &str) -> Vec<(String, u64, u64)> {
    let see = |path: &str| {
        browser.goto(&site.url(path));
        let seen = browser.run(SEEN);
        let number = |name: &str| seen[name].as_u64().expect("a number");
        (path.to_owned(), number("rows"), number("buttons"))
    };
    PAGES.into_iter().chain([job]).map(see).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn every_role_sees_the_same_rows_and_only_those_who_may_act_see_buttons() {
    let Some(browser) = Browser::start() else { return };
    let (site, [admin, viewer, operator]) =
        Site::locked(["admin", "view", "view,enqueue:*,work:*"]).await;
    let job = format!("/jobs/{}", fill(&site).await.dead);
    sign_in(&browser, &site, &admin);
    let all = seen(&browser, &site, &job);
    for path in ["/dead", "/queues/mail", &job] {
        let (_, rows, buttons) = all.iter().find(|(page, ..)| page == path).unwrap();
        assert!(*rows > 0 && *buttons > 0, "{path}: {rows} rows, {buttons} buttons");
    }
    for key in [&viewer, &operator] {
        browser.click(".who button");
        browser.until_says("h1", "Sign in");
        sign_in(&browser, &site, key);
        let without_buttons: Vec<_> =
            all.iter().map(|(path, rows, _)| (path.clone(), *rows, 0)).collect();
        assert_eq!(seen(&browser, &site, &job), without_buttons);
    }
    browser.click(".who button");
    browser.until_says("h1", "Sign in");
    for path in PAGES {
        browser.goto(&site.url(path));
        assert_eq!(browser.run("return document.title"), json!("Sign in · Windlass"), "{path}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_store_without_keys_is_open_and_its_sign_in_page_leads_on() {
    let Some(browser) = Browser::start() else { return };
    let site = Site::start().await;
    let jobs = fill(&site).await;
    browser.goto(&site.url("/login?back=%2Fdead"));
    browser.until_says("h1", "Dead letters");
    browser.click(&format!("tr[data-key=\"{}\"] button[formaction$=replay]", jobs.dead));
    browser.until_says(".notice", "Replayed 1 job.");
    assert_eq!(site.state(jobs.dead).await, Some(State::Available));
}
