//! What a scenario's generated schedules may hold, and the strategies that make and shrink them.

use proptest::prelude::{BoxedStrategy, Just, Strategy, any, prop_oneof};
use proptest::sample::select;
use proptest::strategy::Union;

use super::{Effect, Fault, Hop, Key, Link, Lost, Route, Scope, Server, Step, TICK_MS, Unsynced};

/// A kind of fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "as the faults")]
pub enum Kind {
    Crash,
    Bounce,
    Restart,
    Pause,
    PauseClient,
    Partition,
    Repair,
    Hold,
    Release,
    Latency,
    WallJump,
    /// Calls to Queen that are refused with a status.
    Status,
    /// Calls to Queen that are refused with 429, all of a kind for a while.
    Throttle,
    /// Calls to Queen whose connection is cut, before or after they were done.
    Cut,
    /// Calls to Queen that wait, or whose answers do.
    Slow,
    /// Calls to Queen that end a transaction are cut, refused or slow.
    EndOfTransaction,
    DelayApi,
    Revoke,
    Expire,
    Narrow,
    Rotate,
}

impl Kind {
    /// Whether it strikes keys and nothing else.
    pub const fn ends_keys(self) -> bool {
        matches!(
            self,
            Self::Revoke | Self::Expire | Self::Narrow | Self::Rotate
        )
    }
}

/// What a scenario's generated schedules may hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rules {
    /// Faults strike before this; then the world heals.
    pub heal_at_ms: u64,
    /// Steps at most.
    pub max_steps: usize,
    /// Wall clocks jump at most so far in one step, forward or back.
    pub max_wall_jump_ms: i64,
    /// What lasts, lasts at most so long.
    pub max_lasting_ms: u64,
    /// Requests are late by at most so much, where that is less.
    pub max_delay_ms: u64,
    /// Which faults, and how often each among them.
    pub kinds: &'static [(u32, Kind)],
    /// Machines that may fail.
    pub servers: &'static [Server],
    /// Links that may fail.
    pub links: &'static [Link],
    /// Where calls to Queen may fail.
    pub hops: &'static [Hop],
    /// Clients that may be frozen.
    pub clients: &'static [&'static str],
    /// APIs whose requests may be late.
    pub apis: &'static [&'static str],
    /// API keys that may end.
    pub keys: &'static [Key],
}

/// Every fault that strikes machines, links and calls. Machines that only crash would spend most of
/// a run in silence, so what mends is as likely as what breaks.
pub const ANY: &[(u32, Kind)] = &[
    (2, Kind::Crash),
    (3, Kind::Bounce),
    (2, Kind::Restart),
    (2, Kind::Pause),
    (3, Kind::Partition),
    (4, Kind::Repair),
    (3, Kind::Hold),
    (4, Kind::Release),
    (2, Kind::Latency),
    (1, Kind::WallJump),
    (3, Kind::Status),
    (4, Kind::Cut),
    (3, Kind::Slow),
];

/// Schedules under `rules`, in order of time. They shrink towards fewer and earlier steps, and
/// within a step towards what lasts less.
pub fn schedules(rules: Rules) -> impl Strategy<Value = Vec<Step>> {
    let at = 1..rules.heal_at_ms / TICK_MS;
    let step = (at, fault(rules)).prop_map(|(tick, fault)| Step {
        at_ms: tick * TICK_MS,
        fault,
    });
    proptest::collection::vec(step, 1..=rules.max_steps).prop_map(|mut steps| {
        steps.sort_by_key(|step| step.at_ms);
        steps
    })
}

fn fault(rules: Rules) -> Union<BoxedStrategy<Fault>> {
    let kinds = rules.kinds.iter();
    Union::new_weighted(
        kinds
            .map(|(weight, kind)| (*weight, of(*kind, rules)))
            .collect(),
    )
}

/// Milliseconds in whole ticks, up to the longest that may last.
fn lasting(rules: Rules) -> impl Strategy<Value = u64> {
    up_to(rules.max_lasting_ms)
}

fn delay(rules: Rules) -> impl Strategy<Value = u64> {
    up_to(rules.max_delay_ms.min(rules.max_lasting_ms))
}

fn up_to(max_ms: u64) -> impl Strategy<Value = u64> {
    (1..=(max_ms / TICK_MS).max(1)).prop_map(|ticks| ticks * TICK_MS)
}

fn of(kind: Kind, rules: Rules) -> BoxedStrategy<Fault> {
    let server = || select(rules.servers);
    let link = || select(rules.links);
    let key = || select(rules.keys);
    let unsynced = || prop_oneof![Just(Unsynced::Kept), Just(Unsynced::Lost)];
    match kind {
        Kind::Crash => (server(), unsynced())
            .prop_map(|(node, unsynced)| Fault::Crash { node, unsynced })
            .boxed(),
        Kind::Bounce => (server(), unsynced())
            .prop_map(|(node, unsynced)| Fault::Bounce { node, unsynced })
            .boxed(),
        Kind::Restart => {
            let drain = rules.servers.iter().filter(|server| server.is_facade());
            select(drain.copied().collect::<Vec<_>>())
                .prop_map(|node| Fault::Restart { node })
                .boxed()
        }
        Kind::Pause => (server(), lasting(rules))
            .prop_map(|(node, for_ms)| Fault::Pause { node, for_ms })
            .boxed(),
        Kind::PauseClient => (select(rules.clients), lasting(rules))
            .prop_map(|(client, for_ms)| Fault::PauseClient {
                client: client.to_owned(),
                for_ms,
            })
            .boxed(),
        Kind::Partition => {
            let lost = prop_oneof![Just(Lost::Both), Just(Lost::Requests), Just(Lost::Answers)];
            (link(), lost)
                .prop_map(|(link, lost)| Fault::Partition { link, lost })
                .boxed()
        }
        Kind::Repair => link().prop_map(|link| Fault::Repair { link }).boxed(),
        Kind::Hold => link().prop_map(|link| Fault::Hold { link }).boxed(),
        Kind::Release => link().prop_map(|link| Fault::Release { link }).boxed(),
        Kind::Latency => (link(), 1_u64..300, 0_u64..700, lasting(rules))
            .prop_map(|(link, ms, jitter_ms, for_ms)| Fault::Latency {
                link,
                ms,
                jitter_ms,
                for_ms,
            })
            .boxed(),
        Kind::WallJump => (server(), any::<bool>(), 1..=rules.max_wall_jump_ms.max(1))
            .prop_map(|(node, back, ms)| Fault::WallJump {
                node,
                by_ms: if back { -ms } else { ms },
            })
            .boxed(),
        Kind::Status => {
            let code = prop_oneof![Just(429_u16), Just(503), Just(500)];
            let retry_after_s = prop_oneof![Just(None), (0_u64..4).prop_map(Some)];
            let effect = (code, retry_after_s).prop_map(|(code, retry_after_s)| Effect::Status {
                code,
                retry_after_s,
            });
            upstream(rules, effect.boxed())
        }
        Kind::Cut => {
            let effect = prop_oneof![Just(Effect::CutBefore), Just(Effect::CutAfter)];
            upstream(rules, effect.boxed())
        }
        Kind::Slow => {
            let effect = prop_oneof![
                lasting(rules).prop_map(|ms| Effect::Slow { ms }),
                lasting(rules).prop_map(|ms| Effect::StallAfter { ms }),
            ];
            upstream(rules, effect.boxed())
        }
        Kind::Throttle => {
            const ROUTES: &[Route] = &[
                Route::Push,
                Route::Kv,
                Route::Fetch,
                Route::Transaction,
                Route::Any,
            ];
            let retry_after_s = prop_oneof![Just(None), (0_u64..4).prop_map(Some)];
            let effect = retry_after_s.prop_map(|retry_after_s| Effect::Status {
                code: 429,
                retry_after_s,
            });
            (select(rules.hops), select(ROUTES), lasting(rules), effect)
                .prop_map(|(hop, route, for_ms, effect)| Fault::Upstream {
                    hop,
                    route,
                    skip: 0,
                    count: None,
                    for_ms: Some(for_ms),
                    effect,
                })
                .boxed()
        }
        Kind::EndOfTransaction => {
            let code = prop_oneof![Just(429_u16), Just(503), Just(500)];
            let effect = prop_oneof![
                1 => Just(Effect::CutBefore),
                3 => Just(Effect::CutAfter),
                1 => lasting(rules).prop_map(|ms| Effect::Slow { ms }),
                2 => lasting(rules).prop_map(|ms| Effect::StallAfter { ms }),
                1 => code.prop_map(|code| Effect::Status {
                    code,
                    retry_after_s: None,
                }),
            ];
            upstream_on(&[Route::Transaction, Route::Kv], rules, effect.boxed())
        }
        Kind::Revoke => key().prop_map(|key| Fault::Revoke { key }).boxed(),
        Kind::Expire => (key(), lasting(rules))
            .prop_map(|(key, in_ms)| Fault::Expire { key, in_ms })
            .boxed(),
        Kind::Narrow => {
            let scope = prop_oneof![
                Just(Scope::Produce),
                Just(Scope::Consume),
                Just(Scope::Read),
                Just(Scope::Admin),
            ];
            (key(), scope)
                .prop_map(|(key, scope)| Fault::Narrow { key, scope })
                .boxed()
        }
        Kind::Rotate => {
            let overlap = prop_oneof![Just(0), lasting(rules)];
            (key(), overlap)
                .prop_map(|(key, overlap_ms)| Fault::Rotate { key, overlap_ms })
                .boxed()
        }
        Kind::DelayApi => (select(rules.apis), delay(rules), lasting(rules))
            .prop_map(|(api, ms, for_ms)| Fault::DelayApi {
                api: api.to_owned(),
                ms,
                for_ms,
            })
            .boxed(),
    }
}

fn upstream(rules: Rules, effect: BoxedStrategy<Effect>) -> BoxedStrategy<Fault> {
    // Listing queues and probing health are rare: a rule for them alone would mostly strike nothing.
    const ROUTES: &[Route] = &[
        Route::Push,
        Route::Kv,
        Route::Fetch,
        Route::Configure,
        Route::Any,
    ];
    upstream_on(ROUTES, rules, effect)
}

fn upstream_on(
    routes: &'static [Route],
    rules: Rules,
    effect: BoxedStrategy<Effect>,
) -> BoxedStrategy<Fault> {
    (
        select(rules.hops),
        select(routes),
        0_u64..6,
        prop_oneof![3 => (1_u64..4).prop_map(Some), 1 => Just(None)],
        lasting(rules),
        effect,
    )
        .prop_map(
            |(hop, route, skip, count, for_ms, effect)| Fault::Upstream {
                hop,
                route,
                skip,
                count,
                for_ms: Some(for_ms),
                effect,
            },
        )
        .boxed()
}

#[cfg(test)]
mod tests {
    use proptest::strategy::ValueTree;
    use proptest::test_runner::TestRunner;

    use super::super::Bounds;
    use super::*;

    #[test]
    fn whatever_is_generated_is_valid_and_every_kind_comes() {
        const KINDS: &[(u32, Kind)] = &[
            ANY[0],
            ANY[4],
            (1, Kind::PauseClient),
            (1, Kind::DelayApi),
            (1, Kind::Slow),
            (1, Kind::Revoke),
            (1, Kind::Expire),
            (1, Kind::Narrow),
            (1, Kind::Rotate),
        ];
        let rules = Rules {
            heal_at_ms: 8_000,
            max_steps: 8,
            max_wall_jump_ms: 600_000,
            max_lasting_ms: 3_000,
            max_delay_ms: 1_000,
            kinds: KINDS,
            servers: &[Server::Facade, Server::Queen],
            links: &[Link::ClientsFacade, Link::FacadeQueen],
            hops: &[Hop::Queen],
            clients: &["member-1"],
            apis: &["SyncGroup"],
            keys: &[Key::Victim],
        };
        let clients = ["member-1".to_owned()];
        let bounds = Bounds {
            servers: rules.servers,
            links: rules.links,
            clients: &clients,
            keys: rules.keys,
        };
        let mut runner = TestRunner::deterministic();
        let mut seen = std::collections::BTreeSet::new();
        for _ in 0..200 {
            let tree = schedules(rules).new_tree(&mut runner).unwrap();
            for step in tree.current() {
                assert_eq!(step.validate(&bounds), Ok(()));
                assert!((1..8_000).contains(&step.at_ms));
                if let Fault::DelayApi { ms, .. } = step.fault {
                    assert!(ms <= rules.max_delay_ms, "{ms}");
                }
                let json = serde_json::to_value(&step.fault).unwrap();
                seen.insert(json["fault"].to_string());
            }
        }
        assert_eq!(seen.len(), 9, "{seen:?}");
    }
}
