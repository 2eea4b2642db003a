//! Every page, checked by axe-core.

use super::samples::{PAGES, fill};
use super::webdriver::Browser;
use crate::support::Site;
use serde_json::json;

/// Environment variable with the path of the script.
const SCRIPT_VAR: &str = "WINDLASS_AXE";

/// Returns the serious violations of a page.
const CHECK: &str = "return axe.run().then((found) => found.violations
    .filter((it) => ['serious', 'critical'].includes(it.impact))
    .map((it) => `${it.id}: ${it.nodes.map((node) => node.html).join(' ').slice(0, 300)}`))";

#[tokio::test(flavor = "multi_thread")]
#[ignore = "long: needs axe-core from the npm registry, which `cargo xtask test --long` installs"]
async fn no_page_has_a_serious_violation() {
    let Some(browser) = Browser::start() else { return };
    let path = std::env::var(SCRIPT_VAR)
        .unwrap_or_else(|_| panic!("{SCRIPT_VAR} is not set: run `cargo xtask test --long`"));
    let axe = std::fs::read_to_string(&path).expect("axe-core");
    let site = Site::start().await;
    let jobs = fill(&site).await;
    let job_pages = [jobs.dead, jobs.running, jobs.blocked].map(|id| format!("/jobs/{id}"));
    let pages = PAGES.map(str::to_owned).into_iter().chain(job_pages).chain(["/nope".to_owned()]);
    let pages: Vec<_> = pages.collect();
    for (scheme, width) in [("light", 1280), ("dark", 1280), ("light", 400)] {
        browser.prefer(scheme);
        browser.screen(width);
        for path in &pages {
            browser.goto(&site.url(path));
            browser.run(&axe);
            assert_eq!(browser.run(CHECK), json!([]), "{scheme} {width} {path}");
        }
    }
}
