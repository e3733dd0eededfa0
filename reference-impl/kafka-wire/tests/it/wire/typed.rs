//! The table held to the typed crate: for every API and version the crate knows, random messages
//! both ways.

use bytes::Bytes;
use kafka_wire::api::VersionRange;
use kafka_wire::schema::{Message, Role, RoleSet};
use kafka_wire::splice::{self, Edit, Editor};
use kafka_wire::walk::{self, Datum, Limits, Place, Value};
use proptest::prelude::*;

use super::random::{self, Dice};
use super::typed_crate::{Typed, typed};
use super::walk::Everything;

/// Every message of the crate in every version that the table has too, with a random body.
fn bodies(seed: u64, unknown_tags: bool) -> impl Iterator<Item = (Typed, i16, Vec<u8>)> {
    let mut dice = Dice(seed);
    typed().into_iter().flat_map(move |typed| {
        let versions = typed.versions.intersect(typed.message.versions);
        let versions = versions.unwrap_or(VersionRange::NONE);
        let each: Vec<_> = versions
            .iter()
            .map(|version| {
                let body = random::body(typed.message, version, &mut dice, unknown_tags);
                (typed, version, body)
            })
            .collect();
        each
    })
}

fn again(typed: &Typed, body: &[u8], version: i16) -> (Vec<u8>, String) {
    (typed.again)(body, version)
        .unwrap_or_else(|fault| panic!("{} v{version}: {fault}", typed.message.name))
}

fn seen(message: &'static Message, version: i16, body: &[u8]) -> Everything {
    let mut seen = Everything::default();
    walk::visit(message, version, body, &Limits::DEFAULT, &mut seen)
        .unwrap_or_else(|error| panic!("{} v{version}: {error:?}", message.name));
    seen
}

/// Puts a prefix in front of every topic, group and transactional id.
struct Prefix {
    prefix: &'static str,
    count: usize,
}

impl Editor for Prefix {
    type Refusal = ();

    fn roles(&self) -> RoleSet {
        const { RoleSet::of(&[Role::Topic, Role::Group, Role::TransactionalId]) }
    }

    fn edit<'e>(&'e mut self, _: &'e Place<'_>, value: &'e Value<'_>) -> Result<Edit<'e>, ()> {
        Ok(match value.datum {
            Datum::Text(name) => {
                self.count += 1;
                Edit::Joined(self.prefix, name)
            }
            _ => Edit::Keep,
        })
    }
}

/// Each case is one body for every message and version: some 700.
fn cases() -> ProptestConfig {
    ProptestConfig {
        cases: 12,
        failure_persistence: None,
        ..ProptestConfig::default()
    }
}

#[test]
fn the_crate_and_the_table_share_all_but_the_newest_versions() {
    let typed = typed();
    let missing: Vec<String> = super::schema::messages()
        .into_iter()
        .filter(|message| message.name.ends_with("Request"))
        .flat_map(|message| {
            let known = typed
                .iter()
                .find(|typed| typed.message.name == message.name);
            let known = known.map_or(VersionRange::NONE, |typed| typed.versions);
            let lacking = message.versions.iter().filter(move |v| !known.contains(*v));
            lacking.map(|version| format!("{} {version}", message.name.trim_end_matches("Request")))
        })
        .collect();
    assert_eq!(missing, LACKING);
    assert_eq!(typed.len(), 2 * 87);
}

/// Versions that Kafka 4.4 has and the crate lacks: held by golden frames alone. When the list
/// shrinks, the crate has caught up.
const LACKING: &[&str] = &[
    "ListOffsets 11",
    "OffsetCommit 10",
    "OffsetFetch 10",
    "ApiVersions 5",
    "InitProducerId 6",
    "WriteTxnMarkers 2",
    "TxnOffsetCommit 6",
    "DescribeLogDirs 5",
    "DeleteGroups 3",
    "BrokerHeartbeat 2",
    "ShareFetch 2",
    "ShareAcknowledge 2",
    "AddRaftVoter 1",
    "WriteShareGroupState 1",
    "ReadShareGroupStateSummary 1",
    "StreamsGroupHeartbeat 0",
    "StreamsGroupHeartbeat 1",
    "StreamsGroupDescribe 0",
    "StreamsGroupDescribe 1",
    "DescribeShareGroupOffsets 1",
    "StreamsGroupTopologyDescriptionUpdate 0",
    "UnregisterController 0",
];

/// What decoding may take: a few hundred bytes per element that was walked, and for each message
/// whatever its own fields take; never what a length on the wire says.
const CRATE_BYTES: u64 = 1 << 16;
const CRATE_BYTES_PER_ELEMENT: u64 = 1 << 10;

proptest! {
    #![proptest_config(cases())]

    /// The point of the walk: no byte that passes it makes the crate panic, refuse, leave something
    /// over or ask for memory that the frame does not pay for.
    #[test]
    fn what_walk_passes_of_broken_bodies_costs_the_crate_no_more_than_it_holds(seed: u64) {
        let mut dice = Dice(seed ^ 0x5eed);
        let mut passed = 0;
        for (typed, version, body) in bodies(seed, true) {
            for _ in 0..6 {
                let mut body = body.clone();
                for _ in 0..1 + dice.below(3) {
                    let at = dice.below(body.len().max(1) as u64) as usize;
                    match body.get_mut(at) {
                        Some(byte) if dice.one_in(2) => *byte = dice.next() as u8,
                        Some(byte) => *byte = [0, 1, 0x7f, 0x80, 0xff][dice.below(5) as usize],
                        None => {}
                    }
                }
                let Some(elements) = kafka_wire::fuzz::walks(typed.message, version, &body) else {
                    continue;
                };
                passed += 1;
                let cost = allocation_counter::measure(|| {
                    let outcome = (typed.decode)(&body, version);
                    assert_eq!(outcome, Ok(()), "{} v{version} {body:?}", typed.message.name);
                });
                let most = CRATE_BYTES
                    + CRATE_BYTES_PER_ELEMENT * u64::from(elements)
                    + 8 * body.len() as u64;
                prop_assert!(cost.bytes_max <= most, "{} v{}: {}", typed.message.name, version, cost.bytes_max);
            }
        }
        prop_assert!(passed > 500, "{passed} broken bodies passed");
    }

    #[test]
    fn what_walk_passes_the_crate_decodes_to_the_last_byte_and_walk_reads_what_it_encodes(
        seed: u64, unknown_tags: bool,
    ) {
        for (typed, version, body) in bodies(seed, unknown_tags) {
            let ours = seen(typed.message, version, &body);
            let (encoded, words) = again(&typed, &body, version);
            let theirs = seen(typed.message, version, &encoded);
            let (_, words_again) = again(&typed, &encoded, version);
            prop_assert_eq!(&words, &words_again);
            // Tagged fields that hold their default are left away by the crate, as by Kafka.
            if encoded.len() == body.len() {
                prop_assert_eq!(&ours.0, &theirs.0, "{} v{}", typed.message.name, version);
            }
            let names = |seen: &Everything| {
                seen.0.iter().filter(|seen| seen.is_name()).cloned().collect::<Vec<_>>()
            };
            prop_assert_eq!(names(&ours), names(&theirs), "{} v{}", typed.message.name, version);
        }
    }

    #[test]
    fn splicing_a_prefix_is_decoding_editing_and_encoding(seed: u64) {
        for (typed, version, body) in bodies(seed, true) {
            let title = format!("{} v{version}", typed.message.name);
            // As the crate writes it, so that both come from one hand.
            let (body, words) = again(&typed, &body, version);
            let body = Bytes::from(body);
            let mut prefix = Prefix { prefix: "zz.", count: 0 };
            let limits = Limits::DEFAULT;
            let spliced = splice::message(typed.message, version, &body, &limits, &mut prefix);
            let spliced = spliced.unwrap_or_else(|error| panic!("{title}: {error:?}"));
            let bytes = spliced.to_bytes();
            prop_assert_eq!(bytes.len(), spliced.len());
            let (encoded, edited) = again(&typed, &bytes, version);
            // The crate writes the very bytes that splice put together,
            prop_assert_eq!(&encoded, &bytes, "{}", title);
            // and they differ from the original by a prefix on each name, and by nothing else.
            prop_assert_eq!(edited.matches("zz.").count(), prefix.count, "{}", title);
            prop_assert_eq!(edited.replace("zz.", ""), words, "{}", title);
        }
    }

    #[test]
    fn splicing_nothing_forwards_the_very_slice(seed: u64) {
        struct Look;
        impl Editor for Look {
            type Refusal = ();
            fn roles(&self) -> RoleSet {
                RoleSet::of(Role::ALL)
            }
            fn edit<'e>(&'e mut self, _: &'e Place<'_>, _: &'e Value<'_>) -> Result<Edit<'e>, ()> {
                Ok(Edit::Keep)
            }
        }
        for (typed, version, body) in bodies(seed, true) {
            let body = Bytes::from(body);
            let spliced =
                splice::message(typed.message, version, &body, &Limits::DEFAULT, &mut Look)
                    .expect("a body");
            prop_assert_eq!(spliced.len(), body.len());
            prop_assert_eq!(&spliced.to_bytes(), &body);
        }
    }
}
