//! The pages: what they quote from the log exists in the code, what they name exists, and the list of
//! series is the one that is rendered.

use std::fmt::Write as _;
use std::path::Path;

use kafka_wire::ErrorCode;

use super::{PREFIX, families, read, root};

const METRICS: &str = "docs/facade/metrics.md";
const TROUBLE: &str = "docs/facade/troubleshooting.md";
const GUIDES: [&str; 5] = [
    "docs/facade/running.md",
    TROUBLE,
    "docs/facade/limits.md",
    "docs/facade/kubernetes.md",
    "docs/facade/kubernetes.yaml",
];

fn sources(folder: &Path, text: &mut String) {
    for entry in std::fs::read_dir(folder).expect("sources") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            sources(&path, text);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            text.push_str(&std::fs::read_to_string(&path).expect("text"));
        }
    }
}

/// The sources of what writes the log, with strings in one piece.
fn code() -> String {
    let mut text = String::new();
    for package in ["facade", "host", "coordinator"] {
        sources(
            &root().join("reference-impl").join(package).join("src"),
            &mut text,
        );
    }
    // `\` at the end of a line goes on with the next one.
    let mut joined = String::new();
    let mut pieces = text.split("\\\n");
    joined.extend(pieces.next());
    for piece in pieces {
        joined.push_str(piece.trim_start());
    }
    joined
}

/// What stands between backticks in `text`.
fn quoted(text: &str) -> Vec<&str> {
    text.split('`').skip(1).step_by(2).collect()
}

/// Whether a client hears this code by name.
fn is_error_code(word: &str) -> bool {
    (i16::MIN..=i16::MAX).any(|code| ErrorCode::from_code(code).is_some_and(|c| c.name() == word))
}

#[tokio::test(start_paused = true)]
async fn the_page_of_series_is_what_is_rendered() {
    let mut page = String::from(
        "# Series of queen-kafka\n\n\
         What `/metrics` on `QUEEN_KAFKA_HTTP_ADDR` renders. A test holds this page to the code; \
         `UPDATE_PAGES=1 cargo test -p facade the_page_of_series` writes it.\n\n\
         The series that begin with `queen_kafka_cluster_` exist in cluster mode only. The dashboard is\n\
         [grafana.json](grafana.json), the alerts are [alerts.yaml](alerts.yaml).\n\n\
         | Series | Kind | Labels | Meaning |\n|---|---|---|---|\n",
    );
    for (name, family) in families().await {
        let labels: Vec<&str> = family.labels.iter().map(String::as_str).collect();
        let labels = labels.iter().filter(|label| **label != "le");
        let labels = labels.map(|label| format!("`{label}`")).collect::<Vec<_>>();
        let (kind, help) = (&family.kind, family.help.trim_end_matches('.'));
        let _ = writeln!(
            page,
            "| `{name}` | {kind} | {} | {help} |",
            labels.join(", ")
        );
    }
    let path = root().join(METRICS);
    if std::env::var_os("UPDATE_PAGES").is_some() {
        std::fs::write(&path, &page).expect("written");
    }
    assert!(
        std::fs::read_to_string(path).unwrap_or_default() == page,
        "{METRICS} is stale"
    );
}

#[test]
fn what_troubleshooting_quotes_is_said_by_the_code() {
    let code = code();
    let says =
        |quote: &str| is_error_code(quote) || quote.starts_with(PREFIX) || code.contains(quote);
    let page = read(TROUBLE);
    let rows = page.lines().filter(|line| line.starts_with("| "));
    let symptoms = rows.filter_map(|row| row.split('|').nth(1));
    let quotes: Vec<&str> = symptoms.flat_map(quoted).collect();
    assert!(quotes.len() >= 60, "{}", quotes.len());
    let unsaid: Vec<&&str> = quotes.iter().filter(|quote| !says(quote)).collect();
    assert!(unsaid.is_empty(), "nobody says {unsaid:?}");
    assert!(
        !says("Queen is on holiday"),
        "a quote that nobody says is noticed"
    );
}

#[tokio::test(start_paused = true)]
async fn every_series_of_the_guides_exists() {
    let families = families().await;
    for name in GUIDES {
        let page = read(name);
        let quotes = page.lines().flat_map(quoted);
        for series in quotes.filter(|quote| quote.starts_with(PREFIX)) {
            // A family of series ends in an underscore.
            let is_known = series.ends_with('_') || families.contains_key(series);
            assert!(is_known, "{name}: there is no {series}");
        }
    }
}

#[test]
fn every_variable_and_link_of_the_guides_exists() {
    let variables = read("docs/facade/variables.md");
    for name in GUIDES {
        let page = read(name);
        let words =
            page.split(|c: char| !c.is_ascii_uppercase() && !c.is_ascii_digit() && c != '_');
        for word in words.filter(|word| word.starts_with("QUEEN_KAFKA_")) {
            // A family of variables ends in an underscore and a star.
            let is_known = word.ends_with('_') || variables.contains(&format!("`{word}`"));
            assert!(is_known, "{name}: there is no {word}");
        }
        let links = page
            .split("](")
            .skip(1)
            .filter_map(|rest| rest.split(')').next());
        for link in links.filter(|link| !link.contains("://")) {
            let path = link.split('#').next().unwrap_or_default();
            let target = root().join(name).with_file_name(path);
            assert!(
                path.is_empty() || target.exists(),
                "{name}: {link} leads nowhere"
            );
        }
    }
}
