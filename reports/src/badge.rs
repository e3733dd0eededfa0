//! Badges: one small SVG that says how a target does.

use crate::summary::Counts;

/// What a badge says at a glance.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mood {
    /// Everything is as expected.
    Good,
    /// Something is not.
    Bad,
}

impl Mood {
    const fn colour(self) -> &'static str {
        match self {
            Self::Good => "#2e7d32",
            Self::Bad => "#c62828",
        }
    }
}

/// The badge of a target: how many checks passed, or how many ended unexpectedly.
pub fn of_counts(target: &str, counts: &Counts) -> String {
    if counts.unexpected > 0 {
        render(
            target,
            &format!("{} unexpected", counts.unexpected),
            Mood::Bad,
        )
    } else if counts.pass == 0 {
        // Nothing that ran is nothing to be proud of.
        render(target, "nothing ran", Mood::Bad)
    } else {
        render(target, &format!("{} pass", counts.pass), Mood::Good)
    }
}

/// A badge with a grey left and a coloured right half.
pub fn render(left: &str, right: &str, mood: Mood) -> String {
    let (left_px, right_px) = (width_px(left), width_px(right));
    let whole = left_px + right_px;
    let (left_at, right_at) = (left_px / 2, left_px + right_px / 2);
    let (left, right) = (escape(left), escape(right));
    let colour = mood.colour();
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{whole}\" height=\"20\" role=\"img\" aria-label=\"{left}: {right}\">\
         <title>{left}: {right}</title>\
         <rect width=\"{left_px}\" height=\"20\" fill=\"#555\"/>\
         <rect x=\"{left_px}\" width=\"{right_px}\" height=\"20\" fill=\"{colour}\"/>\
         <g fill=\"#fff\" text-anchor=\"middle\" font-family=\"Verdana,sans-serif\" font-size=\"11\">\
         <text x=\"{left_at}\" y=\"14\">{left}</text><text x=\"{right_at}\" y=\"14\">{right}</text></g></svg>\n"
    )
}

/// About what a browser's text of this size takes, with its margins.
fn width_px(text: &str) -> usize {
    text.chars().count() * 7 + 12
}

fn escape(text: &str) -> String {
    text.chars()
        .filter(|character| !character.is_control())
        .map(|character| match character {
            '&' => "&amp;".to_owned(),
            '<' => "&lt;".to_owned(),
            '>' => "&gt;".to_owned(),
            '"' => "&quot;".to_owned(),
            other => other.to_string(),
        })
        .collect()
}
