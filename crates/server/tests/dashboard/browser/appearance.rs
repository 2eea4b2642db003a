//! How pages look: contrast, widths, and what stays where it is.

use super::samples::{PAGES, TRACEBACK, fill};
use super::webdriver::Browser;
use crate::support::Site;
use serde_json::{Value, json};

/// The lowest contrast of text, by WCAG 2 level AA.
const CONTRAST_MIN: f64 = 4.5;

/// Returns the visible texts of a page whose contrast is lower than the argument.
///
/// Colours are painted on a canvas, which converts every notation to red, green, blue and alpha;
/// the backgrounds of all ancestors are painted below.
const LOW_CONTRAST: &str = r#"
    const paper = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
    const painted = (colours) => {
        paper.clearRect(0, 0, 1, 1);
        for (const colour of colours) { paper.fillStyle = colour; paper.fillRect(0, 0, 1, 1); }
        return [...paper.getImageData(0, 0, 1, 1).data];
    };
    const luminance = ([red, green, blue]) => {
        const linear = (v) => (v /= 255) <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4;
        return 0.2126 * linear(red) + 0.7152 * linear(green) + 0.0722 * linear(blue);
    };
    const low = [];
    const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
    while (texts.nextNode()) {
        const element = texts.currentNode.parentElement;
        const isShown = texts.currentNode.data.trim() && element.checkVisibility({ visibilityProperty: true })
            && element.getBoundingClientRect().width > 1 && !element.closest("button:disabled");
        if (!isShown) continue;
        const backgrounds = [];
        for (let it = element; it; it = it.parentElement) backgrounds.unshift(getComputedStyle(it).backgroundColor);
        const behind = painted(backgrounds);
        const front = painted([...backgrounds, getComputedStyle(element).color]);
        const [light, dark] = [luminance(front), luminance(behind)].sort((a, b) => b - a);
        const contrast = (light + 0.05) / (dark + 0.05);
        if (contrast < MIN) low.push(`${contrast.toFixed(2)} ${element.className} ${texts.currentNode.data.trim().slice(0, 40)}`);
    }
    return low;
"#;

#[tokio::test(flavor = "multi_thread")]
async fn every_text_has_enough_contrast_in_light_and_in_dark() {
    let Some(browser) = Browser::start() else { return };
    let site = Site::start().await;
    let jobs = fill(&site).await;
    let script = LOW_CONTRAST.replace("MIN", &CONTRAST_MIN.to_string());
    let job_pages = [jobs.dead, jobs.running, jobs.blocked].map(|id| format!("/jobs/{id}"));
    let others = ["/nope", "/jobs?queue=nothing"].map(str::to_owned);
    let pages: Vec<_> =
        PAGES.map(str::to_owned).into_iter().chain(job_pages).chain(others).collect();
    for scheme in ["light", "dark"] {
        browser.prefer(scheme);
        for path in &pages {
            browser.goto(&site.url(path));
            assert_eq!(browser.run(&script), json!([]), "{scheme} {path}");
            // A row under the pointer has another background.
            browser.run("document.querySelectorAll('tbody tr').forEach((row) => row.style.background = 'var(--hover)')");
            assert_eq!(browser.run(&script), json!([]), "{scheme} {path}, rows under the pointer");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_navigation_and_the_tabs_stay_in_place_whichever_is_active() {
    let Some(browser) = Browser::start() else { return };
    let site = Site::start().await;
    fill(&site).await;
    let places = |path: &str, css: &str| {
        browser.goto(&site.url(path));
        let lefts = "return [...document.querySelectorAll(CSS)].map((it) => it.getBoundingClientRect().left)";
        browser.run(&lefts.replace("CSS", &json!(css).to_string()))
    };
    let first = places("/", "header nav a");
    for path in ["/queues", "/jobs", "/dead", "/schedules", "/workers", "/audit"] {
        assert_eq!(places(path, "header nav a"), first, "{path}");
    }
    let first = places("/jobs", ".tabs a");
    for state in ["scheduled", "blocked", "completed", "dead"] {
        assert_eq!(places(&format!("/jobs?state={state}"), ".tabs a"), first, "{state}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn no_table_is_wider_than_its_card_on_a_desktop() {
    let Some(browser) = Browser::start() else { return };
    let site = Site::start().await;
    fill(&site).await;
    let wide = "return [...document.querySelectorAll('.scroll')].filter((it) => it.scrollWidth > it.clientWidth).length";
    for path in PAGES {
        browser.goto(&site.url(path));
        assert_eq!(browser.run(wide), json!(0), "{path}");
    }
    browser.goto(&site.url("/queues/mail"));
    for badge in ["kind paused", "no permits", "breaker open", "limit reached"] {
        browser.until_says("#live", badge);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn errors_show_their_cause_and_keep_their_lines() {
    let Some(browser) = Browser::start() else { return };
    let site = Site::start().await;
    let dead = fill(&site).await.dead;
    let cause = TRACEBACK.lines().last().unwrap();
    for path in ["/dead", "/jobs"] {
        browser.goto(&site.url(path));
        let shown = browser.run(&format!(
            "return document.querySelector('tr[data-key=\"{dead}\"] .error').innerText"
        ));
        assert_eq!(shown, json!(format!("smtp_550: … {cause}")), "{path}");
    }
    browser.goto(&site.url(&format!("/jobs/{dead}")));
    browser.click("details.error summary");
    for css in ["details.error pre", ".trouble pre"] {
        let shown = browser.run(&format!("return document.querySelector('{css}').innerText"));
        assert_eq!(shown, json!(TRACEBACK), "{css}");
    }
    assert_eq!(browser.complaints(), Vec::<Value>::new());
}
