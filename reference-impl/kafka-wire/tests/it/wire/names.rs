//! Names found, with what they name.

use bytes::Bytes;
use kafka_protocol::messages::create_acls_request::AclCreation;
use kafka_protocol::messages::describe_configs_request::DescribeConfigsResource;
use kafka_protocol::messages::join_group_request::JoinGroupRequestProtocol;
use kafka_protocol::messages::metadata_request::MetadataRequestTopic;
use kafka_protocol::messages::{
    ConsumerProtocolSubscription, CreateAclsRequest, DescribeAclsRequest, DescribeConfigsRequest,
    FindCoordinatorRequest, GroupId, JoinGroupRequest, MetadataRequest, TopicName,
};
use kafka_protocol::protocol::{Encodable, StrBytes};
use kafka_wire::api::ApiKey;
use kafka_wire::names::{self, Context, Form, Name, Subject, Text};
use kafka_wire::walk::Limits;
use kafka_wire::{schema, walk};
use rstest::rstest;

use super::golden::{self, Side};

fn bytes(message: &impl Encodable, version: i16) -> Bytes {
    let mut out = Vec::new();
    message.encode(&mut out, version).expect("encodes");
    out.into()
}

fn text(text: &str) -> StrBytes {
    StrBytes::from(text.to_owned())
}

fn found(key: ApiKey, version: i16, message: &impl Encodable) -> Vec<(Subject, Form, String)> {
    let body = bytes(message, version);
    let mut found = Vec::new();
    names::request(key, version, &body, &Limits::DEFAULT, |name| {
        found.push(owned(name))
    })
    .expect("a body");
    found
}

fn owned(name: Name<'_>) -> (Subject, Form, String) {
    let text = match name.text {
        Text::Name(text) => text.to_owned(),
        Text::Id(id) => uuid_hex(id),
    };
    (name.subject, name.form, text)
}

fn uuid_hex(id: [u8; 16]) -> String {
    id.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[test]
fn topics_come_by_name_and_by_id() {
    let topic = |name: Option<&str>| {
        MetadataRequestTopic::default().with_name(name.map(|name| TopicName(text(name))))
    };
    let request = MetadataRequest::default().with_topics(Some(vec![topic(Some("a")), topic(None)]));
    let id = (Subject::Topic, Form::Literal, "0".repeat(32));
    let name = (Subject::Topic, Form::Literal, "a".to_owned());
    assert_eq!(
        found(ApiKey::METADATA, 12, &request),
        [id.clone(), name, id]
    );
}

#[rstest]
#[case(2, Subject::Topic)]
#[case(4, Subject::Broker)]
#[case(8, Subject::BrokerLogger)]
#[case(16, Subject::ClientMetrics)]
#[case(32, Subject::Group)]
#[case(3, Subject::Undecided)]
fn config_resources_are_decided_by_their_type(#[case] kind: i8, #[case] subject: Subject) {
    for version in 1..=4 {
        let resource = DescribeConfigsResource::default()
            .with_resource_type(kind)
            .with_resource_name(text("n"));
        let request = DescribeConfigsRequest::default().with_resources(vec![resource]);
        let wanted = (subject, Form::Literal, "n".to_owned());
        assert_eq!(found(ApiKey::DESCRIBE_CONFIGS, version, &request), [wanted]);
    }
}

#[rstest]
#[case(2, 3, Subject::Topic, Form::Literal)]
#[case(3, 4, Subject::Group, Form::Prefix)]
#[case(4, 3, Subject::Cluster, Form::Literal)]
#[case(5, 4, Subject::TransactionalId, Form::Prefix)]
#[case(6, 3, Subject::DelegationToken, Form::Literal)]
#[case(7, 3, Subject::User, Form::Literal)]
#[case(1, 3, Subject::Undecided, Form::Literal)]
fn acl_resources_are_decided_by_fields_on_both_sides(
    #[case] kind: i8,
    #[case] pattern: i8,
    #[case] subject: Subject,
    #[case] form: Form,
) {
    let creation = AclCreation::default()
        .with_resource_type(kind)
        .with_resource_name(text("orders"))
        .with_resource_pattern_type(pattern)
        .with_principal(text("User:alice"));
    let request = CreateAclsRequest::default().with_creations(vec![creation]);
    for version in 1..=3 {
        let principal = (Subject::Principal, Form::Literal, "User:alice".to_owned());
        let wanted = [(subject, form, "orders".to_owned()), principal];
        assert_eq!(found(ApiKey::CREATE_ACLS, version, &request), wanted);
    }
}

#[test]
fn acl_filters_that_match_in_any_way_say_so() {
    let request = DescribeAclsRequest::default()
        .with_resource_type_filter(2)
        .with_resource_name_filter(Some(text("orders")))
        .with_pattern_type_filter(2)
        .with_principal_filter(None);
    let wanted = (Subject::Topic, Form::Filter, "orders".to_owned());
    assert_eq!(found(ApiKey::DESCRIBE_ACLS, 3, &request), [wanted]);
}

#[rstest]
#[case(0, 0, "orders", Subject::Group, "orders")]
#[case(1, 1, "tx", Subject::TransactionalId, "tx")]
#[case(3, 0, "orders", Subject::Group, "orders")]
#[case(4, 1, "tx", Subject::TransactionalId, "tx")]
#[case(6, 2, "a:b:AAAAAAAAAAAAAAAAAAAAAA:7", Subject::Group, "a:b")]
#[case(6, 9, "what", Subject::Undecided, "what")]
fn coordinator_keys_are_decided_by_the_key_type(
    #[case] version: i16,
    #[case] key_type: i8,
    #[case] key: &str,
    #[case] subject: Subject,
    #[case] name: &str,
) {
    let request = match version {
        0..=3 => FindCoordinatorRequest::default().with_key(text(key)),
        _ => FindCoordinatorRequest::default().with_coordinator_keys(vec![text(key)]),
    };
    let request = if version == 0 {
        request
    } else {
        request.with_key_type(key_type)
    };
    let wanted = (subject, Form::Literal, name.to_owned());
    assert_eq!(found(ApiKey::FIND_COORDINATOR, version, &request), [wanted]);
}

fn join(protocol_type: &str, blob: Vec<u8>) -> JoinGroupRequest {
    JoinGroupRequest::default()
        .with_group_id(GroupId(text("g")))
        .with_protocol_type(text(protocol_type))
        .with_protocols(vec![
            JoinGroupRequestProtocol::default()
                .with_name(text("range"))
                .with_metadata(blob.into()),
        ])
}

#[test]
fn topics_inside_a_subscription_are_names_when_the_group_is_one_of_consumers() {
    let subscription =
        ConsumerProtocolSubscription::default().with_topics(vec![text("a"), text("b")]);
    let blob = [&[0, 1], &bytes(&subscription, 1)[..]].concat();
    for version in 0..=9 {
        let of = |request| found(ApiKey::JOIN_GROUP, version, &request);
        let group = (Subject::Group, Form::Literal, "g".to_owned());
        let topics = ["a", "b"].map(|t| (Subject::Topic, Form::Literal, t.to_owned()));
        let [a, b] = topics;
        assert_eq!(of(join("consumer", blob.clone())), [group.clone(), a, b]);
        assert_eq!(
            of(join("connect", blob.clone())),
            std::slice::from_ref(&group)
        );
        assert_eq!(of(join("consumer", Vec::new())), [group]);
    }
    let broken = bytes(&join("consumer", vec![0, 1, 0x7f, 0xff, 0xff, 0xff]), 9);
    let outcome = names::request(ApiKey::JOIN_GROUP, 9, &broken, &Limits::DEFAULT, |_| {});
    let fault = outcome.expect_err("a broken blob").to_string();
    assert!(
        fault.starts_with("ConsumerProtocolSubscription v1, byte 6 in Topics:"),
        "{fault}"
    );
}

#[test]
fn answers_take_what_they_do_not_repeat_from_the_context() {
    // FindCoordinator v4: throttle, one coordinator "k" at "h:1", no error, null message.
    let body = [
        0, 0, 0, 0, 2, 2, b'k', 0, 0, 0, 1, 2, b'h', 0, 0, 0, 1, 0, 0, 0, 0, 0,
    ];
    let response = schema::response(ApiKey::FIND_COORDINATOR).expect("a response");
    let of = |context| {
        let mut found = Vec::new();
        let each = |name: Name<'_>| found.push(name.subject);
        names::message(response, 4, &body, &Limits::DEFAULT, context, each).expect("a body");
        found
    };
    assert_eq!(of(Context::default()), [Subject::Undecided]);
    let of_key_type = |key| {
        of(Context {
            coordinator_key_type: Some(key),
            ..Context::default()
        })
    };
    assert_eq!(of_key_type(0), [Subject::Group]);
    assert_eq!(of_key_type(1), [Subject::TransactionalId]);
}

#[test]
fn no_name_of_a_golden_frame_is_missed() {
    let mut all = 0;
    for golden in golden::all()
        .into_iter()
        .filter(|golden| golden.side != Side::Blob)
    {
        let mut found = 0;
        let outcome = names::message(
            golden.message,
            golden.version,
            golden.body(),
            &Limits::DEFAULT,
            Context::default(),
            |_| found += 1,
        );
        outcome.unwrap_or_else(|error| panic!("{}: {error}", golden.title()));
        let mut seen = super::walk::Everything::default();
        walk::visit(
            golden.message,
            golden.version,
            golden.body(),
            &Limits::DEFAULT,
            &mut seen,
        )
        .expect("golden");
        let wanted = seen
            .0
            .iter()
            .zip(&seen.1)
            .filter(|(seen, role)| {
                let value = seen.is_name() || matches!(seen.datum, golden::Owned::Uuid(_));
                value && names::ROLES.contains(**role)
            })
            .count();
        assert_eq!(found, wanted, "{}", golden.title());
        all += found;
    }
    assert!(all > 1000, "{all}");
}
