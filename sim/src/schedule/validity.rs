//! What a step may hold in one world: what reads well can still name what isn't there, or last for
//! ever.

use kafka_wire::ApiKey;

use super::{Effect, Fault, Key, Link, Server, Step};

/// The longest that anything may last or be delayed, far beyond any timeout of any client.
const MAX_MS: u64 = 600_000;
/// The farthest that a clock may jump: two days.
const MAX_JUMP_MS: i64 = 172_800_000;

/// What a schedule may name.
#[derive(Clone, Debug)]
pub struct Bounds<'w> {
    /// Machines that are there.
    pub servers: &'w [Server],
    /// Links that are there.
    pub links: &'w [Link],
    /// Clients that are there.
    pub clients: &'w [String],
    /// API keys that are there.
    pub keys: &'w [Key],
}

/// A step that makes no sense in its world.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the step at {at_ms} ms, {fault}: {why}")]
pub struct Invalid {
    /// Its time.
    pub at_ms: u64,
    /// Its fault, as JSON.
    pub fault: String,
    /// What is wrong, and what would be right.
    pub why: String,
}

impl Step {
    /// Whether it makes sense within `bounds`.
    ///
    /// # Errors
    ///
    /// [`Invalid`], which says what would.
    pub fn validate(&self, bounds: &Bounds<'_>) -> Result<(), Invalid> {
        let judged = match self.at_ms {
            0..=MAX_MS => self.fault.judge(bounds),
            late => Err(format!("{late} is beyond every run; at most {MAX_MS}")),
        };
        judged.map_err(|why| Invalid {
            at_ms: self.at_ms,
            fault: self.fault.to_string(),
            why,
        })
    }
}

impl Fault {
    fn judge(&self, bounds: &Bounds<'_>) -> Result<(), String> {
        match self {
            Self::Crash { node, .. } | Self::Bounce { node, .. } => machine(*node, bounds),
            Self::Restart { node } if !node.is_facade() => {
                Err(format!("{node} doesn't drain; only facades do"))
            }
            Self::Restart { node } => machine(*node, bounds),
            Self::Pause { node, for_ms } => {
                machine(*node, bounds)?;
                lasts("for_ms", *for_ms)
            }
            Self::PauseClient { client, for_ms } => {
                if !bounds.clients.contains(client) {
                    let there = bounds.clients.join(", ");
                    return Err(format!("no client is called {client:?}; there are {there}"));
                }
                lasts("for_ms", *for_ms)
            }
            Self::Partition { link, .. }
            | Self::Repair { link }
            | Self::Hold { link }
            | Self::Release { link } => joined(*link, bounds),
            Self::Latency {
                link,
                ms,
                jitter_ms,
                for_ms,
            } => {
                joined(*link, bounds)?;
                lasts("ms", *ms)?;
                if *jitter_ms > MAX_MS {
                    return Err(format!("jitter_ms is {jitter_ms}; at most {MAX_MS}"));
                }
                lasts("for_ms", *for_ms)
            }
            Self::WallJump { node, by_ms } => {
                machine(*node, bounds)?;
                if by_ms.unsigned_abs() > MAX_JUMP_MS.unsigned_abs() {
                    return Err(format!(
                        "by_ms is {by_ms}; at most {MAX_JUMP_MS} either way"
                    ));
                }
                Ok(())
            }
            Self::Upstream {
                hop,
                count,
                for_ms,
                effect,
                ..
            } => {
                machine(hop.server(), bounds)?;
                match effect {
                    Effect::Status { code, .. } if !(400..=599).contains(code) => {
                        return Err(format!("status {code} is no failure; 400 to 599 are"));
                    }
                    Effect::Slow { ms } | Effect::StallAfter { ms } => lasts("ms", *ms)?,
                    _ => {}
                }
                if count.is_none() && for_ms.is_none() {
                    return Err("it never ends; give a count, or for_ms, or both".to_owned());
                }
                for_ms.map_or(Ok(()), |for_ms| lasts("for_ms", for_ms))
            }
            Self::Revoke { key } | Self::Narrow { key, .. } => held(*key, bounds),
            Self::Expire { key, in_ms } => {
                held(*key, bounds)?;
                lasts("in_ms", *in_ms)
            }
            Self::Rotate { key, overlap_ms } => {
                held(*key, bounds)?;
                match overlap_ms {
                    0 => Ok(()),
                    overlap_ms => lasts("overlap_ms", *overlap_ms),
                }
            }
            Self::DelayApi { api, ms, for_ms } => {
                if named(api).is_none() {
                    return Err(format!(
                        "no API is called {api:?}; names are Kafka's: Produce, SyncGroup, OffsetCommit"
                    ));
                }
                lasts("ms", *ms)?;
                lasts("for_ms", *for_ms)
            }
        }
    }
}

/// The API called `name`.
pub(crate) fn named(name: &str) -> Option<ApiKey> {
    (0..=i16::from(u8::MAX))
        .map(ApiKey)
        .find(|key| key.name() == Some(name))
}

fn machine(server: Server, bounds: &Bounds<'_>) -> Result<(), String> {
    there("machine", server, bounds.servers)
}

fn joined(link: Link, bounds: &Bounds<'_>) -> Result<(), String> {
    there("link", link, bounds.links)
}

fn held(key: Key, bounds: &Bounds<'_>) -> Result<(), String> {
    if bounds.keys.is_empty() {
        return Err("nobody asks for keys in this world".to_owned());
    }
    there("key", key, bounds.keys)
}

fn there<T: PartialEq + ToString>(what: &str, one: T, all: &[T]) -> Result<(), String> {
    if all.contains(&one) {
        return Ok(());
    }
    let names: Vec<_> = all.iter().map(ToString::to_string).collect();
    Err(format!(
        "this world has no {what} {}; it has {}",
        one.to_string(),
        names.join(", ")
    ))
}

fn lasts(field: &str, ms: u64) -> Result<(), String> {
    match ms {
        1..=MAX_MS => Ok(()),
        ms => Err(format!("{field} is {ms}; from 1 to {MAX_MS}")),
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Hop, Lost, Route, Unsynced};
    use super::*;

    fn why(fault: Fault) -> String {
        let clients = ["member-1".to_owned()];
        let bounds = Bounds {
            servers: &[Server::Facade, Server::Queen],
            links: &[Link::ClientsFacade, Link::FacadeQueen],
            clients: &clients,
            keys: &[],
        };
        let step = Step { at_ms: 1, fault };
        step.validate(&bounds)
            .map_or_else(|invalid| invalid.why, |()| String::new())
    }

    #[test]
    fn a_step_may_name_only_what_is_there() {
        let crash = |node| Fault::Crash {
            node,
            unsynced: Unsynced::Lost,
        };
        assert_eq!(why(crash(Server::Queen)), "");
        assert_eq!(
            why(crash(Server::Relay)),
            "this world has no machine relay; it has facade, queen"
        );
        assert_eq!(
            why(Fault::Partition {
                link: Link::RelayQueen,
                lost: Lost::Both
            }),
            "this world has no link relay_queen; it has clients_facade, facade_queen"
        );
        assert_eq!(
            why(Fault::PauseClient {
                client: "member-2".to_owned(),
                for_ms: 10
            }),
            "no client is called \"member-2\"; there are member-1"
        );
        assert_eq!(
            why(Fault::Restart {
                node: Server::Queen
            }),
            "queen doesn't drain; only facades do"
        );
    }

    #[test]
    fn keys_end_where_somebody_asks_for_them() {
        let revoke = Fault::Revoke { key: Key::Victim };
        assert_eq!(why(revoke.clone()), "nobody asks for keys in this world");
        let bounds = Bounds {
            servers: &[],
            links: &[],
            clients: &[],
            keys: &[Key::Victim],
        };
        let (at_ms, late) = (1, 600_001);
        let valid = |fault| Step { at_ms, fault }.validate(&bounds).is_ok();
        assert!(valid(revoke));
        assert!(!valid(Fault::Revoke { key: Key::Other }));
        let key = Key::Victim;
        assert!(!valid(Fault::Expire { key, in_ms: 0 }));
        assert!(valid(Fault::Rotate { key, overlap_ms: 0 }));
        assert!(!valid(Fault::Rotate {
            key,
            overlap_ms: late
        }));
    }

    #[test]
    fn whatever_lasts_ends() {
        let upstream = |count, for_ms, effect| Fault::Upstream {
            hop: Hop::Queen,
            route: Route::Any,
            skip: 0,
            count,
            for_ms,
            effect,
        };
        assert_eq!(why(upstream(Some(1), None, Effect::CutAfter)), "");
        assert_eq!(
            why(upstream(None, None, Effect::CutAfter)),
            "it never ends; give a count, or for_ms, or both"
        );
        let status = Effect::Status {
            code: 200,
            retry_after_s: None,
        };
        assert_eq!(
            why(upstream(Some(1), None, status)),
            "status 200 is no failure; 400 to 599 are"
        );
        assert_eq!(
            why(Fault::Pause {
                node: Server::Queen,
                for_ms: 0
            }),
            "for_ms is 0; from 1 to 600000"
        );
    }

    #[test]
    fn apis_are_called_by_kafkas_names() {
        let delay = |api: &str| Fault::DelayApi {
            api: api.to_owned(),
            ms: 10,
            for_ms: 10,
        };
        assert_eq!(why(delay("SyncGroup")), "");
        assert!(why(delay("sync_group")).starts_with("no API is called \"sync_group\""));
        assert_eq!(named("Produce"), Some(ApiKey::PRODUCE));
    }
}
