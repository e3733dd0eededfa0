//! That no secret was printed: not by a node, not into the report.

use std::io;
use std::path::Path;

use host::Secret;
use reports::{Check, Evidence, Outcome};

use crate::spec::WIRE;
use crate::target::Target;

/// The check of the whole run: none of what was given to processes as a secret is in what they printed,
/// or in `checks`. `None` where there were no secrets.
pub fn check(target: &Target, checks: &[Check]) -> Option<Check> {
    let secrets = target.secrets();
    if secrets.is_empty() {
        return None;
    }
    let report = reports::jsonl::render(checks);
    let mut places = vec![("the report".to_owned(), report)];
    let mut unread = Vec::new();
    let logs = target.logs();
    if logs.is_empty() && target.kind().is_ours() {
        unread.push("no log of a node of ours".to_owned());
    }
    for log in logs {
        match text_of(&log) {
            Ok(text) => places.push((name(&log), text)),
            Err(error) => unread.push(format!("{}: {error}", name(&log))),
        }
    }
    let reason = complaint(&guilty(&secrets, &places), &unread);
    let mut evidence = Evidence::default();
    evidence
        .facts
        .insert("secrets".into(), secrets.len().into());
    evidence.facts.insert("texts".into(), places.len().into());
    Some(Check {
        id: "secure/nothing-printed".into(),
        title: "Nothing that was given as a secret is in a log or in the report".into(),
        target: target.kind().name().to_owned(),
        client: WIRE.into(),
        apis: Vec::new(),
        kips: Vec::new(),
        observed: Vec::new(),
        outcome: if reason.is_none() {
            Outcome::Pass
        } else {
            Outcome::Fail
        },
        expected: reason.is_none(),
        reason,
        evidence,
        duration_ms: 0,
    })
}

/// Clients' bytes may be in a log, so it need not be UTF-8.
fn text_of(log: &Path) -> io::Result<String> {
    Ok(String::from_utf8_lossy(&std::fs::read(log)?).into_owned())
}

/// What is wrong; a text that nobody could look at proves nothing.
fn complaint(guilty: &[String], unread: &[String]) -> Option<String> {
    match (guilty, unread) {
        ([], []) => None,
        ([], unread) => Some(format!("not looked at: {}", unread.join(", "))),
        (guilty, _) => Some(format!("a secret is in {}", guilty.join(", "))),
    }
}

fn name(log: &Path) -> String {
    let parts: Vec<_> = log
        .iter()
        .rev()
        .take(2)
        .map(|part| part.to_string_lossy())
        .collect();
    parts.into_iter().rev().collect::<Vec<_>>().join("/")
}

/// The names of the texts in which a secret is, as it is or in hex as frames show it.
fn guilty(secrets: &[Secret<String>], texts: &[(String, String)]) -> Vec<String> {
    let forms: Vec<String> = secrets
        .iter()
        .flat_map(|secret| {
            let plain = secret.expose().clone();
            let hex = plain.bytes().map(|byte| format!("{byte:02x}")).collect();
            [plain, hex]
        })
        .collect();
    let holds = |text: &str| forms.iter().any(|form| text.contains(form));
    let guilty = texts.iter().filter(|(_, text)| holds(text));
    guilty.map(|(name, _)| name.clone()).collect()
}

#[cfg(test)]
mod tests {
    use host::Secret;

    use super::{complaint, guilty, text_of};

    #[test]
    fn a_secret_is_found_as_it_is_and_in_hex() {
        let secrets = [Secret::new("hunter2".to_owned())];
        let texts = [
            ("clean", "hunter3"),
            ("plain", "password=hunter2"),
            ("hex", "00 68756e74657232"),
        ];
        let texts = texts.map(|(name, text)| (name.to_owned(), text.to_owned()));
        assert_eq!(guilty(&secrets, &texts), ["plain", "hex"]);
    }

    #[test]
    fn a_log_that_is_not_text_is_searched_and_one_that_is_away_is_no_proof() {
        let folder = tempfile::tempdir().unwrap();
        let log = folder.path().join("node.log");
        std::fs::write(&log, b"\xff\xfe password=hunter2").unwrap();
        let texts = [("log".to_owned(), text_of(&log).unwrap())];
        let found = guilty(&[Secret::new("hunter2".to_owned())], &texts);
        assert_eq!(
            complaint(&found, &[]).as_deref(),
            Some("a secret is in log")
        );
        assert!(text_of(&folder.path().join("absent.log")).is_err());
        let away = ["absent.log: not found".to_owned()];
        assert!(complaint(&[], &away).is_some());
        assert_eq!(complaint(&[], &[]), None);
    }
}
