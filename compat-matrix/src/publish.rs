//! Publishing: the reports of many runs become one published report for each target, with a badge
//! and the changes since the last one.
//!
//! A nightly has a run for each target and client, so that one that dies takes nobody along; a
//! target's runs are one report here.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use reports::badge;
use reports::changes::{Changes, Measured};
use reports::{Check, Counts, Evidence, Outcome, Run, jsonl};
use serde::Deserialize;

use crate::files::{FileError, read_checks, read_json, write};

/// The target whose published checks the pages of `docs` are made from.
const MAIN: &str = "facade";

/// Why nothing is published.
#[derive(Debug, thiserror::Error)]
pub enum PublishError {
    /// A file.
    #[error(transparent)]
    File(#[from] FileError),
    /// A report cannot be written.
    #[error(transparent)]
    Report(#[from] reports::WriteError),
    /// No run was given.
    #[error("there is no report to publish")]
    Nothing,
}

/// What to publish.
#[derive(Clone, Debug)]
pub struct Order {
    /// Folders of reports, each named by its file name: `TARGET` or `TARGET+CLIENT`.
    pub reports: Vec<PathBuf>,
    /// The `results.json` of a benchmark.
    pub bench: Option<PathBuf>,
    /// The folder of what is published.
    pub to: PathBuf,
    /// The folder of what was published before, when it is another one.
    pub since: Option<PathBuf>,
}

/// Publishes and answers what changed. Before anything is written, everything has been read.
///
/// # Errors
///
/// [`PublishError`].
pub fn publish(order: &Order) -> Result<Changes, PublishError> {
    let targets = gather(&order.reports)?;
    if targets.is_empty() {
        return Err(PublishError::Nothing);
    }
    let measured = match &order.bench {
        Some(path) => measurements(path)?,
        None => Vec::new(),
    };
    let since = order.since.as_ref().unwrap_or(&order.to);
    let (mut before, mut now) = (Vec::new(), Vec::new());
    for (target, (_, checks)) in &targets {
        before.extend(published(since, target)?);
        now.extend(checks.iter().cloned().map(|check| of_target(check, target)));
    }
    let numbers = order.to.join("measured.json");
    let numbers_before = since.join("measured.json");
    let measured_before: Vec<Measured> = match read_json(&numbers_before) {
        Err(error) if error.is_missing() => Vec::new(),
        read => read?,
    };
    let changes = Changes::between(&before, &now, &measured_before, &measured);
    for (target, (run, checks)) in &targets {
        let folder = order.to.join(target);
        reports::write_all(&folder, run, checks)?;
        write(
            &lines_of(&order.to, target),
            &jsonl::render(&without_times(checks)),
        )?;
        let badge = badge::of_counts(target, &Counts::of(checks));
        write(&order.to.join(format!("{target}.svg")), &badge)?;
    }
    if !measured.is_empty() {
        // Strings and numbers always have a JSON form.
        let text = serde_json::to_string_pretty(&measured).unwrap_or_default();
        write(&numbers, &format!("{text}\n"))?;
    }
    write(&order.to.join("changes.md"), &changes.markdown())?;
    Ok(changes)
}

/// The checks of each target, in its published form, and the head of its first run.
fn gather(folders: &[PathBuf]) -> Result<BTreeMap<String, (Run, Vec<Check>)>, PublishError> {
    let mut targets = BTreeMap::<String, (Run, Vec<Check>)>::new();
    for folder in folders {
        let name = folder.file_name().unwrap_or_default().to_string_lossy();
        let target = name.split('+').next().unwrap_or_default().to_owned();
        let checks = read_checks(&folder.join("checks.jsonl"))?;
        let head = folder.join("run.json");
        let run: Run = read_json(&head)?;
        let (whole, all) = targets.entry(target).or_insert_with(|| {
            let mut first = run.clone();
            first.duration_ms = 0;
            (first, Vec::new())
        });
        whole.duration_ms += run.duration_ms;
        all.extend(checks);
    }
    for (_, checks) in targets.values_mut() {
        // A check that two runs made is told once, and a failure is not hidden behind a pass.
        checks.sort_by(|a, b| a.id.cmp(&b.id).then(b.outcome.cmp(&a.outcome)));
        checks.dedup_by(|a, b| a.id == b.id);
        for check in checks {
            if check.outcome == Outcome::Pass && check.expected {
                check.evidence = Evidence::default();
            }
        }
    }
    Ok(targets)
}

/// Where a target's checks are published. Those of the main target stay where `docs` reads them.
fn lines_of(to: &Path, target: &str) -> PathBuf {
    if target == MAIN {
        to.join("checks.jsonl")
    } else {
        to.join(target).join("checks.jsonl")
    }
}

fn published(to: &Path, target: &str) -> Result<Vec<Check>, PublishError> {
    let path = lines_of(to, target);
    if !path.exists() {
        return Ok(Vec::new());
    }
    let checks = read_checks(&path)?.into_iter();
    Ok(checks.map(|check| of_target(check, target)).collect())
}

/// A report is named by its folder: two versions of one kind of target are two targets.
fn of_target(mut check: Check, target: &str) -> Check {
    target.clone_into(&mut check.target);
    check
}

/// Times differ in every run and say nothing a year later.
fn without_times(checks: &[Check]) -> Vec<Check> {
    let mut checks = checks.to_vec();
    for check in &mut checks {
        check.duration_ms = 0;
    }
    checks
}

/// What a benchmark's `results.json` says, as far as it is compared.
#[derive(Deserialize)]
struct Results {
    /// The numbers of a smoke run mean nothing.
    quick: bool,
    sections: Vec<Section>,
}

#[derive(Deserialize)]
struct Section {
    id: String,
    series: Vec<Series>,
}

#[derive(Deserialize)]
struct Series {
    case: String,
    what: String,
    unit: String,
    median: f64,
}

fn measurements(path: &Path) -> Result<Vec<Measured>, PublishError> {
    let results: Results = read_json(path)?;
    if results.quick {
        return Ok(Vec::new());
    }
    let sections = results.sections.into_iter();
    Ok(sections
        .flat_map(|section| {
            section.series.into_iter().map(move |series| Measured {
                what: format!("{} {}, {}", section.id, series.case, series.what),
                value: series.median,
                less_is_better: matches!(series.unit.as_str(), "ms" | "MiB"),
                unit: series.unit,
            })
        })
        .collect())
}

#[cfg(test)]
mod tests {
    use std::path::{Path, PathBuf};

    use reports::{Check, Evidence, Outcome, Run};

    use super::{Order, PublishError, publish};

    fn check(id: &str, outcome: Outcome) -> Check {
        Check {
            id: id.into(),
            title: "It works".into(),
            target: "bootstrap".into(),
            client: "wire".into(),
            apis: Vec::new(),
            kips: Vec::new(),
            observed: Vec::new(),
            outcome,
            reason: None,
            expected: outcome != Outcome::Fail,
            evidence: Evidence::default(),
            duration_ms: 7,
        }
    }

    fn report(root: &Path, name: &str, checks: &[Check]) -> PathBuf {
        let run = Run {
            target: "bootstrap".into(),
            describes: "a server".into(),
            command: "compat-matrix".into(),
            started_epoch_ms: 0,
            duration_ms: 5,
            advertised: Vec::new(),
            suite: String::new(),
        };
        let folder = root.join("runs").join(name);
        reports::write_all(&folder, &run, checks).unwrap();
        folder
    }

    fn order(root: &Path, reports: Vec<PathBuf>) -> Order {
        Order {
            reports,
            bench: None,
            to: root.join("published"),
            since: None,
        }
    }

    #[test]
    fn of_two_runs_of_a_check_the_worse_is_told() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path();
        let twice = vec![
            report(root, "facade", &[check("wire/a", Outcome::Pass)]),
            report(root, "facade+again", &[check("wire/a", Outcome::Fail)]),
        ];
        publish(&order(root, twice)).unwrap();
        let badge = std::fs::read_to_string(root.join("published/facade.svg")).unwrap();
        assert!(badge.contains("1 unexpected"), "{badge}");
    }

    #[test]
    fn runs_of_a_target_are_one_report_and_are_compared_with_the_last() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path();
        let runs = |outcome| {
            vec![
                report(root, "facade", &[check("wire/a", Outcome::Pass)]),
                report(root, "facade+go", &[check("scenario/go/a", outcome)]),
                report(root, "kafka-4.4", &[check("wire/a", Outcome::Pass)]),
            ]
        };
        let first = publish(&order(root, runs(Outcome::Pass))).unwrap();
        assert!(!first.is_regression());
        assert_eq!(first.new.len(), 3);
        let published = |name: &str| std::fs::read_to_string(root.join("published").join(name));
        assert_eq!(published("checks.jsonl").unwrap().lines().count(), 2);
        assert!(published("facade.svg").unwrap().contains("2 pass"));
        for name in ["facade/index.html", "kafka-4.4/report.md", "changes.md"] {
            published(name).unwrap();
        }
        let again = publish(&order(root, runs(Outcome::Pass))).unwrap();
        assert_eq!(again, reports::changes::Changes::default());
        let worse = publish(&order(root, runs(Outcome::Fail))).unwrap();
        assert!(worse.is_regression());
        // The second look at the same failure is a failure still, when it is compared with what was.
        let mut after = order(root, runs(Outcome::Fail));
        assert!(!publish(&after).unwrap().is_regression());
        after.since = Some(report(root, "before", &[]));
        assert!(publish(&after).unwrap().is_regression());
        assert_eq!(worse.newly_failing[0].id, "scenario/go/a");
        assert!(
            published("changes.md")
                .unwrap()
                .contains("Newly failing: 1")
        );
    }

    #[test]
    fn a_run_that_died_is_missed() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path();
        let facade = report(root, "facade", &[check("wire/a", Outcome::Pass)]);
        let client = report(root, "facade+go", &[check("scenario/go/a", Outcome::Pass)]);
        publish(&order(root, vec![facade.clone(), client])).unwrap();
        let changes = publish(&order(root, vec![facade])).unwrap();
        assert!(changes.is_regression());
        assert_eq!(changes.not_run[0].id, "scenario/go/a");
    }

    #[test]
    fn slower_is_a_regression() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path();
        let bench = |median: f64| {
            let path = root.join("results.json");
            let series = format!(
                r#"{{"quick":false,"sections":[{{"id":"P6","series":[{{"case":"c","what":"w","unit":"ms","median":{median}}}]}}]}}"#
            );
            std::fs::write(&path, series).unwrap();
            let facade = report(root, "facade", &[check("wire/a", Outcome::Pass)]);
            let mut order = order(root, vec![facade]);
            order.bench = Some(path);
            publish(&order).unwrap()
        };
        assert!(!bench(10.0).is_regression());
        assert!(!bench(10.5).is_regression());
        let slower = bench(20.0);
        assert_eq!(slower.slower[0].0.what, "P6 c, w");
    }

    #[test]
    fn nothing_is_not_published() {
        let folder = tempfile::tempdir().unwrap();
        let nothing = publish(&order(folder.path(), Vec::new()));
        assert!(matches!(nothing, Err(PublishError::Nothing)));
    }
}
