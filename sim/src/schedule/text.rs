//! Schedules as text: steps read one by one, and what doesn't read is answered with what would.

use serde::de::{self, Deserialize, Deserializer};
use serde_json::{Map, Value};

use super::{Fault, Step};

/// Why a step doesn't read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ScheduleError {
    /// It has no time.
    #[error(
        "a step needs \"at_ms\", a whole number of simulated milliseconds since the start; this one is {0}"
    )]
    NoTime(String),
    /// No fault, or one that is not known.
    #[error("\"fault\" is {found}; there are {}", names().join(", "))]
    NoFault {
        /// What stands there.
        found: String,
    },
    /// The fault is known, and what it needs is not there, or something else is.
    #[error("fault {fault:?}: {why}; a right one: {example}")]
    BadFault {
        /// Its name.
        fault: String,
        /// What is wrong.
        why: String,
        /// A right one.
        example: &'static str,
    },
}

/// One right step of every fault.
const EXAMPLES: &[(&str, &str)] = &[
    (
        "crash",
        r#"{"at_ms":700,"fault":"crash","node":"queen","unsynced":"kept"}"#,
    ),
    (
        "bounce",
        r#"{"at_ms":700,"fault":"bounce","node":"facade"}"#,
    ),
    (
        "restart",
        r#"{"at_ms":700,"fault":"restart","node":"facade"}"#,
    ),
    (
        "pause",
        r#"{"at_ms":700,"fault":"pause","node":"queen","for_ms":3000}"#,
    ),
    (
        "pause_client",
        r#"{"at_ms":700,"fault":"pause_client","client":"member-1","for_ms":9000}"#,
    ),
    (
        "partition",
        r#"{"at_ms":700,"fault":"partition","link":"facade_queen","lost":"answers"}"#,
    ),
    (
        "repair",
        r#"{"at_ms":700,"fault":"repair","link":"facade_queen"}"#,
    ),
    (
        "hold",
        r#"{"at_ms":700,"fault":"hold","link":"facade_queen"}"#,
    ),
    (
        "release",
        r#"{"at_ms":700,"fault":"release","link":"facade_queen"}"#,
    ),
    (
        "latency",
        r#"{"at_ms":700,"fault":"latency","link":"clients_facade","ms":100,"jitter_ms":300,"for_ms":2000}"#,
    ),
    (
        "wall_jump",
        r#"{"at_ms":700,"fault":"wall_jump","node":"queen","by_ms":-60000}"#,
    ),
    (
        "upstream",
        r#"{"at_ms":700,"fault":"upstream","hop":"relay","route":"push","skip":0,"count":1,"effect":"cut_after"}"#,
    ),
    ("revoke", r#"{"at_ms":700,"fault":"revoke","key":"victim"}"#),
    (
        "expire",
        r#"{"at_ms":700,"fault":"expire","key":"victim","in_ms":900}"#,
    ),
    (
        "narrow",
        r#"{"at_ms":700,"fault":"narrow","key":"victim","scope":"produce"}"#,
    ),
    (
        "rotate",
        r#"{"at_ms":700,"fault":"rotate","key":"victim","overlap_ms":500}"#,
    ),
    (
        "delay_api",
        r#"{"at_ms":700,"fault":"delay_api","api":"SyncGroup","ms":500,"for_ms":2000}"#,
    ),
];

fn names() -> Vec<&'static str> {
    EXAMPLES.iter().map(|(name, _)| *name).collect()
}

/// Reads one step.
fn step(mut fields: Map<String, Value>) -> Result<Step, ScheduleError> {
    let whole = Value::Object(fields.clone()).to_string();
    let at_ms = fields.remove("at_ms").and_then(|at| at.as_u64());
    let at_ms = at_ms.ok_or(ScheduleError::NoTime(whole))?;
    let named = fields.get("fault").cloned().unwrap_or(Value::Null);
    let known = named
        .as_str()
        .and_then(|name| EXAMPLES.iter().find(|(known, _)| *known == name));
    let Some(&(fault, example)) = known else {
        let found = match named {
            Value::Null => "missing".to_owned(),
            named => named.to_string(),
        };
        return Err(ScheduleError::NoFault { found });
    };
    let read = serde_json::from_value(Value::Object(fields));
    let fault: Fault = read.map_err(|error| ScheduleError::BadFault {
        fault: fault.to_owned(),
        why: error.to_string(),
        example,
    })?;
    Ok(Step { at_ms, fault })
}

impl<'de> Deserialize<'de> for Step {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        step(Map::deserialize(deserializer)?).map_err(de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Effect, Hop, Link, Lost, Route, Server, Unsynced};
    use super::*;

    #[test]
    fn a_schedule_reads_as_words_and_back() {
        let steps = vec![
            Step {
                at_ms: 100,
                fault: Fault::Partition {
                    link: Link::FacadeQueen,
                    lost: Lost::Answers,
                },
            },
            Step {
                at_ms: 200,
                fault: Fault::Crash {
                    node: Server::Queen,
                    unsynced: Unsynced::Lost,
                },
            },
            Step {
                at_ms: 300,
                fault: Fault::Upstream {
                    hop: Hop::Relay,
                    route: Route::Push,
                    skip: 2,
                    count: Some(1),
                    for_ms: None,
                    effect: Effect::Status {
                        code: 429,
                        retry_after_s: Some(3),
                    },
                },
            },
        ];
        let json = serde_json::to_string(&steps).unwrap();
        assert_eq!(
            json,
            r#"[{"at_ms":100,"fault":"partition","link":"facade_queen","lost":"answers"},{"at_ms":200,"fault":"crash","node":"queen"},{"at_ms":300,"fault":"upstream","hop":"relay","route":"push","skip":2,"count":1,"effect":{"status":{"code":429,"retry_after_s":3}}}]"#
        );
        assert_eq!(serde_json::from_str::<Vec<Step>>(&json).unwrap(), steps);
    }

    #[test]
    fn every_example_is_right_and_every_fault_has_one() {
        for (name, example) in EXAMPLES {
            let step: Step = serde_json::from_str(example).unwrap();
            let json = serde_json::to_value(&step).unwrap();
            assert_eq!(json["fault"], *name);
        }
        // A fault without an example would not read at all; serde knows them all.
        let unknown = serde_json::from_str::<Fault>(r#"{"fault":"flood"}"#).unwrap_err();
        let listed: Vec<_> = names().iter().map(|name| format!("`{name}`")).collect();
        let listed = listed.join(", ");
        assert!(unknown.to_string().contains(&listed), "{unknown}");
    }

    #[test]
    fn what_does_not_read_is_told_what_would() {
        let refused = |json: &str| serde_json::from_str::<Step>(json).unwrap_err().to_string();
        for (json, says) in [
            (
                r#"{"fault":"crash","node":"queen"}"#,
                "a step needs \"at_ms\"",
            ),
            (
                r#"{"at_ms":-1,"fault":"crash","node":"queen"}"#,
                "a whole number",
            ),
            (
                r#"{"at_ms":1}"#,
                "\"fault\" is missing; there are crash, bounce",
            ),
            (
                r#"{"at_ms":1,"fault":"flood"}"#,
                "\"fault\" is \"flood\"; there are crash",
            ),
            (
                r#"{"at_ms":1,"fault":"crash"}"#,
                "missing field `node`; a right one: {\"at_ms\":700",
            ),
            (
                r#"{"at_ms":1,"fault":"crash","node":"broker"}"#,
                "no machine is called \"broker\"; there are facade, facade-2, facade-3, relay, proxy, queen",
            ),
            (
                r#"{"at_ms":1,"fault":"crash","node":"queen","why":1}"#,
                "unknown field `why`",
            ),
            (
                r#"{"at_ms":1,"fault":"hold","link":"queen_facade"}"#,
                "no link is called \"queen_facade\"; there are clients_facade,",
            ),
        ] {
            let error = refused(json);
            assert!(error.contains(says), "{json}: {error}");
        }
    }
}
