//! A history as a sequence diagram: one lane for each client and machine, time downwards, the
//! entries that prove a verdict marked. SVG without scripts, links or fonts of its own.
//!
//! Only what helps is drawn ([`choice`]): what proves a verdict, what the world did, and what
//! surrounds both.

mod choice;
mod words;

use std::collections::BTreeMap;
use std::fmt::Write as _;

use crate::check::Verdict;
use crate::event::{Entry, Event, Mark};
use crate::value::Name;
use choice::Row;

/// Names an API by its key.
pub type ApiName = fn(i16) -> String;

const ROW: usize = 22;
const TIME_WIDTH: usize = 84;
const LANE_WIDTH: usize = 104;
const TEXT_WIDTH: usize = 760;
/// Characters of a row's text: what fits its column.
const TEXT_CHARS: usize = 108;
/// Verdicts told above the diagram.
pub(crate) const MAX_VERDICTS: usize = 5;
const STYLE: &str = "\
text{font:12px ui-monospace,Menlo,Consolas,monospace;fill:#1d2733}\
.head{font-weight:600}.lane{stroke:#c3ccd6;stroke-width:1}.dead{stroke:#fff;stroke-width:3}\
.deadline{stroke:#c0392b;stroke-width:1;stroke-dasharray:2 4}.time{fill:#5b6b7b}\
.op{stroke:#2f6fb3;stroke-width:5;stroke-linecap:round;opacity:.55}.dot{fill:#2f6fb3}\
.ask{stroke:#2f6fb3;stroke-width:1.2}.answer{stroke:#2d8a57;stroke-width:1.2;stroke-dasharray:5 3}\
.fault{fill:#fdeccb}.faulttext{fill:#7a4a00;font-weight:600}.heal{fill:#dff3e6}\
.proof{fill:#fbdcd8}.prooftext{fill:#a3190f;font-weight:600}.ring{fill:none;stroke:#a3190f;stroke-width:2}\
.gap{fill:#8696a5;font-style:italic}";

/// Draws `entries`, which led to `verdicts`.
pub fn svg(title: &str, entries: &[Entry], verdicts: &[Verdict], api: ApiName) -> String {
    let told: Vec<&Verdict> = verdicts.iter().take(MAX_VERDICTS).collect();
    let rows = choice::choose(entries, &told);
    let lanes = lanes(entries, &rows);
    Drawing {
        entries,
        told: &told,
        untold: verdicts.len() - told.len(),
        rows: &rows,
        lanes: &lanes,
        api,
    }
    .draw(title)
}

/// The lanes, from left to right: clients as they come, then machines.
fn lanes(entries: &[Entry], rows: &[Row]) -> Vec<Name> {
    let mut clients: Vec<Name> = Vec::new();
    let mut machines: Vec<Name> = Vec::new();
    let add = |all: &mut Vec<Name>, name: &Name| {
        if !all.contains(name) {
            all.push(name.clone());
        }
    };
    for row in rows {
        let Row::Entry(at) = row else { continue };
        let Some(entry) = entries.get(*at) else {
            continue;
        };
        match &entry.event {
            Event::Mark(Mark::Crash { node } | Mark::Start { node })
            | Event::Memory { node, .. } => add(&mut machines, node),
            Event::Mark(Mark::ClientCrash { client }) => add(&mut clients, client),
            Event::Mark(_) => {}
            Event::Asked { .. } | Event::Answered { .. } => {
                add(&mut clients, &entry.who);
                add(&mut machines, &words::broker());
            }
            _ => add(&mut clients, &entry.who),
        }
    }
    machines.sort();
    clients.extend(machines);
    clients
}

struct Drawing<'d> {
    entries: &'d [Entry],
    told: &'d [&'d Verdict],
    untold: usize,
    rows: &'d [Row],
    lanes: &'d [Name],
    api: ApiName,
}

impl Drawing<'_> {
    fn x(&self, lane: &Name) -> Option<usize> {
        let at = self.lanes.iter().position(|one| one == lane)?;
        Some(TIME_WIDTH + at * LANE_WIDTH + LANE_WIDTH / 2)
    }

    fn text_x(&self) -> usize {
        TIME_WIDTH + self.lanes.len() * LANE_WIDTH + 16
    }

    fn top(&self) -> usize {
        60 + ROW * (self.told.len() + usize::from(self.untold > 0)) + ROW
    }

    fn y(&self, row: usize) -> usize {
        self.top() + ROW * row + ROW / 2
    }

    fn draw(&self, title: &str) -> String {
        let width = self.text_x() + TEXT_WIDTH;
        let height = self.y(self.rows.len()) + ROW;
        let mut out = String::new();
        let _ = write!(
            out,
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" \
             width=\"{width}\" height=\"{height}\" role=\"img\"><title>{}</title><style>{STYLE}</style>\
             <defs><marker id=\"a\" viewBox=\"0 0 8 8\" refX=\"7\" refY=\"4\" markerWidth=\"7\" \
             markerHeight=\"7\" orient=\"auto\"><path d=\"M0 0 8 4 0 8z\" fill=\"#44546a\"/></marker></defs>\
             <rect width=\"{width}\" height=\"{height}\" fill=\"#fff\"/>",
            escaped(title)
        );
        text(&mut out, 12, 26, "head", title);
        self.verdicts(&mut out);
        self.bands(&mut out);
        self.lifelines(&mut out);
        self.operations(&mut out);
        for (row, what) in self.rows.iter().enumerate() {
            match what {
                Row::Entry(at) => self.entry(&mut out, row, *at),
                Row::Gap(count) => {
                    let words = format!("… {count} more entries");
                    text(&mut out, self.text_x(), self.y(row) + 4, "gap", &words);
                }
            }
        }
        out.push_str("</svg>\n");
        out
    }

    fn verdicts(&self, out: &mut String) {
        for (number, verdict) in self.told.iter().enumerate() {
            let words = format!("{}. {verdict}", number + 1);
            text(
                out,
                12,
                26 + ROW * (number + 1),
                "prooftext",
                &shortened(&words, 190),
            );
        }
        if self.untold > 0 {
            let words = format!("and {} more", self.untold);
            text(
                out,
                12,
                26 + ROW * (self.told.len() + 1),
                "prooftext",
                &words,
            );
        }
        if self.told.is_empty() {
            text(
                out,
                12,
                26 + ROW,
                "time",
                "nothing is wrong with this history",
            );
        }
    }

    /// The verdicts that an entry proves, by their number.
    fn proves(&self, at: usize) -> Vec<usize> {
        let numbered = self.told.iter().enumerate();
        numbered
            .filter(|(_, verdict)| verdict.proof.contains(&at))
            .map(|(number, _)| number + 1)
            .collect()
    }

    /// Backgrounds: faults, the heal, proofs.
    fn bands(&self, out: &mut String) {
        let width = self.text_x() + TEXT_WIDTH;
        for (row, what) in self.rows.iter().enumerate() {
            let Row::Entry(at) = what else { continue };
            let class = match self.entries.get(*at).map(|entry| &entry.event) {
                _ if !self.proves(*at).is_empty() => "proof",
                Some(Event::Mark(Mark::Heal | Mark::Start { .. })) => "heal",
                Some(Event::Mark(
                    Mark::Fault { .. } | Mark::Crash { .. } | Mark::ClientCrash { .. },
                )) => "fault",
                _ => continue,
            };
            let y = self.y(row) - ROW / 2;
            let _ = write!(
                out,
                "<rect class=\"{class}\" y=\"{y}\" width=\"{width}\" height=\"{ROW}\"/>"
            );
        }
    }

    fn lifelines(&self, out: &mut String) {
        let (top, bottom) = (self.top() - 6, self.y(self.rows.len()));
        for lane in self.lanes {
            let Some(x) = self.x(lane) else { continue };
            let name = shortened(lane.as_str(), LANE_WIDTH / 8);
            let _ = write!(
                out,
                "<text class=\"head\" x=\"{x}\" y=\"{}\" text-anchor=\"middle\">{}</text>\
                 <line class=\"lane\" x1=\"{x}\" y1=\"{top}\" x2=\"{x}\" y2=\"{bottom}\"/>",
                top - 8,
                escaped(&name)
            );
            for (from, to) in self.deaths(lane) {
                let (from, to) = (self.y(from), to.map_or(bottom, |to| self.y(to)));
                let _ = write!(
                    out,
                    "<line class=\"dead\" x1=\"{x}\" y1=\"{from}\" x2=\"{x}\" y2=\"{to}\"/>\
                     <line class=\"deadline\" x1=\"{x}\" y1=\"{from}\" x2=\"{x}\" y2=\"{to}\"/>\
                     <path class=\"ring\" d=\"M{} {}l10 10m0-10l-10 10\"/>",
                    x - 5,
                    from - 5
                );
            }
        }
    }

    /// The rows between which a lane's machine or client is gone.
    fn deaths(&self, lane: &Name) -> Vec<(usize, Option<usize>)> {
        let mut deaths: Vec<(usize, Option<usize>)> = Vec::new();
        for (row, what) in self.rows.iter().enumerate() {
            let Row::Entry(at) = what else { continue };
            match self.entries.get(*at).map(|entry| &entry.event) {
                Some(Event::Mark(Mark::Crash { node } | Mark::ClientCrash { client: node }))
                    if node == lane =>
                {
                    deaths.push((row, None));
                }
                Some(Event::Mark(Mark::Start { node })) if node == lane => {
                    if let Some((_, end @ None)) = deaths.last_mut() {
                        *end = Some(row);
                    }
                }
                _ => {}
            }
        }
        deaths
    }

    /// A bar beside the lane for each operation both ends of which are drawn.
    fn operations(&self, out: &mut String) {
        let mut begun = BTreeMap::new();
        for (row, what) in self.rows.iter().enumerate() {
            let Row::Entry(at) = what else { continue };
            let Some(entry) = self.entries.get(*at) else {
                continue;
            };
            match &entry.event {
                Event::Invoke { op, .. } => {
                    begun.insert(*op, row);
                }
                Event::Ok { op, .. } | Event::Fail { op, .. } | Event::Unknown { op, .. } => {
                    let (Some(from), Some(x)) = (begun.remove(op), self.x(&entry.who)) else {
                        continue;
                    };
                    let (from, to) = (self.y(from), self.y(row));
                    let _ = write!(
                        out,
                        "<line class=\"op\" x1=\"{x}\" y1=\"{from}\" x2=\"{x}\" y2=\"{to}\"/>"
                    );
                }
                _ => {}
            }
        }
    }

    fn entry(&self, out: &mut String, row: usize, at: usize) {
        let Some(entry) = self.entries.get(at) else {
            return;
        };
        let y = self.y(row);
        let seconds = format!("{}.{:03}", entry.at_ms / 1_000, entry.at_ms % 1_000);
        let _ = write!(
            out,
            "<text class=\"time\" x=\"{}\" y=\"{}\" text-anchor=\"end\">{seconds}</text>",
            TIME_WIDTH - 12,
            y + 4
        );
        self.sign(out, entry, y);
        let proves = self.proves(at);
        let mut words = words::of(entry, self.api);
        let class = match &entry.event {
            _ if !proves.is_empty() => {
                let numbers: Vec<_> = proves.iter().map(ToString::to_string).collect();
                words = format!("[{}] {words}", numbers.join(","));
                "prooftext"
            }
            Event::Mark(Mark::Fault { .. } | Mark::Crash { .. } | Mark::ClientCrash { .. }) => {
                "faulttext"
            }
            _ => "",
        };
        if !proves.is_empty()
            && let Some(x) = self.x(&entry.who)
        {
            let _ = write!(
                out,
                "<circle class=\"ring\" cx=\"{x}\" cy=\"{y}\" r=\"8\"/>"
            );
        }
        text(
            out,
            self.text_x(),
            y + 4,
            class,
            &shortened(&words, TEXT_CHARS),
        );
    }

    /// The sign on the lanes: an arrow for what crosses the network, a dot for what doesn't.
    fn sign(&self, out: &mut String, entry: &Entry, y: usize) {
        let Some(x) = self.x(&entry.who) else { return };
        let other = self.x(&words::broker());
        let arrow = match (&entry.event, other) {
            (Event::Asked { .. }, Some(other)) => Some(("ask", x, other)),
            (Event::Answered { .. }, Some(other)) => Some(("answer", other, x)),
            _ => None,
        };
        let _ = match arrow {
            Some((class, from, to)) => write!(
                out,
                "<line class=\"{class}\" x1=\"{from}\" y1=\"{y}\" x2=\"{to}\" y2=\"{y}\" \
                 marker-end=\"url(#a)\"/>"
            ),
            None => write!(out, "<circle class=\"dot\" cx=\"{x}\" cy=\"{y}\" r=\"4\"/>"),
        };
    }
}

fn text(out: &mut String, x: usize, y: usize, class: &str, words: &str) {
    let _ = write!(
        out,
        "<text class=\"{class}\" x=\"{x}\" y=\"{y}\">{}</text>",
        escaped(words)
    );
}

fn shortened(words: &str, chars: usize) -> String {
    if words.chars().count() <= chars {
        return words.to_owned();
    }
    let mut short: String = words.chars().take(chars.saturating_sub(1)).collect();
    short.push('…');
    short
}

fn escaped(words: &str) -> String {
    let mut out = String::with_capacity(words.len());
    for character in words.chars() {
        match character {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            // XML has no way to write these.
            control if control.is_control() => out.push('\u{fffd}'),
            other => out.push(other),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::check;
    use crate::check::testing::Story;
    use crate::event::Event;

    fn number(key: i16) -> String {
        format!("api {key}")
    }

    #[test]
    fn a_drawing_shows_verdicts_their_proof_and_what_the_world_did() {
        let mut story = Story::acknowledged_many(2);
        let node: Name = "facade".into();
        story.event("world", Event::Mark(Mark::Crash { node: node.clone() }));
        story.event("world", Event::Mark(Mark::Start { node }));
        story.log(&[(0, 0)]);
        let drawn = svg("a & b", story.entries(), &check(story.entries()), number);
        for expected in [
            "<title>a &amp; b</title>",
            "1. lost-write: 1-1 was acknowledged",
            "class=\"ring\"",
            ">facade<",
            ">p<",
            "[1] ",
        ] {
            assert!(drawn.contains(expected), "{expected} in {drawn}");
        }
        assert_eq!(
            drawn.matches("<text").count(),
            drawn.matches("</text>").count()
        );
    }

    #[test]
    fn a_long_history_makes_a_short_drawing() {
        let mut story = Story::acknowledged_many(1);
        for offset in 1..3_000 {
            story.polled("r", offset - 1, offset, &[(offset - 1, 0)]);
        }
        let drawn = svg("long", story.entries(), &check(story.entries()), number);
        assert!(drawn.len() < 200_000, "{}", drawn.len());
        assert!(drawn.contains("more entries"));
    }

    #[test]
    fn nothing_in_a_history_becomes_markup() {
        let mut story = Story::acknowledged();
        let what = "<script>\u{0}".to_owned();
        story.event("p", Event::Malformed { what });
        let drawn = svg("t", story.entries(), &check(story.entries()), number);
        assert!(!drawn.contains("<script>") && !drawn.contains('\u{0}'));
    }
}
