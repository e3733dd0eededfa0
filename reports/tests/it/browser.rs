//! The page in a real Chromium.
//!
//! Where none is installed the test says so and proves nothing; where `CI` is set that is a failure.

use serde_json::Value;

use crate::sample::{NASTY, check, checks, run};
use crate::webdriver::{Browser, programs};
use reports::{Check, Outcome, html};

/// Pictures are left here, as base64 of PNGs, when this variable names a folder.
const PICTURES: &str = "REPORT_PICTURES";

fn browser(width: u32, height: u32, dark: bool) -> Option<Browser> {
    match programs() {
        Ok(programs) => Some(Browser::start(programs, width, height, dark)),
        Err(why) => {
            assert!(
                std::env::var_os("CI").is_none(),
                "no browser to test the page with: {why}"
            );
            eprintln!("skipped, the page was not tested in a browser: {why}");
            None
        }
    }
}

/// Writes the page to a folder and answers its address.
fn page(folder: &tempfile::TempDir, checks: &[Check]) -> String {
    let path = folder.path().join("index.html");
    std::fs::write(&path, html::render(&run(), checks)).unwrap();
    format!("file://{}", path.display())
}

fn shown(browser: &Browser) -> Vec<String> {
    let ids = browser
        .run("return [...document.querySelectorAll('#list details')].map(d => d.dataset.id)");
    ids.as_array()
        .unwrap()
        .iter()
        .map(|id| id.as_str().unwrap().to_owned())
        .collect()
}

fn text(browser: &Browser, selector: &str) -> String {
    let script = format!("return document.querySelector('{selector}').textContent");
    browser.run(&script).as_str().unwrap().to_owned()
}

/// Asks until the page answers as expected: what a key or a click sets off, a browser does a moment
/// later. Each question is a round trip of milliseconds.
fn comes_to(browser: &Browser, script: &str, expected: u64) {
    const QUESTIONS: usize = 1_000;
    let last = (0..QUESTIONS)
        .map(|_| browser.run(script))
        .find(|answer| *answer == expected);
    assert!(last.is_some(), "{script} never came to {expected}");
}

fn keep_picture(browser: &Browser, name: &str) {
    if let Some(folder) = std::env::var_os(PICTURES) {
        let path = std::path::Path::new(&folder).join(format!("{name}.b64"));
        std::fs::write(path, browser.picture()).unwrap();
    }
}

#[test]
fn the_page_works_in_a_browser() {
    let Some(browser) = browser(1280, 1000, false) else {
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    let url = page(&folder, &checks());
    browser.open(&url);

    // Unexpected outcomes come first, and text stays text.
    assert_eq!(
        text(&browser, "#verdict"),
        "2 outcomes are unexpected. Show them"
    );
    assert_eq!(
        shown(&browser)[..2],
        ["wire/create-topics/v7/x", "wire/metadata/v9/topic"]
    );
    assert_eq!(
        browser.run("return document.querySelectorAll('#list b').length"),
        0
    );
    keep_picture(&browser, "desktop-light");

    // The grid: versions by outcome, gaps where nothing was seen.
    let cell = "return document.querySelector('tr[data-key=\"3\"] .cell').textContent";
    assert_eq!(
        browser.run(cell),
        "0123456789101112132 checks, 1 unexpected"
    );
    let worst = "return [...document.querySelectorAll('tr[data-key=\"0\"] .cell i')].slice(2, 5).map(i => i.className)";
    assert_eq!(
        browser.run(worst),
        serde_json::json!(["v none", "v pass", "v refused"])
    );
    assert!(
        text(&browser, "#unadvertised").contains("keys 4."),
        "{}",
        text(&browser, "#unadvertised")
    );

    // The filter: by text, by outcome, by what a click on a cell or a count chooses.
    browser.keys("#text", "KIP-516 topic");
    assert_eq!(shown(&browser), ["wire/metadata/v9/topic"]);
    assert_eq!(text(&browser, "#found"), "1 of 9 checks");
    assert!(
        browser
            .run("return location.hash")
            .as_str()
            .unwrap()
            .contains("text=kip-516")
    );
    browser.click("#reset");
    assert_eq!(shown(&browser).len(), 9);
    browser.click("#outcomes input[value=skipped]");
    assert_eq!(shown(&browser), ["wire/describe-acls/unwritten"]);
    browser.click("#outcomes input[value=unexpected]");
    assert_eq!(shown(&browser).len(), 3);
    browser.click("#reset");
    browser.click("tr[data-key='0'] td:nth-of-type(3) .cell");
    assert_eq!(shown(&browser), ["scenario/produce"]);
    assert_eq!(
        browser.run("return document.getElementById('client').value"),
        "librdkafka 2.12.1"
    );

    // Drill-down: frames in and out, and the first differing field marked in its frame.
    browser.open(&format!("{url}#check=wire%2Fmetadata%2Fv9%2Ftopic"));
    browser.run("location.reload()");
    comes_to(
        &browser,
        "return document.querySelectorAll('details[open] .exchange').length",
        2,
    );
    assert_eq!(
        text(&browser, "details[open] mark"),
        "\"3 UNKNOWN_TOPIC_OR_PARTITION\""
    );
    assert_eq!(
        text(&browser, "details[open] .diff dd:nth-of-type(3)"),
        NASTY
    );
    let second = "return [...document.querySelectorAll('details[open] .exchange')][1].textContent";
    assert!(browser.run(second).as_str().unwrap().contains("reset"));
    keep_picture(&browser, "desktop-check");

    // By keyboard alone: from the search field to the first check, which opens.
    browser.open(&url);
    browser.keys("#text", "acks-all");
    browser.run("document.querySelector('#list summary').focus()");
    browser.keys("#list summary", "\u{e007}");
    comes_to(
        &browser,
        "return document.querySelectorAll('details[open] .evidence').length",
        1,
    );

    assert_no_complaints_and_no_requests(&browser);
}

#[test]
fn the_page_fits_a_phone_in_the_dark() {
    let Some(browser) = browser(500, 900, true) else {
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    browser.open(&page(&folder, &checks()));
    let fits = "return document.documentElement.scrollWidth <= window.innerWidth";
    assert_eq!(browser.run(fits), true);
    let light = "return getComputedStyle(document.body.parentElement).backgroundColor";
    assert_eq!(
        browser.run(light),
        "rgb(22, 24, 28)",
        "the page is not dark"
    );
    keep_picture(&browser, "phone-dark");
    browser.click("#verdict button");
    browser.click("#list li:nth-child(2) summary");
    comes_to(
        &browser,
        "return document.querySelectorAll('details[open] mark').length",
        1,
    );
    assert_eq!(browser.run(fits), true, "evidence is wider than a phone");
    keep_picture(&browser, "phone-dark-check");
    assert_no_complaints_and_no_requests(&browser);
}

#[test]
fn a_long_list_comes_in_pages() {
    let Some(browser) = browser(1280, 900, true) else {
        return;
    };
    let many: Vec<Check> = (0..350)
        .map(|n| {
            check(
                &format!("wire/{n:03}"),
                "wire",
                (0, "Produce", &[3]),
                Outcome::Pass,
            )
        })
        .collect();
    let folder = tempfile::tempdir().unwrap();
    browser.open(&page(&folder, &many));
    assert_eq!(shown(&browser).len(), 100);
    for expected in [200, 300, 350] {
        browser.click("#more");
        assert_eq!(shown(&browser).len(), expected);
    }
    assert_eq!(
        browser.run("return document.getElementById('more').hidden"),
        true
    );
    keep_picture(&browser, "desktop-dark");
}

fn assert_no_complaints_and_no_requests(browser: &Browser) {
    assert_eq!(browser.log("browser"), Vec::<String>::new());
    let asked: Vec<String> = browser
        .log("performance")
        .iter()
        .filter_map(|message| {
            let message: Value = serde_json::from_str(message).unwrap();
            let event = &message["message"];
            (event["method"] == "Network.requestWillBeSent").then(|| {
                event["params"]["request"]["url"]
                    .as_str()
                    .unwrap_or_default()
                    .to_owned()
            })
        })
        // What the browser shows by itself (chrome:) and the page (file:, data:) are no network.
        .filter(|url| url.starts_with("http") || url.starts_with("ws"))
        .collect();
    assert_eq!(asked, Vec::<String>::new(), "the page asked the network");
}
