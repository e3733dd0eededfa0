//! Every form but the browser's.

use proptest::prelude::*;
use reports::summary::{Counts, ranges};
use reports::{Check, Outcome, Summary, api_table, html, jsonl, junit, markdown, terminal};
use rstest::rstest;

use crate::sample::{NASTY, check, checks, run, window};

#[test]
fn a_line_has_exactly_the_agreed_fields() {
    let pass = check("a", "wire", (0, "Produce", &[3, 13]), Outcome::Pass);
    assert_eq!(
        jsonl::line(&pass),
        r#"{"id":"a","title":"a behaves","target":"facade","client":"wire","apis":[{"key":0,"name":"Produce","versions":[3,13]}],"kips":[],"outcome":"pass","reason":null,"expected":true,"evidence":{},"duration_ms":12}"#
    );
}

#[test]
fn lines_read_back_as_they_were() {
    let checks = checks();
    let text = jsonl::render(&checks);
    assert_eq!(text.lines().count(), checks.len());
    assert_eq!(jsonl::parse(&text).unwrap(), checks);
    assert_eq!(jsonl::parse(&format!("\n{text}\n\n")).unwrap(), checks);
}

#[test]
fn a_line_that_is_no_check_is_named() {
    let text = format!("{}\n{{}}\n", jsonl::line(&checks()[0]));
    let error = jsonl::parse(&text).unwrap_err();
    assert!(
        error.to_string().starts_with("line 2: missing field"),
        "{error}"
    );
    let unknown = jsonl::line(&checks()[0]).replace("\"kips\"", "\"kip\"");
    assert!(jsonl::parse(&unknown).is_err());
}

#[test]
fn counts_keep_the_four_outcomes_apart() {
    let counts = Counts::of(&checks());
    assert_eq!(
        (
            counts.pass,
            counts.fail,
            counts.refused,
            counts.skipped,
            counts.unexpected
        ),
        (6, 1, 1, 1, 2)
    );
    assert_eq!(counts.total(), checks().len());
}

#[test]
fn a_version_shows_the_worst_of_its_checks() {
    let summary = Summary::new(&run(), &checks());
    assert_eq!(summary.clients, ["wire", "librdkafka 2.12.1"]);
    let versions = &summary.rows[&0].cells["wire"].versions;
    assert_eq!(versions.get(&3), Some(&Outcome::Pass));
    assert_eq!(versions.get(&4), Some(&Outcome::Refused));
    assert_eq!(summary.rows[&3].cells["wire"].versions[&9], Outcome::Fail);
    assert!(
        summary.rows[&29].cells["wire"].versions.is_empty(),
        "a skip is not coverage"
    );
}

#[rstest]
#[case(&[], "")]
#[case(&[4], "4")]
#[case(&[0, 1, 2], "0–2")]
#[case(&[0, 2, 3, 7], "0, 2–3, 7")]
fn versions_are_written_as_ranges(#[case] versions: &[i16], #[case] text: &str) {
    assert_eq!(ranges(versions.iter().copied()), text);
}

#[test]
fn the_terminal_tells_unexpected_outcomes_and_hides_what_needs_no_line() {
    let text = terminal::render(&run(), &checks(), false);
    assert!(text.contains("│   3 │ Metadata"), "{text}");
    assert!(
        text.contains("fail  wire/metadata/v9/topic  [wire]"),
        "{text}"
    );
    assert!(
        text.contains("pass  wire/create-topics/v7/x  [wire]"),
        "{text}"
    );
    assert!(!text.contains("LeaderAndIsr"), "{text}");
    assert!(!text.contains('\u{1b}'), "colour where none was asked for");
    let last = text.lines().last().unwrap();
    assert_eq!(
        last,
        "9 checks against facade in 1 min 1 s: 6 pass, 1 fail, 1 refused, 1 skipped, 2 unexpected"
    );
    assert!(terminal::render(&run(), &checks(), true).contains("\u{1b}[31"));
}

#[test]
fn the_terminal_says_when_all_is_well() {
    let text = terminal::render(&run(), &checks()[..3], false);
    assert!(text.ends_with("every outcome as expected"), "{text}");
    let nothing = reports::Run {
        advertised: vec![],
        ..run()
    };
    assert!(terminal::render(&nothing, &[], false).contains("no API was seen"));
}

#[test]
fn a_long_list_of_failures_is_cut_on_the_terminal() {
    let many: Vec<Check> = (0..50)
        .map(|n| {
            check(
                &format!("wire/{n:02}"),
                "wire",
                (0, "Produce", &[3]),
                Outcome::Fail,
            )
        })
        .collect();
    let text = terminal::render(&run(), &many, false);
    assert!(text.contains("… and 20 more unexpected outcomes"), "{text}");
}

#[test]
fn markdown_has_the_table_and_no_foreign_markup() {
    let text = markdown::render(&run(), &checks());
    assert!(text.contains("**2 outcomes are unexpected.**"), "{text}");
    assert!(
        text.contains("| 3 | Metadata | 0–13 | ✓ 12; **fails** 9 | – |"),
        "{text}"
    );
    assert!(!text.contains("</script>"), "{text}");
    let columns: Vec<usize> = text
        .lines()
        .filter(|line| line.starts_with("| `"))
        .map(|line| line.replace("\\|", "").matches('|').count())
        .collect();
    assert!(
        columns.len() >= 4 && columns.iter().all(|n| *n == 5),
        "{columns:?}\n{text}"
    );
}

#[test]
fn the_api_table_names_versions_by_what_they_proved() {
    let advertised = [
        window(0, "Produce", 0, 13),
        window(60, "DescribeCluster", 0, 2),
    ];
    assert_eq!(
        api_table::markdown(&advertised, &checks(), &[(60, "a | b")]),
        "| Key | API | Versions | Wire probes | librdkafka 2.12.1 | Remarks |\n\
         |---:|---|---|---|---|---|\n\
         | 0 | Produce | 0–13 | ✓ 3; refused 4 | ✓ 9 |  |\n\
         | 60 | DescribeCluster | 0–2 | – | – | a \\| b |\n"
    );
}

#[test]
fn junit_fails_what_was_unexpected_and_is_well_formed() {
    let xml = junit::render(&run(), &checks());
    well_formed(&xml);
    assert!(
        xml.contains(
            "<testsuites name=\"facade\" tests=\"9\" failures=\"2\" skipped=\"1\" time=\"61.234\">"
        ),
        "{xml}"
    );
    assert_eq!(xml.matches("<testcase ").count(), 9);
    assert_eq!(xml.matches("<failure ").count(), 2);
    assert_eq!(xml.matches("<skipped ").count(), 1);
    assert!(
        xml.contains("classname=\"facade.librdkafka 2.12.1\""),
        "{xml}"
    );
}

#[test]
fn the_page_holds_its_data_and_asks_for_nothing() {
    let page = html::render(&run(), &checks());
    // One inert element and one script, each ended once, whatever the data says.
    assert_eq!(page.matches("</script>").count(), 2);
    let (_, rest) = page.split_once("id=\"data\">").unwrap();
    let (data, _) = rest.split_once("</script>").unwrap();
    let data: serde_json::Value = serde_json::from_str(data).unwrap();
    assert_eq!(data["checks"].as_array().unwrap().len(), 9);
    assert_eq!(data["checks"][3]["reason"], NASTY);
    for asking in ["http://", "https://", "src=", "@import", "url(", "fetch("] {
        assert!(!page.contains(asking), "the page has {asking}");
    }
}

#[test]
fn everything_is_written() {
    let folder = tempfile::tempdir().unwrap();
    let report = folder.path().join("deep/report");
    reports::write_all(&report, &run(), &checks()).unwrap();
    for name in ["index.html", "report.md", "junit.xml", "checks.jsonl"] {
        assert!(report.join(name).metadata().unwrap().len() > 0, "{name}");
    }
    std::fs::write(folder.path().join("file"), "").unwrap();
    let error = reports::write_all(&folder.path().join("file"), &run(), &checks()).unwrap_err();
    assert!(error.to_string().starts_with("cannot write"), "{error}");
}

/// A small reader of XML: elements nest and end, attributes are quoted, text is escaped.
fn well_formed(xml: &str) {
    let mut open = Vec::new();
    let mut rest = xml
        .strip_prefix("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n")
        .unwrap();
    while let Some((text, tag)) = rest.split_once('<') {
        escaped(text);
        let (tag, after) = tag.split_once('>').expect("a tag ends");
        rest = after;
        if let Some(name) = tag.strip_prefix('/') {
            assert_eq!(open.pop(), Some(name.to_owned()));
            continue;
        }
        let (name, attributes) = tag.split_once(' ').unwrap_or((tag, ""));
        for (at, part) in attributes.split('"').enumerate() {
            if at % 2 == 1 {
                escaped(part);
            }
        }
        assert!(attributes.matches('"').count() % 2 == 0, "{tag}");
        if !tag.ends_with('/') {
            open.push(name.to_owned());
        }
    }
    assert!(open.is_empty(), "{open:?}");
}

fn escaped(text: &str) {
    for (at, _) in text.match_indices('&') {
        let rest = &text[at..];
        let known = [
            "&amp;", "&lt;", "&gt;", "&quot;", "&apos;", "&#10;", "&#13;", "&#9;",
        ];
        assert!(
            known.iter().any(|entity| rest.starts_with(entity)),
            "{rest}"
        );
    }
    assert!(
        !text.chars().any(|c| c < ' ' && c != '\n'),
        "a control character in {text:?}"
    );
}

proptest! {
    /// Whatever a check says, each form stays what it is.
    #[test]
    fn no_text_breaks_a_form(text in "\\PC*|[<>&\"'|`\\n\\r\\t\\x00-\\x1f]*", expected: bool) {
        let mut check = check("x", "wire", (0, "Produce", &[3]), Outcome::Fail);
        check.id.clone_from(&text);
        check.title.clone_from(&text);
        check.reason = Some(text.clone());
        check.expected = expected;
        let checks = [check];
        prop_assert_eq!(&jsonl::parse(&jsonl::render(&checks)).unwrap()[..], &checks[..]);
        well_formed(&junit::render(&run(), &checks));
        prop_assert_eq!(html::render(&run(), &checks).matches("</script>").count(), 2);
    }
}

#[test]
fn every_rendering_names_the_suite() {
    let (run, checks) = (run(), checks());
    assert!(markdown::render(&run, &checks).contains("Suite 1.2."));
    assert!(junit::render(&run, &checks).contains("name=\"suite\" value=\"1.2\""));
    assert!(html::render(&run, &checks).contains("\"suite\":\"1.2\""));
    assert!(run.json().contains("\"suite\": \"1.2\""));
}
