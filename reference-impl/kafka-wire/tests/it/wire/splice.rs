//! Splice beyond what the typed crate can say: dropped elements, numbers, ids, nulls, misfits, and
//! the golden frames of versions the crate lacks.

use bytes::Bytes;
use kafka_protocol::messages::metadata_response::{MetadataResponseBroker, MetadataResponseTopic};
use kafka_protocol::messages::produce_response::NodeEndpoint;
use kafka_protocol::messages::{
    ApiVersionsRequest, BrokerId, ConsumerProtocolSubscription, GroupId, ListGroupsResponse,
    MetadataResponse, ProduceResponse, TopicName, list_groups_response::ListedGroup,
};
use kafka_protocol::protocol::{Encodable, StrBytes};
use kafka_wire::api::ApiKey;
use kafka_wire::schema::{self, Role, RoleSet};
use kafka_wire::splice::{self, Edit, Editor, Misfit, SpliceError, Spliced};
use kafka_wire::walk::{Datum, Limits, Place, Value, VisitError};
use proptest::prelude::*;

use super::golden::{self, Golden, Owned, Side};
use super::random::{self, Dice};
use super::walk::{ALL_TOPICS_OF_LIBRDKAFKA, Everything, visit};

/// An editor out of a function.
struct By<F>(RoleSet, F);

impl<F, R> Editor for By<F>
where
    F: for<'v> FnMut(&'v Value<'_>) -> Result<Edit<'v>, R>,
{
    type Refusal = R;

    fn roles(&self) -> RoleSet {
        self.0
    }

    fn edit<'e>(&'e mut self, _: &'e Place<'_>, value: &'e Value<'_>) -> Result<Edit<'e>, R> {
        (self.1)(value)
    }
}

/// Ties the lifetimes of a closure to those of [`By`].
fn by<F, R>(roles: &[Role], edit: F) -> By<F>
where
    F: for<'v> FnMut(&'v Value<'_>) -> Result<Edit<'v>, R>,
{
    By(RoleSet::of(roles), edit)
}

fn text<'v>(value: &'v Value<'_>) -> &'v str {
    match value.datum {
        Datum::Text(text) => text,
        _ => "",
    }
}

fn bytes(message: &impl Encodable, version: i16) -> Bytes {
    let mut out = Vec::new();
    message.encode(&mut out, version).expect("encodes");
    out.into()
}

fn name(name: &str) -> TopicName {
    TopicName(StrBytes::from(name.to_owned()))
}

fn response<E: Editor<Refusal = ()>>(
    key: ApiKey,
    version: i16,
    body: &Bytes,
    editor: &mut E,
) -> Result<Spliced, SpliceError<()>> {
    splice::response(key, version, body, &Limits::DEFAULT, editor)
}

#[test]
fn dropped_topics_are_gone_and_counted_out_as_if_never_there() {
    let topics = ["t1.a", "other", "t1.b", "other2", "t1.c"];
    let all = |keep: &dyn Fn(&str) -> bool| {
        let mut message = MetadataResponse::default();
        message.brokers = vec![MetadataResponseBroker::default().with_host("h".into())];
        message.topics = topics
            .iter()
            .filter(|topic| keep(topic))
            .map(|topic| MetadataResponseTopic::default().with_name(Some(name(topic))))
            .collect();
        message
    };
    for version in 0..=13 {
        let body = bytes(&all(&|_| true), version);
        let mut seen = Vec::new();
        let mut editor = by(&[Role::Topic], |value| {
            seen.push(text(value).to_owned());
            Ok(if text(value).starts_with("t1.") {
                Edit::Keep
            } else {
                Edit::DropElement
            })
        });
        let spliced = response(ApiKey::METADATA, version, &body, &mut editor).expect("splices");
        assert_eq!(seen, topics);
        let wanted = bytes(&all(&|topic| topic.starts_with("t1.")), version);
        assert_eq!(spliced.to_bytes(), wanted, "v{version}");
        // None left, and all left.
        let mut editor = by(&[Role::Topic], |_| Ok(Edit::DropElement));
        let none = response(ApiKey::METADATA, version, &body, &mut editor).expect("splices");
        assert_eq!(
            none.to_bytes(),
            bytes(&all(&|_| false), version),
            "v{version}"
        );
    }
}

#[test]
fn edits_inside_a_dropped_element_are_dropped_with_it() {
    let groups = |names: &[&str], types: &[&str]| {
        let listed = names.iter().zip(types).map(|(group, kind)| {
            ListedGroup::default()
                .with_group_id(GroupId(StrBytes::from((*group).to_owned())))
                .with_protocol_type(StrBytes::from((*kind).to_owned()))
        });
        ListGroupsResponse::default().with_groups(listed.collect())
    };
    let body = bytes(
        &groups(&["t1.a", "x", "t1.b"], &["consumer", "c", "consumer"]),
        2,
    );
    // Strips the prefix, and renames the type (which means nothing, but stands behind the name).
    let mut editor = by(&[Role::Group, Role::Opaque], |value| {
        Ok(match (value.field.role, text(value).strip_prefix("t1.")) {
            (Role::Group, Some(stripped)) => Edit::Text(stripped.into()),
            (Role::Group, None) => Edit::DropElement,
            _ => Edit::Text("longer than it was".into()),
        })
    });
    let spliced = response(ApiKey::LIST_GROUPS, 2, &body, &mut editor).expect("splices");
    let kind = "longer than it was";
    assert_eq!(
        spliced.to_bytes(),
        bytes(&groups(&["a", "b"], &[kind, kind]), 2)
    );
}

#[test]
fn a_tagged_field_that_grows_past_a_varint_byte_says_so() {
    let endpoints = |host: &str, port: i32| {
        let nodes = (0..3).map(|node| {
            NodeEndpoint::default()
                .with_node_id(BrokerId(node))
                .with_host(StrBytes::from(host.to_owned()))
                .with_port(port)
        });
        ProduceResponse::default().with_node_endpoints(nodes.collect())
    };
    let body = bytes(&endpoints("b", 9092), 10);
    let long = "a-very-long-name-of-the-one-address-that-all-brokers-have.example";
    let mut editor = by(&[Role::Host, Role::Port], |value| {
        Ok(match value.field.role {
            Role::Host => Edit::Text(long.into()),
            _ => Edit::Int(19092),
        })
    });
    let spliced = response(ApiKey::PRODUCE, 10, &body, &mut editor).expect("splices");
    assert_eq!(spliced.to_bytes(), bytes(&endpoints(long, 19092), 10));
    // And back, past it the other way.
    let mut editor = by(&[Role::Host, Role::Port], |value| {
        Ok(match value.field.role {
            Role::Host => Edit::Text("b".into()),
            _ => Edit::Int(9092),
        })
    });
    let back = response(ApiKey::PRODUCE, 10, &spliced.to_bytes(), &mut editor).expect("splices");
    assert_eq!(back.to_bytes(), body);
}

#[test]
fn elements_dropped_inside_a_tagged_field_shrink_its_size() {
    let endpoints = |hosts: &[&str]| {
        let nodes = hosts
            .iter()
            .map(|host| NodeEndpoint::default().with_host(StrBytes::from((*host).to_owned())));
        ProduceResponse::default().with_node_endpoints(nodes.collect())
    };
    let body = bytes(&endpoints(&["a", "gone", "c"]), 12);
    let mut editor = by(&[Role::Host], |value| {
        Ok(if text(value) == "gone" {
            Edit::DropElement
        } else {
            Edit::Keep
        })
    });
    let spliced = response(ApiKey::PRODUCE, 12, &body, &mut editor).expect("splices");
    assert_eq!(spliced.to_bytes(), bytes(&endpoints(&["a", "c"]), 12));
}

#[test]
fn a_null_is_put_where_the_version_has_one_and_nowhere_else() {
    let body = bytes(
        &MetadataResponse::default()
            .with_cluster_id(Some("cluster".into()))
            .with_topics(vec![
                MetadataResponseTopic::default().with_name(Some(name("t"))),
            ]),
        12,
    );
    let mut editor = by(&[Role::ClusterId, Role::Topic], |_| Ok(Edit::Null));
    let spliced = response(ApiKey::METADATA, 12, &body, &mut editor).expect("splices");
    let topic = MetadataResponseTopic::default().with_name(None);
    let wanted = MetadataResponse::default().with_topics(vec![topic]);
    assert_eq!(spliced.to_bytes(), bytes(&wanted, 12));
    // In version 11 topics have names.
    let body = bytes(
        &MetadataResponse::default().with_topics(vec![
            MetadataResponseTopic::default().with_name(Some(name("t"))),
        ]),
        11,
    );
    let mut editor = by(&[Role::Topic], |_| Ok(Edit::Null));
    let refused = response(ApiKey::METADATA, 11, &body, &mut editor);
    let misfit = Misfit::Null;
    assert_eq!(
        refused.expect_err("misfit"),
        SpliceError::Misfit {
            field: "Name",
            misfit
        }
    );
}

#[test]
fn an_edit_that_does_not_fit_is_named_and_nothing_is_forwarded() {
    let broker = MetadataResponseBroker::default()
        .with_host("h".into())
        .with_port(1);
    let body = bytes(&MetadataResponse::default().with_brokers(vec![broker]), 8);
    let misfit = |role: Role, edit: Edit<'static>| {
        let mut editor = by(&[role], |_| Ok(edit.clone()));
        match response(ApiKey::METADATA, 8, &body, &mut editor) {
            Err(SpliceError::Misfit { misfit, .. }) => misfit,
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(misfit(Role::Port, Edit::Text("9092".into())), Misfit::Type);
    assert_eq!(misfit(Role::Port, Edit::Int(1 << 40)), Misfit::Range);
    assert_eq!(misfit(Role::Host, Edit::Int(1)), Misfit::Type);
    assert_eq!(misfit(Role::Host, Edit::Null), Misfit::Null);
    assert_eq!(
        misfit(Role::Host, Edit::Text("h".repeat(0x8000).into())),
        Misfit::Length
    );
    assert_eq!(
        misfit(Role::ThrottleMs, Edit::DropElement),
        Misfit::NoElement
    );
    let mut refuses = by(&[Role::Host], |_| Err("no"));
    let refused = splice::response(ApiKey::METADATA, 8, &body, &Limits::DEFAULT, &mut refuses);
    assert_eq!(refused.expect_err("refused"), SpliceError::Refused("no"));
    let mut keeps = by(&[Role::Host], |_| Ok::<_, ()>(Edit::Keep));
    let cut = body.slice(..body.len() - 1);
    let malformed = response(ApiKey::METADATA, 8, &cut, &mut keeps);
    assert!(matches!(malformed, Err(SpliceError::Walk(_))));
}

#[test]
fn records_are_forwarded_as_the_slice_they_came_in() {
    // Produce v9: two names to rewrite around 100 kB.
    let mut body = vec![0, 0, 1, 0, 0, 0, 9, 3];
    for topic in [b'a', b'b'] {
        body.extend([2, topic, 2, 0, 0, 0, 0]);
        random::varint(&mut body, 50_001);
        body.extend(vec![topic; 50_000]);
        body.extend([0, 0]);
    }
    body.push(0);
    let body = Bytes::from(body);
    let mut editor = by(&[Role::Topic], |value| {
        Ok::<_, ()>(Edit::Joined("tenant-", text(value)))
    });
    let spliced =
        splice::request(ApiKey::PRODUCE, 9, &body, &Limits::DEFAULT, &mut editor).expect("splices");
    assert_eq!(spliced.len(), body.len() + 2 * "tenant-".len());
    let inside = body.as_ptr_range();
    let forwarded: usize = spliced
        .segments()
        .iter()
        .filter(|segment| inside.contains(&segment.as_ptr()))
        .map(Bytes::len)
        .sum();
    assert!(forwarded >= 100_000, "{forwarded}");
    assert_eq!(spliced.segments().len(), 4);
    assert_eq!(
        spliced.io_slices().map(|slice| slice.len()).sum::<usize>(),
        spliced.len()
    );
}

#[test]
fn blobs_are_spliced_inside_and_their_unknown_rest_is_kept() {
    let subscription = |topics: &[&str]| {
        let topics = topics
            .iter()
            .map(|topic| StrBytes::from((*topic).to_owned()));
        let message = ConsumerProtocolSubscription::default().with_topics(topics.collect());
        [&[0, 1], &bytes(&message, 1)[..], b"from a newer version"].concat()
    };
    let blob = subscription(&["t1.a", "t1.b"]);
    let message = schema::CONSUMER_PROTOCOL_SUBSCRIPTION;
    let mut editor = by(&[Role::Topic], |value| {
        Ok::<_, ()>(Edit::Text(
            text(value).strip_prefix("t1.").unwrap_or("").into(),
        ))
    });
    let spliced = splice::blob(message, &blob, &Limits::DEFAULT, &mut editor).expect("splices");
    assert_eq!(spliced, Some(subscription(&["a", "b"])));
    let mut keeps = by(&[Role::Topic], |_| Ok::<_, ()>(Edit::Keep));
    assert_eq!(
        splice::blob(message, &blob, &Limits::DEFAULT, &mut keeps),
        Ok(None)
    );
}

#[test]
fn what_is_written_back_as_it_was_is_no_edit() {
    let body = bytes(
        &ApiVersionsRequest::default().with_client_software_name("name".into()),
        3,
    );
    let mut editor = by(&[Role::Opaque], |value| {
        Ok::<_, ()>(Edit::Text(text(value).to_owned().into()))
    });
    let spliced = splice::request(
        ApiKey::API_VERSIONS,
        3,
        &body,
        &Limits::DEFAULT,
        &mut editor,
    )
    .expect("splices");
    assert_eq!(spliced.segments().len(), 1);
    assert_eq!(spliced.segments()[0].as_ptr(), body.as_ptr());
}

fn spliced<E: Editor<Refusal = ()>>(golden: &Golden, editor: &mut E) -> Bytes {
    let body = Bytes::copy_from_slice(golden.body());
    if golden.side == Side::Blob {
        let out = splice::blob(golden.message, &body, &Limits::DEFAULT, editor);
        return out.expect("splices").map_or(body, Bytes::from);
    }
    splice::message(
        golden.message,
        golden.version,
        &body,
        &Limits::DEFAULT,
        editor,
    )
    .unwrap_or_else(|error| panic!("{}: {error:?}", golden.title()))
    .to_bytes()
}

#[test]
fn golden_frames_of_every_version_keep_all_but_what_is_edited() {
    const EDITED: &[Role] = &[
        Role::Topic,
        Role::Group,
        Role::TopicId,
        Role::NodeId,
        Role::Port,
        Role::ThrottleMs,
        Role::ErrorMessage,
        Role::Records,
    ];
    for golden in golden::all() {
        let mut editor = by(EDITED, |value| {
            Ok(match (value.field.role, value.datum) {
                (_, Datum::Null) => Edit::Keep,
                (Role::TopicId, _) => Edit::Uuid([9; 16]),
                (Role::NodeId, _) => Edit::Int(7),
                (Role::Port, _) => Edit::Int(19092),
                (Role::ThrottleMs, _) => Edit::Int(123),
                (Role::Records, _) => Edit::Bytes(vec![1; 300].into()),
                (_, Datum::Text(text)) => Edit::Joined("an édited name of no small length, ", text),
                _ => Edit::Keep,
            })
        });
        let edited = spliced(&golden, &mut editor);
        let (mut before, mut after) = (Everything::default(), Everything::default());
        visit(&golden, golden.body(), &mut before).expect("golden");
        visit(&golden, &edited, &mut after)
            .unwrap_or_else(|error| panic!("{}: {error:?}", golden.title()));
        let wanted: Vec<_> = before
            .0
            .into_iter()
            .zip(&before.1)
            .map(|(mut seen, role)| {
                match (role, &mut seen.datum) {
                    (_, Owned::Null) => {}
                    (Role::TopicId, Owned::Uuid(id)) => *id = [9; 16],
                    (Role::NodeId, Owned::Int(id)) => *id = 7,
                    (Role::Port, Owned::Int(port)) => *port = 19092,
                    (Role::ThrottleMs, Owned::Int(wait)) => *wait = 123,
                    (Role::Records, Owned::Bytes(records)) => *records = vec![1; 300],
                    (Role::Topic | Role::Group | Role::ErrorMessage, Owned::Text(text)) => {
                        text.insert_str(0, "an édited name of no small length, ")
                    }
                    _ => {}
                }
                seen
            })
            .collect();
        assert_eq!(after.0, wanted, "{}", golden.title());
    }
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 12, failure_persistence: None, ..ProptestConfig::default()
    })]

    /// Whatever an editor does, what comes out is a message with what it kept.
    #[test]
    fn any_mix_of_edits_leaves_a_message(seed: u64) {
        let mut dice = Dice(seed);
        for message in super::schema::messages() {
            for version in message.versions.iter() {
                let body = Bytes::from(random::body(message, version, &mut dice, true));
                let mut editor = by(Role::ALL, |value| {
                    Ok::<_, ()>(match (dice.below(6), value.datum) {
                        (0, Datum::Text(text)) => Edit::Joined("kept.", text),
                        (1, Datum::Text(_)) => Edit::Text("kept".into()),
                        (2, Datum::Bytes(_)) => Edit::Bytes(vec![3; dice.below(400) as usize].into()),
                        (3, Datum::Uuid(_)) => Edit::Uuid([4; 16]),
                        (4, _) if dice.one_in(8) => Edit::DropElement,
                        _ => Edit::Keep,
                    })
                });
                let limits = Limits::DEFAULT;
                match splice::message(message, version, &body, &limits, &mut editor) {
                    Ok(spliced) => {
                        let bytes = spliced.to_bytes();
                        prop_assert_eq!(bytes.len(), spliced.len());
                        let mut seen = Everything::default();
                        let walked = kafka_wire::walk::visit(
                            message, version, &bytes, &limits, &mut seen,
                        );
                        prop_assert!(
                            !matches!(walked, Err(VisitError::Walk(_))),
                            "{} v{}: {:?}", message.name, version, walked,
                        );
                    }
                    // A value that stands in no array cannot be dropped.
                    Err(SpliceError::Misfit { misfit, .. }) => {
                        prop_assert_eq!(misfit, Misfit::NoElement)
                    }
                    Err(other) => prop_assert!(false, "{}: {:?}", message.name, other),
                }
            }
        }
    }
}

#[test]
fn what_a_client_leaves_behind_the_end_is_forwarded_too() {
    let body = Bytes::from_static(ALL_TOPICS_OF_LIBRDKAFKA);
    let mut keep = by(&[Role::Topic], |_| Ok::<_, ()>(Edit::Keep));
    let spliced = splice::request(ApiKey::METADATA, 13, &body, &Limits::CLIENT, &mut keep);
    assert_eq!(spliced.expect("well-formed").to_bytes(), body);
}
