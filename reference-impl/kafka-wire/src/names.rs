//! The names in a message: what policy checks and audit record. Reads, allocates nothing.
//!
//! A name whose kind another field decides (config and ACL resources, coordinator keys, quota
//! entities) comes out resolved; names inside consumer-protocol blobs come out like others. Absent
//! is not none: a null topic list of Metadata or OffsetFetch means every topic, and only the
//! handler of the API knows that.

use std::convert::Infallible;

use crate::api::ApiKey;
use crate::schema::{self, Message, Role, RoleSet};
use crate::walk::{self, Datum, Decider, Limits, Place, Value, VisitError, Visitor, WalkError};

/// A name in a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Name<'a> {
    /// What it names.
    pub subject: Subject,
    /// How it names it.
    pub form: Form,
    /// The name itself.
    pub text: Text<'a>,
    /// The field it was found in.
    pub field: &'static str,
}

/// A name is text or, for topics, an id.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Text<'a> {
    /// A string.
    Name(&'a str),
    /// A topic id.
    Id([u8; 16]),
}

/// What a name names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Subject {
    /// A topic.
    Topic,
    /// A group of any type.
    Group,
    /// A transactional id.
    TransactionalId,
    /// The cluster.
    Cluster,
    /// A broker, by its id in decimal; empty for the cluster-wide default.
    Broker,
    /// The loggers of a broker.
    BrokerLogger,
    /// A client-metrics subscription.
    ClientMetrics,
    /// A delegation token.
    DelegationToken,
    /// A principal such as `User:alice`.
    Principal,
    /// A user.
    User,
    /// A client id, of the quota APIs.
    ClientId,
    /// An address, of the quota APIs.
    Address,
    /// The field that decides says nothing that Kafka 4.4 knows, or is not in this message: see
    /// [`Context`].
    Undecided,
}

/// How a name names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Form {
    /// This one, exactly.
    Literal,
    /// All that start with it.
    Prefix,
    /// All that the pattern matches.
    Regex,
    /// All whose ACLs match it in any way: the `ANY` and `MATCH` filters of the ACL APIs.
    Filter,
}

/// What a response does not repeat of its request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Context {
    /// FindCoordinator: 0 group, 1 transactional id, 2 share partition.
    pub coordinator_key_type: Option<i8>,
    /// JoinGroup answers below version 7 and SyncGroup below 5 (requests too): whether the group's
    /// protocol type is `consumer`.
    pub consumer_protocol: bool,
}

/// The roles that are names.
pub const ROLES: RoleSet = RoleSet::of(&[
    Role::Topic,
    Role::TopicId,
    Role::Group,
    Role::TransactionalId,
    Role::TopicRegex,
    Role::TransactionalIdRegex,
    Role::ConfigResourceName,
    Role::AclResourceName,
    Role::CoordinatorKey,
    Role::QuotaEntityName,
    Role::Principal,
    Role::User,
    Role::ConsumerProtocolSubscription,
    Role::ConsumerProtocolAssignment,
]);

/// Hands every name in the body of a request to `each`, in the order of the wire.
///
/// # Errors
///
/// [`WalkError`]. Names in front of the fault have been handed over by then.
pub fn request(
    key: ApiKey,
    version: i16,
    body: &[u8],
    limits: &Limits,
    each: impl FnMut(Name<'_>),
) -> Result<(), WalkError> {
    let message = schema::request(key).ok_or(WalkError::UnknownApi { key })?;
    self::message(message, version, body, limits, Context::default(), each)
}

/// Hands every name in the body of `message` to `each`, in the order of the wire.
///
/// # Errors
///
/// [`WalkError`]. Names in front of the fault have been handed over by then.
pub fn message(
    message: &'static Message,
    version: i16,
    body: &[u8],
    limits: &Limits,
    context: Context,
    each: impl FnMut(Name<'_>),
) -> Result<(), WalkError> {
    let mut names = Names {
        each,
        context,
        limits,
    };
    walk::visit(message, version, body, limits, &mut names)
        .map(drop)
        .map_err(walk_error)
}

fn walk_error(error: VisitError<WalkError>) -> WalkError {
    match error {
        VisitError::Walk(error) | VisitError::Stopped(error) => error,
    }
}

struct Names<'l, F> {
    each: F,
    context: Context,
    limits: &'l Limits,
}

impl<F: FnMut(Name<'_>)> Visitor for Names<'_, F> {
    // A fault inside a blob.
    type Stop = WalkError;

    #[inline]
    fn roles(&self) -> RoleSet {
        ROLES
    }

    fn value(&mut self, place: &Place<'_>, value: &Value<'_>) -> Result<(), WalkError> {
        let role = value.field.role;
        match value.datum {
            Datum::Text(text) => {
                let (subject, form) = resolve(place, value, self.context);
                let text = match role {
                    Role::CoordinatorKey => coordinator_name(place, value, self.context, text),
                    _ => text,
                };
                (self.each)(Name {
                    subject,
                    form,
                    text: Text::Name(text),
                    field: value.field.name,
                });
            }
            Datum::Uuid(id) if role == Role::TopicId => (self.each)(Name {
                subject: Subject::Topic,
                form: Form::Literal,
                text: Text::Id(id),
                field: value.field.name,
            }),
            Datum::Bytes(blob) if !blob.is_empty() => {
                if is_consumer_protocol(place, value, self.context) {
                    let message = match role {
                        Role::ConsumerProtocolSubscription => {
                            schema::CONSUMER_PROTOCOL_SUBSCRIPTION
                        }
                        _ => schema::CONSUMER_PROTOCOL_ASSIGNMENT,
                    };
                    let mut topics = Topics {
                        each: &mut self.each,
                    };
                    match walk::visit_blob(message, blob, self.limits, &mut topics) {
                        Ok(_) => {}
                        Err(VisitError::Walk(error)) => return Err(error),
                        Err(VisitError::Stopped(never)) => match never {},
                    }
                }
            }
            Datum::Bytes(_) | Datum::Null | Datum::Int(_) | Datum::Uuid(_) => {}
        }
        Ok(())
    }
}

/// The names inside a consumer-protocol blob: topics, nothing else.
struct Topics<'f, F> {
    each: &'f mut F,
}

impl<F: FnMut(Name<'_>)> Visitor for Topics<'_, F> {
    type Stop = Infallible;

    #[inline]
    fn roles(&self) -> RoleSet {
        const { RoleSet::of(&[Role::Topic]) }
    }

    fn value(&mut self, _: &Place<'_>, value: &Value<'_>) -> Result<(), Infallible> {
        if let Datum::Text(text) = value.datum {
            let (subject, form) = (Subject::Topic, Form::Literal);
            (self.each)(Name {
                subject,
                form,
                text: Text::Name(text),
                field: value.field.name,
            });
        }
        Ok(())
    }
}

/// The protocol type of Kafka's own consumers.
const CONSUMER: &[u8] = b"consumer";

/// Whether the bytes of `value` are a blob of the consumer protocol: the protocol type beside them
/// decides; where the version has none, the context.
pub fn is_consumer_protocol(place: &Place<'_>, value: &Value<'_>, context: Context) -> bool {
    match place.decider(value) {
        Some(Decider::Text(protocol_type)) => protocol_type == CONSUMER,
        Some(_) => false,
        None => context.consumer_protocol,
    }
}

/// What a string of one of [`ROLES`] names, and how.
pub fn resolve(place: &Place<'_>, value: &Value<'_>, context: Context) -> (Subject, Form) {
    let number = || match place.decider(value) {
        Some(Decider::Int(number)) => Some(number),
        _ => None,
    };
    let literal = |subject| (subject, Form::Literal);
    match value.field.role {
        Role::Topic => literal(Subject::Topic),
        Role::Group => literal(Subject::Group),
        Role::TransactionalId => literal(Subject::TransactionalId),
        Role::TopicRegex => (Subject::Topic, Form::Regex),
        Role::TransactionalIdRegex => (Subject::TransactionalId, Form::Regex),
        Role::Principal => literal(Subject::Principal),
        Role::User => literal(Subject::User),
        Role::ConfigResourceName => literal(config_subject(number())),
        Role::AclResourceName => (acl_subject(number()), acl_form(place)),
        Role::CoordinatorKey => {
            let key_type = number().or(context.coordinator_key_type.map(i64::from));
            literal(coordinator_subject(place, key_type))
        }
        Role::QuotaEntityName => literal(match place.decider(value) {
            Some(Decider::Text(b"user")) => Subject::User,
            Some(Decider::Text(b"client-id")) => Subject::ClientId,
            Some(Decider::Text(b"ip")) => Subject::Address,
            _ => Subject::Undecided,
        }),
        _ => literal(Subject::Undecided),
    }
}

/// `ConfigResource.Type` (KIP-226, KIP-412, KIP-714, KIP-1043).
fn config_subject(resource_type: Option<i64>) -> Subject {
    match resource_type {
        Some(2) => Subject::Topic,
        Some(4) => Subject::Broker,
        Some(8) => Subject::BrokerLogger,
        Some(16) => Subject::ClientMetrics,
        Some(32) => Subject::Group,
        _ => Subject::Undecided,
    }
}

/// `ResourceType` of the ACL APIs: other numbers than those of the config APIs (KIP-140).
fn acl_subject(resource_type: Option<i64>) -> Subject {
    match resource_type {
        Some(2) => Subject::Topic,
        Some(3) => Subject::Group,
        Some(4) => Subject::Cluster,
        Some(5) => Subject::TransactionalId,
        Some(6) => Subject::DelegationToken,
        Some(7) => Subject::User,
        _ => Subject::Undecided,
    }
}

/// `PatternType` (KIP-290). Each ACL message calls the field differently; a version without it
/// knows literals only.
fn acl_form(place: &Place<'_>) -> Form {
    let fields = ["ResourcePatternType", "PatternTypeFilter", "PatternType"];
    let found = fields.iter().find_map(|field| place.sibling(field));
    match found {
        None | Some(Decider::Int(3)) => Form::Literal,
        Some(Decider::Int(4)) => Form::Prefix,
        Some(_) => Form::Filter,
    }
}

/// Key types of FindCoordinator; version 0 has groups only.
fn coordinator_subject(place: &Place<'_>, key_type: Option<i64>) -> Subject {
    match key_type {
        Some(0 | SHARE) => Subject::Group,
        Some(1) => Subject::TransactionalId,
        None if place.version() == 0 => Subject::Group,
        _ => Subject::Undecided,
    }
}

/// The key type of share partitions (KIP-932).
const SHARE: i64 = 2;

/// The name in a coordinator key: for a share partition, `group:topic-id:partition`, its group.
fn coordinator_name<'t>(
    place: &Place<'_>,
    value: &Value<'_>,
    context: Context,
    key: &'t str,
) -> &'t str {
    let key_type = match place.decider(value) {
        Some(Decider::Int(key_type)) => Some(key_type),
        _ => context.coordinator_key_type.map(i64::from),
    };
    match key_type {
        // A group may hold colons itself.
        Some(SHARE) => key.rsplitn(3, ':').nth(2).unwrap_or(key),
        _ => key,
    }
}
