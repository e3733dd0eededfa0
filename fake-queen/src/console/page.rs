//! The page as HTML. Every list is a table that becomes cards on a narrow screen.

use super::html::{bytes, count, query_value, text};
use super::view::{Asked, GroupLine, KvLine, LaneLine, PAGE_ROWS, QueueLine, View};

const STYLE: &str = include_str!("style.css");

/// One cell: its class, and what is in it.
type Cell = (&'static str, String);

/// Renders.
pub fn render(view: &View, asked: &Asked) -> String {
    let mut out = String::with_capacity(32 << 10);
    out.push_str("<!doctype html><html lang=\"en\"><head><meta charset=\"utf-8\">");
    out.push_str("<meta name=\"viewport\" content=\"width=device-width,initial-scale=1\">");
    out.push_str("<link rel=\"icon\" href=\"data:,\"><title>Queen console</title><style>");
    out.push_str(STYLE);
    out.push_str("</style></head><body><main>");
    head(&mut out, view);
    queues(&mut out, view, asked);
    lanes(&mut out, view, asked);
    groups(&mut out, view, asked);
    keys(&mut out, view, asked);
    out.push_str("</main></body></html>");
    out
}

fn escaped(from: &str) -> String {
    let mut out = String::with_capacity(from.len());
    text(&mut out, from);
    out
}

fn code(from: &str) -> String {
    format!("<code>{}</code>", escaped(from))
}

fn number(value: u64) -> Cell {
    // What isn't there is quieter than what is.
    (if value == 0 { "n z" } else { "n" }, count(value))
}

/// A number that is told even when it is zero.
fn shown(value: u64) -> Cell {
    (if value == 0 { "n q" } else { "n" }, count(value))
}

fn size(value: u64) -> Cell {
    (number(value).0, bytes(value))
}

fn offset(value: i64) -> Cell {
    // Offsets are never negative.
    shown(u64::try_from(value).unwrap_or(0))
}

fn instant(at: &str) -> Cell {
    // To the second: `2026-01-02T03:04:05.678Z`.
    let seconds = at.get(..19).unwrap_or(at).replacen('T', " ", 1);
    ("t", seconds)
}

/// A link that keeps what else is chosen, and leads to a section.
fn link(asked: &Asked, section: &str, shown: &str) -> String {
    let mut href = String::from("?");
    let mut put = |name: &str, value: &str| {
        if href.len() > 1 {
            href.push_str("&amp;");
        }
        href.push_str(name);
        href.push('=');
        query_value(&mut href, value);
    };
    for (name, from) in [
        ("queues", asked.queues_from),
        ("lanes", asked.lanes_from),
        ("groups", asked.groups_from),
    ] {
        if from > 0 {
            put(name, &from.to_string());
        }
    }
    for (name, value) in [
        ("queue", &asked.queue),
        ("ns", &asked.namespace),
        ("keys", &asked.keys_after),
    ] {
        if let Some(value) = value {
            put(name, value);
        }
    }
    format!("<a href=\"{href}#{section}\">{shown}</a>")
}

fn head(out: &mut String, view: &View) {
    out.push_str("<header><h1>Queen</h1><p>");
    out.push_str(view.version);
    out.push_str(" · storage: ");
    text(out, &view.storage);
    out.push_str(" · ");
    out.push_str(&instant(&view.now).1);
    out.push_str(" UTC</p>");
    if !view.healthy {
        out.push_str("<p class=\"bad\">The store failed: nothing can be written.</p>");
    }
    out.push_str("</header><dl>");
    for (name, value) in [
        ("Queues", count(view.queues.total as u64)),
        ("Lanes", count(view.lanes_total)),
        ("Records", count(view.records)),
        ("Retained", bytes(view.bytes)),
        ("Groups", count(view.groups.total as u64)),
        ("KV rows", count(view.kv_rows)),
    ] {
        out.push_str("<div><dt>");
        out.push_str(name);
        out.push_str("</dt><dd>");
        out.push_str(&value);
        out.push_str("</dd></div>");
    }
    out.push_str("</dl>");
}

fn title(out: &mut String, section: &str, heading: &str, note: &str) {
    out.push_str("<section id=\"");
    out.push_str(section);
    out.push_str("\"><div><h2>");
    out.push_str(heading);
    out.push_str("</h2><p class=\"note\">");
    out.push_str(note);
    out.push_str("</p></div>");
}

fn table(out: &mut String, columns: &[&str], rows: impl Iterator<Item = (bool, Vec<Cell>)>) {
    out.push_str("<div class=\"scroll\"><table><thead><tr>");
    let mut rows = rows.peekable();
    let classes: Vec<&str> = rows
        .peek()
        .map(|(_, cells)| cells.iter().map(|(class, _)| *class).collect())
        .unwrap_or_default();
    for (at, column) in columns.iter().enumerate() {
        let class = classes.get(at).copied().unwrap_or_default();
        out.push_str(if class.starts_with('n') {
            "<th class=\"n\">"
        } else {
            "<th>"
        });
        out.push_str(column);
        out.push_str("</th>");
    }
    out.push_str("</tr></thead><tbody>");
    for (chosen, cells) in rows {
        out.push_str(if chosen { "<tr class=\"on\">" } else { "<tr>" });
        for (column, (class, cell)) in columns.iter().zip(cells) {
            out.push_str("<td class=\"");
            out.push_str(class);
            out.push_str("\" data-of=\"");
            out.push_str(column);
            out.push_str("\">");
            out.push_str(&cell);
            out.push_str("</td>");
        }
        out.push_str("</tr>");
    }
    out.push_str("</tbody></table></div>");
}

fn empty(out: &mut String, sentence: &str) {
    out.push_str("<p class=\"empty\">");
    out.push_str(sentence);
    out.push_str("</p></section>");
}

/// The links to other screenfuls, and the end of the section.
fn pages(out: &mut String, first: Option<String>, next: Option<String>) {
    if first.is_some() || next.is_some() {
        out.push_str("<nav>");
        out.push_str(&first.unwrap_or_default());
        out.push_str(&next.unwrap_or_default());
        out.push_str("</nav>");
    }
    out.push_str("</section>");
}

fn queues(out: &mut String, view: &View, asked: &Asked) {
    let note = format!("{} in all, newest first", count(view.queues.total as u64));
    title(out, "queues", "Queues", &note);
    if view.queues.rows.is_empty() {
        return empty(out, "No queue here yet. A push makes one.");
    }
    let columns = [
        "Queue",
        "Lanes",
        "Records",
        "Pending",
        "In process",
        "Dead letters",
        "Retained",
        "Created",
    ];
    let row = |queue: &QueueLine| {
        let to = Asked {
            queue: Some(queue.name.clone()),
            lanes_from: 0,
            ..asked.clone()
        };
        let cells = vec![
            ("", link(&to, "lanes", &code(&queue.name))),
            number(queue.lanes as u64),
            number(queue.records),
            number(queue.pending),
            number(queue.processing),
            number(queue.dead_letters as u64),
            size(queue.bytes),
            instant(&queue.created),
        ];
        (view.queue.as_ref() == Some(&queue.name), cells)
    };
    table(out, &columns, view.queues.rows.iter().map(row));
    let page = |from| Asked {
        queues_from: from,
        queue: None,
        lanes_from: 0,
        ..asked.clone()
    };
    let first = (asked.queues_from > 0).then(|| link(&page(0), "queues", "Newest queues"));
    let more = view.queues.more;
    let next = more.then(|| {
        link(
            &page(asked.queues_from + PAGE_ROWS),
            "queues",
            "Older queues",
        )
    });
    pages(out, first, next);
}

fn lanes(out: &mut String, view: &View, asked: &Asked) {
    let Some(queue) = &view.queue else {
        return;
    };
    let heading = format!("Lanes of {}", code(queue));
    let total = count(view.lanes.total as u64);
    title(out, "lanes", &heading, &format!("{total} in all"));
    if view.lanes.rows.is_empty() {
        return empty(out, "No lane here yet. The first push to one makes it.");
    }
    let columns = [
        "Lane",
        "Log start",
        "High watermark",
        "Segments",
        "Retained",
        "Last append",
    ];
    let row = |lane: &LaneLine| {
        let cells = vec![
            ("", code(&lane.name)),
            offset(lane.log_start),
            offset(lane.high_watermark),
            number(lane.segments),
            size(lane.bytes),
            instant(&lane.last_append),
        ];
        (false, cells)
    };
    table(out, &columns, view.lanes.rows.iter().map(row));
    let page = |from| Asked {
        queue: Some(queue.clone()),
        lanes_from: from,
        ..asked.clone()
    };
    let first = (asked.lanes_from > 0).then(|| link(&page(0), "lanes", "First lanes"));
    let more = view.lanes.more;
    let next = more.then(|| link(&page(asked.lanes_from + PAGE_ROWS), "lanes", "More lanes"));
    pages(out, first, next);
}

fn groups(out: &mut String, view: &View, asked: &Asked) {
    let note = format!(
        "{} in all, one row per queue",
        count(view.groups.total as u64)
    );
    title(out, "groups", "Consumer groups", &note);
    if view.groups.rows.is_empty() {
        return empty(out, "No group has consumed or committed anything yet.");
    }
    let columns = [
        "Group", "Kind", "Queue", "Lanes", "Lagging", "Leased", "Lag",
    ];
    let row = |group: &GroupLine| {
        let lag = match group.lag {
            0 => shown(0),
            lag => ("n", format!("<span class=\"lag\">{}</span>", count(lag))),
        };
        let cells = vec![
            ("", code(&group.name)),
            (
                "",
                format!("<span class=\"chip\">{}</span>", group.kind.text()),
            ),
            ("", code(&group.queue)),
            number(group.lanes as u64),
            number(group.lagging as u64),
            number(group.leased as u64),
            lag,
        ];
        (false, cells)
    };
    table(out, &columns, view.groups.rows.iter().map(row));
    let page = |from| Asked {
        groups_from: from,
        ..asked.clone()
    };
    let first = (asked.groups_from > 0).then(|| link(&page(0), "groups", "First groups"));
    let more = view.groups.more;
    let next = more.then(|| {
        link(
            &page(asked.groups_from + PAGE_ROWS),
            "groups",
            "More groups",
        )
    });
    pages(out, first, next);
}

fn keys(out: &mut String, view: &View, asked: &Asked) {
    let rows = count(view.kv_rows);
    let note = format!("{rows} rows in all, {}", bytes(view.kv_bytes));
    title(out, "rows", "Key-value rows", &note);
    if view.namespaces.len() > 1 || asked.namespace.is_some() {
        out.push_str("<nav class=\"top\">");
        for (name, rows) in &view.namespaces {
            let shown = format!("{} ({})", code(name), count(*rows as u64));
            if view.namespace.as_ref() == Some(name) {
                out.push_str(&format!("<b>{shown}</b>"));
                continue;
            }
            let to = Asked {
                namespace: Some(name.clone()),
                keys_after: None,
                ..asked.clone()
            };
            out.push_str(&link(&to, "rows", &shown));
        }
        out.push_str("</nav>");
    }
    if view.keys.rows.is_empty() {
        return empty(out, "No row here.");
    }
    let row = |row: &KvLine| {
        let expires = row.expires.as_ref();
        let cells = vec![
            ("", code(&row.key)),
            ("", code(&row.value)),
            ("n", row.version.to_string()),
            instant(&row.updated),
            expires.map_or(("t", "never".to_owned()), |at| instant(at)),
        ];
        (false, cells)
    };
    let columns = ["Key", "Value", "Version", "Updated", "Expires"];
    table(out, &columns, view.keys.rows.iter().map(row));
    let page = |after: Option<String>| Asked {
        namespace: view.namespace.clone(),
        keys_after: after,
        ..asked.clone()
    };
    let first = asked
        .keys_after
        .as_ref()
        .map(|_| link(&page(None), "rows", "First rows"));
    let last = view.keys.rows.last().filter(|_| view.keys.more);
    let next = last.map(|row| link(&page(Some(row.key.clone())), "rows", "More rows"));
    pages(out, first, next);
}
