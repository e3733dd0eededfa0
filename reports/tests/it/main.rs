//! Renderings, from outside: every form of a report, and the page in a real browser.

#![expect(
    clippy::unwrap_used,
    reason = "a helper of a test that cannot go on ends it"
)]

mod browser;
mod changes;
mod renderings;
mod sample;
mod schema;
mod webdriver;
