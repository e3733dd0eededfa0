//! What must hold of the table itself.

use kafka_wire::api::ApiKey;
use kafka_wire::schema::{self, Field, Kind, Message, Role};
use kafka_wire::walk::MAX_DEPTH;

/// Every message of the table.
pub fn messages() -> Vec<&'static Message> {
    let sides = [schema::request, schema::response];
    let by_key = ApiKey::ALL
        .iter()
        .flat_map(|key| sides.map(|side| side(*key)));
    let blobs = [
        schema::CONSUMER_PROTOCOL_SUBSCRIPTION,
        schema::CONSUMER_PROTOCOL_ASSIGNMENT,
    ];
    by_key.flatten().chain(blobs).collect()
}

/// Calls `each` with every field of a message and the fields around it, outermost first.
fn each_field(message: &'static Message, each: &mut impl FnMut(&[&'static Field])) {
    fn descend(
        fields: &'static [Field],
        path: &mut Vec<&'static Field>,
        each: &mut impl FnMut(&[&'static Field]),
    ) {
        for field in fields {
            path.push(field);
            each(path);
            if let Kind::Struct(nested) = field.kind {
                descend(nested.fields, path, each);
            }
            path.pop();
        }
    }
    descend(message.fields, &mut Vec::new(), each);
}

fn name(message: &Message, path: &[&Field]) -> String {
    let names: Vec<_> = path.iter().map(|field| field.name).collect();
    format!("{}.{}", message.name, names.join("."))
}

#[test]
fn every_string_bytes_and_uuid_has_a_role_or_is_said_to_mean_nothing() {
    for message in messages() {
        each_field(message, &mut |path| {
            let field = path[path.len() - 1];
            let must = matches!(
                field.kind,
                Kind::String | Kind::Bytes | Kind::Records | Kind::Uuid
            );
            assert!(
                !must || field.role != Role::Plain,
                "{}",
                name(message, path)
            );
        });
    }
}

#[test]
fn the_deepest_message_is_as_deep_as_the_walk_may_recurse() {
    let mut deepest = 0;
    for message in messages() {
        each_field(message, &mut |path| deepest = deepest.max(path.len()));
    }
    assert_eq!(deepest, MAX_DEPTH);
}

#[test]
fn no_element_of_an_array_takes_no_bytes() {
    for message in messages() {
        each_field(message, &mut |path| {
            let field = path[path.len() - 1];
            let Kind::Struct(nested) = field.kind else {
                return;
            };
            for version in message
                .versions
                .iter()
                .filter(|v| field.versions.contains(*v))
            {
                let inline = nested
                    .fields
                    .iter()
                    .any(|f| f.versions.contains(version) && f.tag_in(version).is_none());
                let flexible = message.flexible.contains(version);
                assert!(inline || flexible, "{} v{version}", name(message, path));
            }
        });
    }
}

#[test]
fn deciders_are_reached_in_a_step_per_field_whatever_the_bytes_say() {
    let mut decided = 0;
    for message in messages() {
        each_field(message, &mut |path| {
            let field = path[path.len() - 1];
            let Some(decider) = field.decided_by else {
                return;
            };
            decided += 1;
            // FindCoordinator's answer does not repeat the key type.
            if name(message, path) == "FindCoordinatorResponse.Coordinators.Key" {
                return;
            }
            let around = (0..path.len())
                .rev()
                .map(|depth| match depth.checked_sub(1) {
                    None => message.fields,
                    Some(parent) => match path[parent].kind {
                        Kind::Struct(nested) => nested.fields,
                        _ => &[],
                    },
                });
            let found = around.filter_map(|fields| {
                let at = fields.iter().position(|f| f.name == decider)?;
                Some(&fields[..=at])
            });
            let reached = found.into_iter().next();
            let reached = reached.unwrap_or_else(|| panic!("{}", name(message, path)));
            for before in reached {
                let flat = !before.array && !matches!(before.kind, Kind::Struct(_));
                assert!(flat, "{} behind {}", name(message, path), before.name);
                assert!(before.tag.is_none());
            }
        });
    }
    assert!(decided > 20);
}

#[test]
fn tags_are_told_apart() {
    for message in messages() {
        each_field(message, &mut |path| {
            let Kind::Struct(nested) = path[path.len() - 1].kind else {
                return;
            };
            let mut tags: Vec<_> = nested
                .fields
                .iter()
                .filter_map(|f| f.tag.map(|(tag, _)| tag))
                .collect();
            let all = tags.len();
            tags.sort_unstable();
            tags.dedup();
            assert_eq!(tags.len(), all, "{}", name(message, path));
        });
    }
}

/// `ProduceRequest` and `produce_request` are one name.
fn plain(name: &str) -> String {
    name.replace('_', "").to_lowercase()
}

#[test]
fn every_name_that_the_typed_crate_gives_a_type_has_its_role() {
    let mut held = 0;
    for line in include_str!("typed_names.txt").lines() {
        let [file, owner, field, kind] = line.split(' ').collect::<Vec<_>>()[..] else {
            panic!("{line}")
        };
        let role = match kind {
            "TopicName" => Role::Topic,
            "GroupId" => Role::Group,
            "TransactionalId" => Role::TransactionalId,
            "BrokerId" => Role::NodeId,
            "ProducerId" => Role::ProducerId,
            other => panic!("{other}"),
        };
        let Some(message) = messages()
            .into_iter()
            .find(|m| plain(m.name) == plain(file))
        else {
            // Stored records are no messages of ours.
            assert!(
                !file.ends_with("request") && !file.ends_with("response"),
                "{line}"
            );
            continue;
        };
        let mut found = false;
        each_field(message, &mut |path| {
            let parent = match path.len() {
                1 => message.name,
                deep => match path[deep - 2].kind {
                    Kind::Struct(nested) => nested.name,
                    _ => "",
                },
            };
            let here = path[path.len() - 1];
            if plain(parent) == plain(owner) && plain(here.name) == plain(field) {
                assert_eq!(here.role, role, "{line}");
                found = true;
            }
        });
        assert!(found, "{line}: not in the schema");
        held += 1;
    }
    // All but the stored records of the list.
    assert_eq!(held, 193);
}

/// What a field called so must mean, on whichever side and in whichever API. Numbers may be left
/// unsaid, so these names are held here; each row names the roles that may stand there.
const BY_NAME: &[(&str, &[Role])] = &[
    ("NodeId", &[Role::NodeId]),
    ("LeaderId", &[Role::NodeId]),
    ("BrokerId", &[Role::NodeId]),
    ("ControllerId", &[Role::NodeId]),
    ("VoterId", &[Role::NodeId]),
    ("CandidateId", &[Role::NodeId]),
    ("ReplicaId", &[Role::NodeId]),
    ("Replicas", &[Role::NodeId]),
    ("Port", &[Role::Port, Role::MemberPort]),
    ("Host", &[Role::Host, Role::MemberHost, Role::AclHost]),
    ("ErrorCode", &[Role::ErrorCode]),
    ("ErrorMessage", &[Role::ErrorMessage]),
    ("ThrottleTimeMs", &[Role::ThrottleMs]),
    ("ProducerId", &[Role::ProducerId]),
    ("TopicId", &[Role::TopicId]),
    ("TopicName", &[Role::Topic]),
    ("Topic", &[Role::Topic]),
    ("GroupId", &[Role::Group]),
    ("TransactionalId", &[Role::TransactionalId]),
    ("MemberId", &[Role::MemberId]),
    ("InstanceId", &[Role::InstanceId]),
    ("ClientId", &[Role::ClientId]),
    ("ClusterId", &[Role::ClusterId]),
    (
        "ResourceName",
        &[Role::ConfigResourceName, Role::AclResourceName],
    ),
    ("Principal", &[Role::Principal, Role::Enveloped]),
    ("Regex", &[Role::TopicRegex]),
    ("Hmac", &[Role::Secret]),
];

#[test]
fn a_field_with_a_telling_name_has_the_role_it_tells() {
    for message in messages() {
        each_field(message, &mut |path| {
            let field = path[path.len() - 1];
            // Structures, and indexes into other lists, carry such names too.
            let index = field.array && matches!(field.kind, Kind::Int16);
            let telling = BY_NAME.iter().filter(|(end, _)| field.name.ends_with(end));
            if matches!(field.kind, Kind::Struct(_)) || index || field.name == "ClientInstanceId" {
                return;
            }
            if let Some((_, roles)) = telling.max_by_key(|(end, _)| end.len()) {
                assert!(
                    roles.contains(&field.role),
                    "{}: {:?}",
                    name(message, path),
                    field.role
                );
            }
        });
    }
}
