//! Polling by the script: only the changing part, and 304 if nothing changed.

use crate::support::Site;
use windlass_core::model::NewJob;

const LIVE: (&str, &str) = ("windlass-live", "1");

#[tokio::test]
async fn an_unchanged_page_costs_no_body_and_a_changed_one_only_its_part() {
    let site = Site::start().await;
    let id = site.enqueue(NewJob::new("k").queue("q")).await;
    for path in
        ["/", "/queues", "/queues/q", "/jobs", "/dead", "/schedules", &format!("/jobs/{id}")]
    {
        let first = site.get_with(path, &[LIVE]).await;
        assert_eq!(first.status, 200, "{path}");
        first.hides("<html").hides("<header");
        assert_eq!(first.header("vary"), Some("windlass-live"));
        let tag = first.header("etag").expect("a tag").to_owned();
        let second = site.get_with(path, &[LIVE, ("if-none-match", &tag)]).await;
        assert_eq!((second.status, &*second.body), (304, ""), "{path}");
        assert!(second.header("windlass-now").is_some(), "{path}");
    }
    let before = site.get_with("/jobs", &[LIVE]).await;
    site.enqueue(NewJob::new("other").queue("q")).await;
    let tag = before.header("etag").unwrap();
    let after = site.get_with("/jobs", &[LIVE, ("if-none-match", tag)]).await;
    assert_eq!(after.status, 200);
    after.says("other");
}

#[tokio::test]
async fn a_person_always_gets_the_whole_page() {
    let site = Site::start().await;
    let tag = site.get_with("/", &[LIVE]).await.header("etag").unwrap().to_owned();
    let page = site.get_with("/", &[("if-none-match", &tag)]).await;
    assert_eq!(page.status, 200);
    page.says("<html").says("id=\"live\"");
}

#[tokio::test]
async fn assets_are_kept_for_good_under_an_address_that_changes_with_them() {
    let site = Site::start().await;
    let page = site.get("/").await.body;
    for name in ["dashboard.css", "dashboard.js", "icon.svg"] {
        let start = page.find(&format!("/assets/{name}?v=")).expect(name);
        let url = page[start..].split('"').next().unwrap();
        let asset = site.get(url).await;
        assert_eq!(asset.status, 200, "{url}");
        assert!(asset.header("cache-control").unwrap().contains("immutable"), "{url}");
        let tag = asset.header("etag").unwrap();
        assert_eq!(site.get_with(url, &[("if-none-match", tag)]).await.status, 304);
        let stale = site.get(&format!("/assets/{name}?v=0")).await;
        assert_eq!(stale.header("cache-control"), Some("no-cache"));
    }
}
