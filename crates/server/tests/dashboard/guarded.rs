//! Requests from other sites are refused, under any host name.

use crate::support::Site;
use windlass_core::model::NewJob;

#[tokio::test]
async fn another_site_cannot_press_a_button() {
    let site = Site::start().await;
    site.enqueue(NewJob::new("k").queue("q")).await;
    let origin = format!("http://{}", site.host());
    let strangers: [&[(&str, &str)]; 5] = [
        &[],
        &[("sec-fetch-site", "cross-site"), ("origin", "https://evil.example")],
        &[("sec-fetch-site", "same-site"), ("origin", &origin)],
        &[("origin", "https://evil.example")],
        &[("origin", "null")],
    ];
    for headers in strangers {
        let reply = site.request("POST", "/queues/q/pause", headers, "").await;
        assert_eq!(reply.status, 403, "{headers:?}");
        reply.says("Nothing was changed");
    }
    assert!(site.claim("q").await.is_some(), "the queue is open");
    let own = site.request("POST", "/queues/q/pause", &[("origin", &origin)], "").await;
    assert_eq!(own.status, 303);
}

#[tokio::test]
async fn requests_for_a_foreign_host_name_are_refused() {
    let site = Site::start().await;
    for host in ["evil.example", "evil.example:7474", "10.0.0.7", "localhost.evil.example"] {
        let reply = site.get_with("/jobs", &[("host", host)]).await;
        assert_eq!(reply.status, 403, "{host}");
        reply.says("Not by this name");
        let headers = [("host", host), ("sec-fetch-site", "same-origin")];
        assert_eq!(site.request("POST", "/queues/q/pause", &headers, "").await.status, 403);
    }
    for host in ["localhost:9999", "127.0.0.1", "[::1]:1"] {
        assert_eq!(site.get_with("/jobs", &[("host", host)]).await.status, 200, "{host}");
    }
}

#[tokio::test]
async fn every_reply_keeps_scripts_and_frames_of_others_out() {
    let site = Site::start().await;
    for path in ["/", "/jobs/xyz", "/assets/dashboard.js"] {
        let reply = site.get(path).await;
        let policy = reply.header("content-security-policy").unwrap();
        assert!(policy.contains("default-src 'none'") && policy.contains("frame-ancestors 'none'"));
        assert!(!policy.contains("unsafe"));
        assert_eq!(reply.header("x-content-type-options"), Some("nosniff"));
        assert_eq!(reply.header("referrer-policy"), Some("same-origin"));
    }
    let page = site.get("/").await.body;
    assert!(!page.contains("<style") && !page.contains(" style=") && !page.contains(" onclick="));
    assert_eq!(page.matches("<script").count(), 1);
    let page = page.replace(&format!("http://{}", site.host()), "");
    assert!(!page.contains("http://") && !page.contains("https://"), "nothing from elsewhere");
}

#[tokio::test]
async fn the_way_back_never_leaves_the_server() {
    let site = Site::start().await;
    for back in ["https%3A%2F%2Fevil.example", "%2F%2Fevil.example", "%2F%5Cevil.example"] {
        let reply = site.post("/queues/q/pause", &format!("back={back}")).await;
        assert_eq!(reply.leads_to().0, "/queues/q", "{back}");
    }
}
