//! `index.html`: one self-contained page. It asks for nothing, so it opens from a disk, from a mail
//! and from an archive; its data is JSON inside an inert element.

use serde::Serialize;

use crate::check::Check;
use crate::run::Run;

const PAGE: &str = include_str!("page/index.html");
const STYLE: &str = include_str!("page/style.css");
const SCRIPT: &str = include_str!("page/app.js");

#[derive(Serialize)]
struct Data<'a> {
    run: &'a Run,
    checks: &'a [Check],
}

/// The page.
pub fn render(run: &Run, checks: &[Check]) -> String {
    // Runs and checks are structs of strings, numbers and JSON values: they always have a JSON form.
    let data = serde_json::to_string(&Data { run, checks }).unwrap_or_default();
    let mut page = String::with_capacity(PAGE.len() + STYLE.len() + SCRIPT.len() + data.len());
    let mut rest = PAGE;
    // One pass over the template: a mark inside the data stays data.
    for (mark, text) in [
        (
            "{{title}}",
            &*html_text(&format!("Kafka compatibility of {}", run.target)),
        ),
        ("{{style}}", STYLE),
        ("{{data}}", &*inert_json(&data)),
        ("{{script}}", SCRIPT),
    ] {
        let (before, after) = rest.split_once(mark).unwrap_or((rest, ""));
        page.push_str(before);
        page.push_str(text);
        rest = after;
    }
    page.push_str(rest);
    page
}

/// JSON that no HTML parser can mistake for markup, and that is still the same JSON: these characters
/// only occur inside JSON strings.
fn inert_json(json: &str) -> String {
    let mut text = String::with_capacity(json.len());
    for character in json.chars() {
        match character {
            '<' => text.push_str("\\u003c"),
            '>' => text.push_str("\\u003e"),
            '&' => text.push_str("\\u0026"),
            '\u{2028}' => text.push_str("\\u2028"),
            '\u{2029}' => text.push_str("\\u2029"),
            other => text.push(other),
        }
    }
    text
}

fn html_text(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
}
