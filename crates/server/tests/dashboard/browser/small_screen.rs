//! Every page on a small screen.

use super::samples::{PAGES, fill};
use super::webdriver::Browser;
use crate::support::Site;
use serde_json::{Value, json};
use windlass_core::engine::Outcome;
use windlass_core::limits::NAME_BYTES_MAX;
use windlass_core::model::{JobError, NewJob};

/// The narrowest supported screen, and a common one.
const WIDTHS: [u32; 2] = [360, 400];

#[tokio::test(flavor = "multi_thread")]
async fn no_page_is_wider_than_a_small_screen() {
    let Some(browser) = Browser::start() else { return };
    let site = Site::start().await;
    let long = "n".repeat(NAME_BYTES_MAX);
    let id = site.enqueue(NewJob::new(&*long).queue(&*long).payload(vec![b'x'; 5_000])).await;
    let job = site.claim(&long).await.unwrap();
    let error = JobError::new(&*long, "e".repeat(5_000));
    site.settle(&job, Outcome::Fail { error }).await;
    let jobs = fill(&site).await;
    let pages = PAGES.into_iter().chain(["/jobs?find=missing"]).map(str::to_owned);
    let pages = pages.chain([format!("/queues/{long}"), format!("/jobs?find={}", &long[1..])]);
    let pages = pages.chain([id, jobs.dead, jobs.running].map(|id| format!("/jobs/{id}")));
    let pages: Vec<_> = pages.collect();
    for width in WIDTHS {
        browser.screen(width);
        for path in &pages {
            browser.goto(&site.url(path));
            let found = browser.run("return document.documentElement.scrollWidth");
            assert_eq!(found, json!(width), "{path}");
        }
    }
    // The page for an unknown name is a 404, which the browser logs.
    let unexpected =
        browser.complaints().into_iter().filter(|it| !it.to_string().contains("find=missing"));
    assert_eq!(unexpected.collect::<Vec<_>>(), Vec::<Value>::new());
}
