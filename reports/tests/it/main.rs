//! Renderings, from outside: every form of a report, and the page in a real browser.

mod browser;
mod renderings;
mod sample;
mod webdriver;
