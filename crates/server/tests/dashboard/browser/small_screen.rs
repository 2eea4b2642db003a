//! Every page on a small screen.

use super::webdriver::Browser;
use crate::support::Site;
use serde_json::{Value, json};
use windlass_core::engine::Outcome;
use windlass_core::limits::NAME_BYTES_MAX;
use windlass_core::model::{JobError, NewJob};

/// The narrowest supported screen.
const WIDTH: u32 = 360;

#[tokio::test(flavor = "multi_thread")]
async fn no_page_is_wider_than_a_small_screen() {
    let Some(browser) = Browser::start() else { return };
    let site = Site::start().await;
    let long = "n".repeat(NAME_BYTES_MAX);
    let id = site.enqueue(NewJob::new(&*long).queue(&*long).payload(vec![b'x'; 5_000])).await;
    let job = site.claim(&long).await.unwrap();
    let error = JobError::new(&*long, "e".repeat(5_000));
    site.settle(&job, Outcome::Fail { error }).await;
    site.enqueue(NewJob::new("send").queue("mail")).await;
    browser.screen(WIDTH);
    let pages = ["/", "/queues", "/jobs", "/dead", "/schedules", "/workers", "/jobs?find=missing"];
    let pages = pages.map(str::to_owned).into_iter();
    for path in pages.chain([format!("/queues/{long}"), format!("/jobs/{id}")]) {
        browser.goto(&format!("http://{}{path}", site.host()));
        let width = browser.run("return document.documentElement.scrollWidth");
        assert_eq!(width, json!(WIDTH), "{path}");
    }
    // The page for an unknown name is a 404, which the browser logs.
    let unexpected =
        browser.complaints().into_iter().filter(|it| !it.to_string().contains("find=missing"));
    assert_eq!(unexpected.collect::<Vec<_>>(), Vec::<Value>::new());
}
