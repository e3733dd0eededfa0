//! Where two transcripts of one check differ.

use serde_json::{Map, Value as Json};

use super::recording::Told;

/// One field that is not the same.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Divergence {
    /// The check.
    pub check: String,
    /// `[2].Topics[0].ErrorCode`: the step's number, then the path in its answer.
    pub field: String,
    /// The facade's value, as compact JSON.
    pub facade: String,
    /// Kafka's value, as compact JSON.
    pub kafka: String,
}

/// Stands for a field that one of the two does not have.
const ABSENT: &str = "absent";
/// Characters of a value that are shown.
const SHOWN_CHARS: usize = 160;

/// Every field in which the two differ.
pub fn compare(facade: &Told, kafka: &Told) -> Vec<Divergence> {
    let mut found = Vec::new();
    let mut differ = |field: &str, facade_value: String, kafka_value: String| {
        found.push(Divergence {
            check: facade.check.clone(),
            field: field.to_owned(),
            facade: facade_value,
            kafka: kafka_value,
        });
    };
    if facade.verdict != kafka.verdict {
        differ("verdict", facade.verdict.clone(), kafka.verdict.clone());
    }
    if facade.steps.len() != kafka.steps.len() {
        let count = |told: &Told| told.steps.len().to_string();
        differ("<steps>", count(facade), count(kafka));
    }
    for (at, (mine, theirs)) in facade.steps.iter().zip(&kafka.steps).enumerate() {
        if mine.asked != theirs.asked {
            differ(&format!("[{at}]"), mine.asked.clone(), theirs.asked.clone());
            // What follows answers other questions.
            break;
        }
        walk(format!("[{at}]"), &mine.answer, &theirs.answer, &mut differ);
    }
    found
}

fn walk(path: String, mine: &Json, theirs: &Json, differ: &mut impl FnMut(&str, String, String)) {
    match (mine, theirs) {
        (Json::Object(mine), Json::Object(theirs)) => fields(&path, mine, theirs, differ),
        (Json::Array(mine), Json::Array(theirs)) => {
            if mine.len() != theirs.len() {
                let count = |list: &Vec<Json>| list.len().to_string();
                differ(&format!("{path}.<count>"), count(mine), count(theirs));
                return;
            }
            for (at, (mine, theirs)) in mine.iter().zip(theirs).enumerate() {
                walk(format!("{path}[{at}]"), mine, theirs, differ);
            }
        }
        (mine, theirs) if mine == theirs => {}
        (mine, theirs) => differ(&path, shown(mine), shown(theirs)),
    }
}

fn fields(
    path: &str,
    mine: &Map<String, Json>,
    theirs: &Map<String, Json>,
    differ: &mut impl FnMut(&str, String, String),
) {
    for (name, mine) in mine {
        let path = format!("{path}.{name}");
        match theirs.get(name) {
            Some(theirs) => walk(path, mine, theirs, differ),
            None => differ(&path, shown(mine), ABSENT.into()),
        }
    }
    for (name, theirs) in theirs {
        if !mine.contains_key(name) {
            differ(&format!("{path}.{name}"), ABSENT.into(), shown(theirs));
        }
    }
}

fn shown(value: &Json) -> String {
    let text = match value {
        Json::String(text) => text.clone(),
        other => other.to_string(),
    };
    if text.chars().count() <= SHOWN_CHARS {
        return text;
    }
    let mut cut: String = text.chars().take(SHOWN_CHARS).collect();
    cut.push('…');
    cut
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::{Value as Json, json};

    use super::{Told, compare};
    use crate::differential::recording::Answered;

    fn told(verdict: &str, answer: Json) -> Told {
        Told {
            check: "wire/x".into(),
            verdict: verdict.into(),
            steps: vec![Answered {
                asked: "X v0".into(),
                answer,
            }],
        }
    }

    #[rstest]
    #[case(json!({"A": 1}), json!({"A": 1}), None)]
    #[case(json!({"A": 1}), json!({"A": 2}), Some(("[0].A", "1", "2")))]
    #[case(json!({"A": "1"}), json!({"A": null}), Some(("[0].A", "1", "null")))]
    #[case(json!({"A": [{"B": 1}]}), json!({"A": [{"B": 2}]}), Some(("[0].A[0].B", "1", "2")))]
    #[case(json!({"A": []}), json!({"A": [1]}), Some(("[0].A.<count>", "0", "1")))]
    #[case(json!({}), json!({"A": 1}), Some(("[0].A", "absent", "1")))]
    #[case(json!({"A": 1}), json!({}), Some(("[0].A", "1", "absent")))]
    #[case(json!("closed"), json!({"A": 1}), Some(("[0]", "closed", r#"{"A":1}"#)))]
    fn fields(
        #[case] mine: Json,
        #[case] theirs: Json,
        #[case] expected: Option<(&str, &str, &str)>,
    ) {
        let found = compare(&told("pass", mine), &told("pass", theirs));
        let found: Vec<_> = found
            .iter()
            .map(|one| (one.field.as_str(), one.facade.as_str(), one.kafka.as_str()))
            .collect();
        assert_eq!(found, expected.into_iter().collect::<Vec<_>>());
    }

    #[test]
    fn verdicts_and_numbers_of_steps_are_compared() {
        let mut shorter = told("failed", json!(1));
        shorter.steps.clear();
        let found = compare(&told("pass", json!(1)), &shorter);
        let fields: Vec<_> = found.iter().map(|one| one.field.as_str()).collect();
        assert_eq!(fields, ["verdict", "<steps>"]);
    }
}
