//! Injected faults (contract section 12.3): rules match calls by route, ordinal and text, and say
//! what goes wrong. The same rules come in process and over `POST /fake/faults`.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::engine::read::UnknownLane;

/// When a fault strikes, and what it is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rule {
    /// Name of the route (`push`, `fetch`, `kv`, …; see `Target::name`); any when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub route: Option<String>,
    /// Only calls whose body contains this text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub body_contains: Option<String>,
    /// Matching calls that are spared first.
    #[serde(default)]
    pub skip: u64,
    /// Calls struck after that; every one when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub count: Option<u64>,
    /// What goes wrong.
    pub effect: Effect,
}

impl Rule {
    /// Strikes every call of `route`.
    pub fn always(route: &str, effect: Effect) -> Self {
        Self {
            route: Some(route.to_owned()),
            body_contains: None,
            skip: 0,
            count: None,
            effect,
        }
    }

    /// Strikes the next call of `route`.
    pub fn once(route: &str, effect: Effect) -> Self {
        Self {
            count: Some(1),
            ..Self::always(route, effect)
        }
    }
}

/// What goes wrong.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Effect {
    /// Answered with a status; nothing is done.
    Status {
        /// The status.
        code: u16,
        /// `Retry-After`, if any.
        #[serde(default)]
        retry_after: Option<RetryAfter>,
        /// The body; `{"error":"injected"}` when absent.
        #[serde(default)]
        body: Option<String>,
    },
    /// The call is done, and answered with a status as if it had failed.
    StatusAfter {
        /// The status.
        code: u16,
    },
    /// The connection is cut before anything is done.
    DropBefore,
    /// The call is done and the connection cut instead of an answer.
    DropAfter,
    /// The call waits first.
    Delay {
        /// For how long.
        ms: u64,
    },
    /// The connection is cut, and the call is done all the same, this much later.
    Late {
        /// How much.
        ms: u64,
    },
    /// The call is done and its answer waits.
    DelayAfter {
        /// For how long.
        ms: u64,
    },
    /// A push answers items with another status.
    PushItem {
        /// Which items; all when absent.
        #[serde(default)]
        index: Option<usize>,
        /// The status. `error`, `buffered` and `failed` items are not appended; `buffered` ones
        /// are, after the answer.
        status: ItemStatus,
    },
    /// Push answers without `offset` (a broker before 1.4).
    OmitOffsets,
    /// `getMany` shows at most so many rows.
    TruncateGetMany {
        /// How many.
        rows: usize,
    },
    /// A lost `required` condition doesn't say who won.
    OmitWinner,
    /// Fetch of a lane never pushed to.
    UnknownLane {
        /// Is an error instead of an empty log.
        error: bool,
    },
    /// What `/auth/me` answers.
    AuthMe {
        /// As whom.
        mode: AuthMe,
    },
}

/// `Retry-After` in either of its forms.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RetryAfter {
    /// Seconds.
    Seconds(u64),
    /// An HTTP-date so many seconds from now.
    DateIn(u64),
}

/// Status of a pushed item.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[expect(missing_docs, reason = "contract section 4.2")]
pub enum ItemStatus {
    Duplicate,
    Error,
    Buffered,
    Failed,
}

/// Answers of `/auth/me`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AuthMe {
    /// A broker with JWT off.
    #[default]
    Standalone,
    /// A proxy, for an API key.
    ApiKey,
    /// A broker with JWT on.
    Unauthorized,
}

#[derive(Clone, Debug)]
struct Armed {
    rule: Rule,
    seen: u64,
}

/// The rules in force. Clones share them.
#[derive(Clone, Debug, Default)]
pub struct Faults {
    armed: Arc<Mutex<Vec<Armed>>>,
}

/// What strikes one call.
#[derive(Clone, Debug, Default)]
pub struct Injected {
    /// In order of the rules.
    pub effects: Vec<Effect>,
}

impl Faults {
    /// Adds a rule behind those in force.
    pub fn add(&self, rule: Rule) {
        self.lock().push(Armed { rule, seen: 0 });
    }

    /// Removes the oldest rule in force that is equal to `rule`.
    pub fn remove(&self, rule: &Rule) {
        let mut armed = self.lock();
        if let Some(at) = armed.iter().position(|armed| armed.rule == *rule) {
            armed.remove(at);
        }
    }

    /// Removes all rules.
    pub fn clear(&self) {
        self.lock().clear();
    }

    /// The rules in force, each with how many calls it matched so far.
    pub fn rules(&self) -> Vec<(Rule, u64)> {
        self.lock()
            .iter()
            .map(|armed| (armed.rule.clone(), armed.seen))
            .collect()
    }

    /// Counts a call and tells what strikes it.
    pub fn strike(&self, route: &str, body: &[u8]) -> Injected {
        let mut armed = self.lock();
        let mut injected = Injected::default();
        for armed in armed.iter_mut() {
            let rule = &armed.rule;
            let matches = rule.route.as_deref().is_none_or(|name| name == route)
                && rule
                    .body_contains
                    .as_deref()
                    .is_none_or(|text| contains(body, text.as_bytes()));
            if !matches {
                continue;
            }
            let ordinal = armed.seen;
            armed.seen += 1;
            let end = rule.count.map(|count| rule.skip.saturating_add(count));
            if ordinal >= rule.skip && end.is_none_or(|end| ordinal < end) {
                injected.effects.push(rule.effect.clone());
            }
        }
        injected
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Armed>> {
        // Every change under the lock is complete in itself.
        self.armed.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Injected {
    fn find<T>(&self, pick: impl Fn(&Effect) -> Option<T>) -> Option<T> {
        self.effects.iter().find_map(pick)
    }

    /// How much later a call whose connection is cut is done all the same.
    pub fn late(&self) -> Option<Duration> {
        self.find(|effect| match effect {
            Effect::Late { ms } => Some(Duration::from_millis(*ms)),
            _ => None,
        })
    }

    /// Answered at once.
    pub fn status(&self) -> Option<(u16, Option<RetryAfter>, Option<&str>)> {
        self.effects.iter().find_map(|effect| match effect {
            Effect::Status {
                code,
                retry_after,
                body,
            } => Some((*code, *retry_after, body.as_deref())),
            _ => None,
        })
    }

    /// The status that replaces the answer.
    pub fn status_after(&self) -> Option<u16> {
        self.find(|effect| match effect {
            Effect::StatusAfter { code } => Some(*code),
            _ => None,
        })
    }

    /// Cut before anything is done.
    pub fn drop_before(&self) -> bool {
        self.effects.contains(&Effect::DropBefore)
    }

    /// Cut instead of an answer.
    pub fn drop_after(&self) -> bool {
        self.effects.contains(&Effect::DropAfter)
    }

    /// Waits before.
    pub fn delay(&self) -> Option<Duration> {
        self.find(|effect| match effect {
            Effect::Delay { ms } => Some(Duration::from_millis(*ms)),
            _ => None,
        })
    }

    /// Waits after.
    pub fn delay_after(&self) -> Option<Duration> {
        self.find(|effect| match effect {
            Effect::DelayAfter { ms } => Some(Duration::from_millis(*ms)),
            _ => None,
        })
    }

    /// The status of a pushed item.
    pub fn push_item(&self, position: usize) -> Option<ItemStatus> {
        self.find(|effect| match effect {
            Effect::PushItem { index, status } if index.is_none_or(|index| index == position) => {
                Some(*status)
            }
            _ => None,
        })
    }

    /// Push answers show no offsets.
    pub fn omit_offsets(&self) -> bool {
        self.effects.contains(&Effect::OmitOffsets)
    }

    /// Rows that a `getMany` shows at most.
    pub fn truncate_get_many(&self) -> Option<usize> {
        self.find(|effect| match effect {
            Effect::TruncateGetMany { rows } => Some(*rows),
            _ => None,
        })
    }

    /// The winner of a lost condition isn't shown.
    pub fn omit_winner(&self) -> bool {
        self.effects.contains(&Effect::OmitWinner)
    }

    /// How lanes never pushed to are shown.
    pub fn unknown_lane(&self) -> Option<UnknownLane> {
        self.find(|effect| match effect {
            Effect::UnknownLane { error: true } => Some(UnknownLane::Unknown),
            Effect::UnknownLane { error: false } => Some(UnknownLane::Empty),
            _ => None,
        })
    }

    /// As whom `/auth/me` answers.
    pub fn auth_me(&self) -> Option<AuthMe> {
        self.find(|effect| match effect {
            Effect::AuthMe { mode } => Some(*mode),
            _ => None,
        })
    }
}

fn contains(body: &[u8], text: &[u8]) -> bool {
    text.is_empty() || body.windows(text.len()).any(|window| window == text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rule_strikes_the_calls_it_counts_to() {
        let faults = Faults::default();
        faults.add(Rule {
            skip: 1,
            count: Some(2),
            ..Rule::always("push", Effect::DropAfter)
        });
        let struck: Vec<bool> = ["push", "fetch", "push", "push", "push"]
            .iter()
            .map(|route| faults.strike(route, b"").drop_after())
            .collect();
        assert_eq!(struck, [false, false, true, true, false]);
        let rule = Rule::always("push", Effect::DropBefore);
        faults.add(rule.clone());
        assert!(faults.strike("push", b"").drop_before());
        faults.remove(&rule);
        assert!(!faults.strike("push", b"").drop_before());
        assert_eq!(faults.rules().len(), 1, "the other stays");
        faults.clear();
        assert!(!faults.strike("push", b"").drop_after());
    }

    #[test]
    fn a_rule_can_ask_for_a_text() {
        let faults = Faults::default();
        faults.add(Rule {
            body_contains: Some("\"bad\"".into()),
            ..Rule::always("push", Effect::DropBefore)
        });
        assert!(faults.strike("push", br#"{"queue":"bad"}"#).drop_before());
        assert!(!faults.strike("push", br#"{"queue":"good"}"#).drop_before());
    }

    #[test]
    fn rules_read_as_json() {
        let rule: Rule = serde_json::from_str(
            r#"{"route":"kv","count":1,"effect":{"status":{"code":429,"retry_after":{"date_in":3}}}}"#,
        )
        .unwrap();
        assert_eq!(
            rule,
            Rule::once(
                "kv",
                Effect::Status {
                    code: 429,
                    retry_after: Some(RetryAfter::DateIn(3)),
                    body: None
                }
            )
        );
        assert!(serde_json::from_str::<Rule>(r#"{"effect":"drop_before","rout":"x"}"#).is_err());
    }
}
