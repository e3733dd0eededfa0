//! The checks as something that others rely on: a version, ids that keep their meaning, and
//! the servers that were seen to pass them.

use std::collections::BTreeMap;
use std::sync::OnceLock;

use crate::ids::spelt_out;

/// The version of the suite. The second number grows with new checks, the first when one is taken away,
/// renamed or asks something else under its old id.
pub const VERSION: &str = "1.1";

/// `4.4 wire/fetch/v4-18/empty`: what each recorded Kafka passed.
const OBSERVED: &str = include_str!("../suite/observed.txt");

/// The versions of Apache Kafka that were recorded to pass a check, ascending.
pub fn observed(id: &str) -> Vec<String> {
    static KNOWN: OnceLock<BTreeMap<String, Vec<String>>> = OnceLock::new();
    let known = KNOWN.get_or_init(|| {
        let mut known = BTreeMap::<String, Vec<String>>::new();
        for (version, checks) in OBSERVED.lines().filter_map(|line| line.split_once(' ')) {
            for check in spelt_out(checks) {
                known.entry(check).or_default().push(version.to_owned());
            }
        }
        known
    });
    known.get(id).cloned().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};
    use std::fmt::Write as _;
    use std::path::Path;

    use super::VERSION;
    use crate::differential::{Family, recording};
    use crate::drivers::Client;
    use crate::ids::{ranges, versioned};
    use crate::target::Kind;
    use crate::testing::all_that_the_schema_knows;
    use crate::{aftermath, bad_input, probes, readme, scenarios, secure};

    /// Where every id is kept.
    const FILE: &str = "suite/ids.txt";
    /// Whoever sets it writes the file.
    const UPDATE: &str = "UPDATE_SUITE";

    /// Every id that the suite can have: all versions that are known, and a client that stands for any.
    fn ids() -> BTreeSet<String> {
        let client = |id: &str| Client {
            id: id.into(),
            label: id.into(),
            driver: Err("only named here".into()),
        };
        let clients = [client("CLIENT"), client("OTHER")];
        let mut specs = probes::specs(&all_that_the_schema_knows());
        // Nothing is advertised: what is not is asked about.
        specs.extend(probes::specs(&[]));
        specs.extend(bad_input::specs());
        specs.extend(secure::specs());
        // Nobody has more scenarios than a cell.
        specs.extend(scenarios::specs(&clients, &Kind::FacadeCloud));
        specs.extend(readme::specs());
        specs.extend(aftermath::specs());
        specs.into_iter().map(|spec| spec.id).collect()
    }

    fn grouped(ids: &BTreeSet<String>) -> BTreeSet<String> {
        let mut alike = BTreeMap::<(String, String), BTreeSet<u16>>::new();
        let mut lines = BTreeSet::new();
        for id in ids {
            match versioned(id) {
                Some((before, version, after)) => {
                    let key = (before.to_owned(), after.to_owned());
                    alike.entry(key).or_default().insert(version);
                }
                None => {
                    lines.insert(id.clone());
                }
            }
        }
        lines.extend(
            alike.iter().map(|((before, after), versions)| {
                format!("{before}/v{}/{after}", ranges(versions))
            }),
        );
        lines
    }

    /// What the recordings hold, and the text of the file that tells it.
    fn recorded() -> (BTreeMap<String, Vec<String>>, String) {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../fixtures/oracle");
        let (mut by_check, mut text) = (BTreeMap::<String, Vec<String>>::new(), String::new());
        for version in recording::versions(&folder).unwrap() {
            let told = recording::read(&folder, &version, Family::Wire).unwrap();
            let good = told.into_values().filter(|told| told.verdict == "pass");
            let passed: BTreeSet<String> = good.map(|told| told.check).collect();
            for check in &passed {
                by_check
                    .entry(check.clone())
                    .or_default()
                    .push(version.clone());
            }
            for line in grouped(&passed) {
                writeln!(text, "{version} {line}").unwrap();
            }
        }
        (by_check, text)
    }

    #[test]
    fn what_was_observed_is_what_was_recorded() {
        let (by_check, text) = recorded();
        if std::env::var_os(UPDATE).is_some() {
            let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("suite/observed.txt");
            std::fs::write(path, &text).unwrap();
        }
        assert_eq!(
            super::OBSERVED,
            text,
            "{UPDATE}=1 writes suite/observed.txt"
        );
        for (check, versions) in by_check {
            assert_eq!(super::observed(&check), versions, "{check}");
        }
        assert!(super::observed("wire/nobody/v0/asks").is_empty());
    }

    #[test]
    fn ids_are_kept() {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(FILE);
        let mut now = format!("# Suite {VERSION}. Written by a test, see src/suite.rs.\n");
        for line in grouped(&ids()) {
            writeln!(now, "{line}").unwrap();
        }
        if std::env::var_os(UPDATE).is_some() {
            std::fs::write(&path, &now).unwrap();
        }
        let kept = std::fs::read_to_string(&path).unwrap();
        let lines = |text: &str| text.lines().map(str::to_owned).collect::<BTreeSet<_>>();
        let (kept, now) = (lines(&kept), lines(&now));
        let lost: Vec<_> = kept.difference(&now).collect();
        let new: Vec<_> = now.difference(&kept).collect();
        assert!(
            lost.is_empty() && new.is_empty(),
            "lost, so that the first number of the suite's version must grow: {lost:#?}\n\
             new, so that the second must: {new:#?}\n\
             {UPDATE}=1 writes {FILE}"
        );
    }
}
