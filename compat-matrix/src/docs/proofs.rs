//! What a page may name as a proof: the tests, published checks and simulated scenarios that exist.
//!
//! Tests are found in the sources, by their attribute and name: building every crate to ask it would
//! take minutes, and a page is checked in every change.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use reports::{Check, Outcome};

use super::DocsError;
use crate::files::{FileError, read};

/// Where scenarios of the simulation are written.
const SCENARIOS: &str = "sim/src/scenario";

/// Everything that may be named.
#[derive(Debug, Default)]
pub(super) struct Proofs {
    /// Crate and function.
    tests: BTreeSet<(String, String)>,
    /// Whether it ended as expected, by id and by `id@target`.
    checks: BTreeMap<String, bool>,
    /// The names of scenarios.
    scenarios: BTreeSet<String>,
}

impl Proofs {
    /// What there is in the repository in `root`, of which `checks` are published.
    pub(super) fn of(root: &Path, checks: &[Check]) -> Result<Self, DocsError> {
        let mut proofs = Self::default();
        for check in checks {
            let is_good =
                check.expected && matches!(check.outcome, Outcome::Pass | Outcome::Refused);
            let names = [check.id.clone(), format!("{}@{}", check.id, check.target)];
            for name in names {
                // Of several targets that ran it, none may have failed.
                let all = proofs.checks.entry(name).or_insert(true);
                *all &= is_good;
            }
        }
        proofs.walk(root, root, "")?;
        Ok(proofs)
    }

    /// Whether `proof` exists: `test:CRATE::NAME`, `check:ID` with or without `@TARGET`, or
    /// `sim:SCENARIO`.
    ///
    /// # Errors
    ///
    /// Why it proves nothing, in words.
    pub(super) fn find(&self, proof: &str) -> Result<(), &'static str> {
        let (kind, name) = proof.split_once(':').unwrap_or_default();
        match kind {
            "test" => {
                let (package, test) = name.split_once("::").unwrap_or_default();
                let test = (package.to_owned(), test.to_owned());
                if self.tests.contains(&test) {
                    Ok(())
                } else {
                    Err("there is no such test")
                }
            }
            "check" => match self.checks.get(name) {
                Some(true) => Ok(()),
                Some(false) => Err("the check of the published report did not end as expected"),
                None => Err("there is no such check in the published report"),
            },
            "sim" if self.scenarios.contains(name) => Ok(()),
            "sim" => Err("there is no such scenario"),
            _ => Err("is neither test:, check: nor sim:"),
        }
    }

    fn walk(&mut self, root: &Path, folder: &Path, package: &str) -> Result<(), DocsError> {
        let manifest = folder.join("Cargo.toml");
        let own = if manifest.is_file() {
            package_name(&read(&manifest)?)
        } else {
            None
        };
        let package = own.as_deref().unwrap_or(package);
        let failed = |source| FileError::io(folder, source);
        for entry in std::fs::read_dir(folder).map_err(failed)? {
            let path = entry.map_err(failed)?.path();
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            if path.is_dir() {
                // Build output, modules of other languages, and what is hidden.
                if !matches!(&*name, "target" | "node_modules") && !name.starts_with('.') {
                    self.walk(root, &path, package)?;
                }
            } else if name.ends_with(".rs") {
                let text = read(&path)?;
                for test in tests(&text) {
                    self.tests.insert((package.to_owned(), test));
                }
                if path.starts_with(root.join(SCENARIOS)) {
                    self.scenarios.extend(scenarios(&text));
                }
            }
        }
        Ok(())
    }
}

fn package_name(manifest: &str) -> Option<String> {
    let manifest: toml::Table = manifest.parse().ok()?;
    let name = manifest.get("package")?.get("name")?.as_str()?;
    Some(name.to_owned())
}

/// The functions that an attribute makes tests.
fn tests(text: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut is_marked = false;
    for line in text.lines().map(str::trim_start) {
        if line.starts_with("#[") {
            is_marked |= is_test_attribute(line);
        }
        let signature = line.strip_prefix("async ").unwrap_or(line);
        if let Some(rest) = signature.strip_prefix("fn ") {
            if is_marked {
                let name = rest.split(|c: char| !c.is_alphanumeric() && c != '_');
                found.extend(name.take(1).map(str::to_owned));
            }
            is_marked = false;
        }
    }
    found
}

/// The names that scenarios are given, each on a line of its own.
fn scenarios(text: &str) -> impl Iterator<Item = String> {
    let names = text.lines().filter_map(|line| {
        let rest = line.trim_start().strip_prefix("name: \"")?;
        rest.strip_suffix("\",")
    });
    // Without a name it is what others are made from.
    names.filter(|name| !name.is_empty()).map(str::to_owned)
}

fn is_test_attribute(line: &str) -> bool {
    let inner = line.trim_start_matches("#[");
    let path = inner.split(['(', ']']).next().unwrap_or_default();
    matches!(path.rsplit("::").next(), Some("test" | "rstest"))
}

#[cfg(test)]
mod tests {
    use super::{Proofs, tests};

    #[test]
    fn tests_are_functions_with_the_attribute() {
        let text = "#[cfg(test)]\nfn a() {}\n#[test]\nfn b() {}\nfn c() {}\n\
                    #[tokio::test(start_paused = true)]\nasync fn d() {}\n\
                    #[rstest]\n#[case(1)]\n  fn e<T>(#[case] n: T) {}\nfn test() {}\n";
        assert_eq!(tests(text), ["b", "d", "e"]);
    }

    #[test]
    fn only_what_exists_proves() {
        let root = tempfile::tempdir().unwrap();
        let file = |name: &str, text: &str| {
            let path = root.path().join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        };
        file("a/Cargo.toml", "[package]\nname = \"a\"\n");
        file("a/src/deep/x.rs", "#[test]\nfn in_a() {}\n");
        file("a/b/Cargo.toml", "[package]\nname = \"b\"\n");
        file("a/b/tests/x.rs", "#[test]\nfn in_b() {}\n");
        file("a/target/x.rs", "#[test]\nfn built() {}\n");
        file(
            "sim/src/scenario/x.rs",
            "    name: \"\",\n        name: \"it-holds\",\n        about: \"it-told\",\n",
        );
        file("sim/src/other.rs", "name: \"it-is-none\",\n");
        let line = |id: &str, target: &str, outcome: &str, expected: bool| {
            format!(
                r#"{{"id":"{id}","title":"t","target":"{target}","client":"wire","apis":[],"kips":[],"outcome":"{outcome}","reason":null,"expected":{expected},"evidence":{{}},"duration_ms":0}}"#
            )
        };
        let lines = [
            line("good", "t", "pass", true),
            line("mixed", "t", "pass", true),
            line("mixed", "u", "fail", false),
            line("skipped", "t", "skipped", true),
        ];
        let checks = reports::jsonl::parse(&lines.join("\n")).unwrap();
        let proofs = Proofs::of(root.path(), &checks).unwrap();
        for good in [
            "test:a::in_a",
            "test:b::in_b",
            "check:good",
            "check:good@t",
            "check:mixed@t",
            "sim:it-holds",
        ] {
            assert_eq!(proofs.find(good), Ok(()), "{good}");
        }
        for bad in [
            "test:a::in_b",
            "test:a::built",
            "test:in_a",
            "check:mixed",
            "check:mixed@u",
            "check:skipped",
            "check:good@u",
            "check:bad",
            "sim:it-hold",
            "sim:it-told",
            "sim:it-is-none",
            "sim:",
            "in_a",
            "",
        ] {
            assert!(proofs.find(bad).is_err(), "{bad}");
        }
    }
}
