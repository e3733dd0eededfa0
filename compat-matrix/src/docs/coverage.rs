//! `docs/facade/coverage.md`: every statement that the facade is held to and what proves it.
//!
//! Made from `docs/facade/statements.toml`. Reads the repository, writes nothing: a proof that does not
//! exist is an error, so that a page can't name a test that somebody removed.

use std::fmt::Write as _;
use std::path::Path;

use serde::Deserialize;

use super::DocsError;
use super::proofs::Proofs;
use crate::files::read;

/// What the page is made from.
pub(super) const STATEMENTS: &str = "docs/facade/statements.toml";
/// The page.
pub(super) const PAGE: &str = "docs/facade/coverage.md";
/// Statements that may go without a proof because they are not ours or cannot be tested here. More
/// would be a habit.
const MAX_EXCUSED: usize = 9;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Statements {
    section: Vec<Section>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Section {
    title: String,
    statement: Vec<Statement>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Statement {
    /// Unique and stable.
    id: String,
    /// What is promised.
    says: String,
    /// Tests, checks and scenarios; see [`Proofs::find`].
    #[serde(default)]
    proven: Vec<String>,
    /// Our own decision, as a path in the repository: we do something else.
    superseded: Option<String>,
    /// Why somebody else has to keep it.
    not_ours: Option<String>,
    /// Why it cannot be seen here.
    untestable: Option<String>,
    /// What is missing before it is proven.
    open: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Proven,
    Superseded,
    NotOurs,
    Untestable,
    Open,
}

impl State {
    const ALL: [Self; 5] = [
        Self::Proven,
        Self::Superseded,
        Self::NotOurs,
        Self::Untestable,
        Self::Open,
    ];

    const fn word(self) -> &'static str {
        match self {
            Self::Proven => "proven",
            Self::Superseded => "superseded",
            Self::NotOurs => "not ours",
            Self::Untestable => "not testable here",
            Self::Open => "**OPEN**",
        }
    }
}

/// What is wrong with the statements of the facade.
#[derive(Debug, thiserror::Error)]
pub enum CoverageError {
    /// The file cannot be read as one.
    #[error("{STATEMENTS}: {0}")]
    Malformed(#[from] toml::de::Error),
    /// Statements that say too little, too much, or something wrong of themselves.
    #[error("{STATEMENTS}:\n  {}", .0.join("\n  "))]
    Wrong(Vec<String>),
}

/// Renders the page of the repository in `root`.
pub(super) fn page(root: &Path, proofs: &Proofs) -> Result<String, DocsError> {
    let statements: Statements =
        toml::from_str(&read(&root.join(STATEMENTS))?).map_err(CoverageError::from)?;
    let wrong = wrong(&statements, root, proofs);
    if wrong.is_empty() {
        Ok(render(&statements))
    } else {
        Err(CoverageError::Wrong(wrong).into())
    }
}

impl Statement {
    /// Its state, if it has exactly one.
    fn state(&self) -> Option<State> {
        let states = [
            (!self.proven.is_empty(), State::Proven),
            (self.superseded.is_some(), State::Superseded),
            (self.not_ours.is_some(), State::NotOurs),
            (self.untestable.is_some(), State::Untestable),
            (self.open.is_some(), State::Open),
        ];
        let mut named = states.iter().filter(|(is_named, _)| *is_named);
        match (named.next(), named.next()) {
            (Some((_, state)), None) => Some(*state),
            _ => None,
        }
    }

    fn because(&self) -> String {
        if !self.proven.is_empty() {
            let quoted = self.proven.iter().map(|proof| format!("`{proof}`"));
            return quoted.collect::<Vec<_>>().join("<br>");
        }
        if let Some(decision) = &self.superseded {
            let name = decision.rsplit('/').next().unwrap_or(decision);
            let link = decision.strip_prefix("docs/").unwrap_or(decision);
            return format!("[{name}](../{link})");
        }
        let reasons = [&self.not_ours, &self.untestable, &self.open];
        reasons.into_iter().flatten().cloned().collect()
    }
}

fn all(statements: &Statements) -> impl Iterator<Item = &Statement> {
    let sections = statements.section.iter();
    sections.flat_map(|section| &section.statement)
}

fn count(statements: &Statements, state: State) -> usize {
    let in_state = all(statements).filter(|statement| statement.state() == Some(state));
    in_state.count()
}

fn wrong(statements: &Statements, root: &Path, proofs: &Proofs) -> Vec<String> {
    let mut wrong = Vec::new();
    let mut seen = std::collections::BTreeSet::new();
    for statement in all(statements) {
        let id = &statement.id;
        if !seen.insert(id) {
            wrong.push(format!("{id}: there are two of it"));
        }
        if statement.state().is_none() {
            wrong.push(format!("{id}: has to be in one state, and in no second"));
        }
        for proof in &statement.proven {
            if let Err(why) = proofs.find(proof) {
                wrong.push(format!("{id}: {proof}: {why}"));
            }
        }
        if let Some(decision) = &statement.superseded
            && !root.join(decision).is_file()
        {
            wrong.push(format!("{id}: {decision}: there is no such page"));
        }
    }
    let excused = count(statements, State::NotOurs) + count(statements, State::Untestable);
    if excused > MAX_EXCUSED {
        wrong.push(format!(
            "{excused} statements are excused; more than {MAX_EXCUSED} are a habit"
        ));
    }
    wrong
}

fn render(statements: &Statements) -> String {
    let mut page = String::from(
        "# What the facade promises, and what proves it\n\n\
         Generated by `cargo run --release -- docs` from [statements.toml](statements.toml); do not\n\
         edit. Every proof named here exists: `docs --check` looks each of them up.\n\n\
         `test:CRATE::NAME` is a test of this repository, `check:ID` a passed check of the\n\
         [published report](../../reports/published), `sim:NAME` a scenario of the simulation.\n\n",
    );
    let open = count(statements, State::Open);
    if open > 0 {
        // Writing into a String cannot fail.
        let _ = writeln!(
            page,
            "**{open} of these statements are proven by nothing yet.**\n"
        );
    }
    page.push_str("| State | Statements |\n|---|---|\n");
    for state in State::ALL {
        let _ = writeln!(page, "| {} | {} |", state.word(), count(statements, state));
    }
    let _ = writeln!(page, "| all | {} |", all(statements).count());
    for section in &statements.section {
        let _ = writeln!(page, "\n## {}\n", section.title);
        page.push_str("| Id | Promise | State | By what, or why |\n|---|---|---|---|\n");
        for statement in &section.statement {
            let state = statement.state().map_or("", State::word);
            let (says, because) = (cell(&statement.says), cell(&statement.because()));
            let _ = writeln!(
                page,
                "| `{}` | {says} | {state} | {because} |",
                statement.id
            );
        }
    }
    page
}

fn cell(text: &str) -> String {
    text.replace('|', "\\|")
}

#[cfg(test)]
mod tests {
    use super::super::DocsError;
    use super::super::proofs::Proofs;
    use super::{CoverageError, STATEMENTS, page};

    fn page_of(statements: &str) -> Result<String, Vec<String>> {
        let root = tempfile::tempdir().unwrap();
        let path = root.path().join(STATEMENTS);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, statements).unwrap();
        let file = |name: &str, text: &str| {
            let path = root.path().join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        };
        file("docs/decisions/why.md", "# Why\n");
        file("a/Cargo.toml", "[package]\nname = \"a\"\n");
        file("a/src/lib.rs", "#[test]\nfn it_works() {}\n");
        let proofs = Proofs::of(root.path(), &[]).unwrap();
        page(root.path(), &proofs).map_err(|error| match error {
            DocsError::Coverage(CoverageError::Wrong(wrong)) => wrong,
            other => vec![other.to_string()],
        })
    }

    fn statement(rest: &str) -> String {
        format!(
            "[[section]]\ntitle = \"T\"\n[[section.statement]]\nid = \"x\"\nsays = \"s | t\"\n{rest}\n"
        )
    }

    #[test]
    fn each_state_has_its_row_and_what_is_open_is_said_first() {
        let more = "[[section.statement]]\nid = \"y\"\nsays = \"u\"\n";
        let text = format!(
            "{}{more}open = \"nobody\"\n",
            statement("proven = [\"test:a::it_works\"]")
        );
        let page = page_of(&text).unwrap();
        assert!(
            page.contains("| `x` | s \\| t | proven | `test:a::it_works` |"),
            "{page}"
        );
        assert!(page.contains("| `y` | u | **OPEN** | nobody |"), "{page}");
        assert!(
            page.contains("**1 of these statements are proven by nothing yet.**"),
            "{page}"
        );
        let page = page_of(&statement("superseded = \"docs/decisions/why.md\"")).unwrap();
        assert!(page.contains("[why.md](../decisions/why.md)"), "{page}");
        assert!(!page.contains("nothing yet"), "{page}");
    }

    #[test]
    fn what_is_not_so_is_told() {
        for (rest, told) in [
            (
                "proven = [\"test:a::it_works_not\"]",
                "x: test:a::it_works_not: ",
            ),
            (
                "superseded = \"docs/decisions/gone.md\"",
                "there is no such page",
            ),
            ("", "has to be in one state"),
            ("open = \"o\"\nnot_ours = \"n\"", "has to be in one state"),
        ] {
            let wrong = page_of(&statement(rest)).unwrap_err();
            assert!(wrong.len() == 1 && wrong[0].contains(told), "{wrong:?}");
        }
        let twice = statement("open = \"o\"") + &statement("open = \"o\"");
        assert_eq!(page_of(&twice).unwrap_err(), ["x: there are two of it"]);
    }

    #[test]
    fn few_statements_may_be_excused() {
        let excused = |n: usize| -> String {
            let each = |i| {
                let one = statement("untestable = \"u\"");
                one.replace("id = \"x\"", &format!("id = \"x{i}\""))
            };
            (0..n).map(each).collect()
        };
        assert!(page_of(&excused(9)).is_ok());
        assert!(page_of(&excused(10)).unwrap_err()[0].contains("10 statements are excused"));
    }
}
