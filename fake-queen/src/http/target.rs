//! Which route a method and a path name. Pure.

use http::Method;

use crate::percent::decode;

/// A route with the names in its path.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(
    missing_docs,
    reason = "each variant is the route that its file in `routes` serves"
)]
pub enum Target {
    Health,
    Status,
    QueueList,
    QueueDetail(String),
    QueueDepth(String),
    QueueDelete(String),
    StatusQueues,
    StatusQueue(String),
    Configure,
    Push,
    Fetch,
    FetchOffsets,
    PartitionsChanged,
    Kv,
    KvPath {
        method: Method,
        namespace: String,
        key: String,
    },
    KvNamespaces,
    KvList,
    KvSwitch,
    Transaction,
    Pop,
    PopQueue(String),
    PopLane(String, String),
    Ack,
    AckBatch,
    LeaseExtend(String),
    DeadLetters(Method),
    AuthMe,
    Groups,
    GroupsLagging,
    Group(String),
    GroupDelete(String, Option<String>),
    GroupSubscription(String),
    GroupSeek {
        group: String,
        queue: String,
        lane: Option<String>,
    },
    Console,
    FakeFaults(Method),
    Unknown,
}

impl Target {
    /// Reads a method and a path. Segments are percent-decoded.
    pub fn of(method: &Method, path: &str) -> Self {
        let trimmed = path.strip_suffix('/').unwrap_or(path);
        let segments: Vec<String> = trimmed.split('/').skip(1).map(decode).collect();
        let segments: Vec<&str> = segments.iter().map(String::as_str).collect();
        let (get, post) = (*method == Method::GET, *method == Method::POST);
        let delete = *method == Method::DELETE;
        match segments.as_slice() {
            [] | [""] if get => Self::Console,
            ["health"] if get => Self::Health,
            ["status"] if get => Self::Status,
            ["auth", "me"] if get => Self::AuthMe,
            ["fake", "faults"] if get || post || delete => Self::FakeFaults(method.clone()),
            ["api", "v1", rest @ ..] => match rest {
                ["push"] if post => Self::Push,
                ["fetch"] if post => Self::Fetch,
                ["fetch", "offsets"] if post => Self::FetchOffsets,
                ["partitions", "changed"] if post => Self::PartitionsChanged,
                ["configure"] if post => Self::Configure,
                ["transaction"] if post => Self::Transaction,
                ["pop"] if get => Self::Pop,
                ["pop", "queue", queue] if get => Self::PopQueue((*queue).to_owned()),
                ["pop", "queue", queue, "partition", lane] if get => {
                    Self::PopLane((*queue).to_owned(), (*lane).to_owned())
                }
                ["ack"] if post => Self::Ack,
                ["ack", "batch"] if post => Self::AckBatch,
                ["lease", id, "extend"] if post => Self::LeaseExtend((*id).to_owned()),
                ["dlq"] if get || delete => Self::DeadLetters(method.clone()),
                ["kv"] if post => Self::Kv,
                ["kv", namespace, ..] if rest.len() > 2 => {
                    if !(get || delete || *method == Method::PUT) {
                        return Self::Unknown;
                    }
                    // A key may hold slashes of its own: everything behind the namespace.
                    let key = trimmed.splitn(6, '/').nth(5).map(decode);
                    Self::KvPath {
                        method: method.clone(),
                        namespace: (*namespace).to_owned(),
                        key: key.unwrap_or_default(),
                    }
                }
                ["resources", "queues"] if get => Self::QueueList,
                ["resources", "queues", name] if get => Self::QueueDetail((*name).to_owned()),
                ["resources", "queues", name] if delete => Self::QueueDelete((*name).to_owned()),
                ["resources", "queues", name, "depth"] if get => {
                    Self::QueueDepth((*name).to_owned())
                }
                ["resources", "kv", "namespaces"] if get => Self::KvNamespaces,
                ["resources", "kv", "list"] if post => Self::KvList,
                ["status", "queues"] if get => Self::StatusQueues,
                ["status", "queues", name] if get => Self::StatusQueue((*name).to_owned()),
                ["consumer-groups"] if get => Self::Groups,
                ["consumer-groups", "lagging"] if get => Self::GroupsLagging,
                ["consumer-groups", name] if get => Self::Group((*name).to_owned()),
                ["consumer-groups", name, of @ ..] => of_group(name, of, delete, post),
                ["system", "kv-timers"] if post => Self::KvSwitch,
                _ => Self::Unknown,
            },
            _ => Self::Unknown,
        }
    }

    /// The route's name where faults are matched.
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Health => "health",
            Self::Status => "status",
            Self::QueueList => "queue_list",
            Self::QueueDetail(_) => "queue_detail",
            Self::QueueDepth(_) => "queue_depth",
            Self::QueueDelete(_) => "queue_delete",
            Self::StatusQueues => "status_queues",
            Self::StatusQueue(_) => "status_queue",
            Self::Configure => "configure",
            Self::Push => "push",
            Self::Fetch => "fetch",
            Self::FetchOffsets => "fetch_offsets",
            Self::PartitionsChanged => "partitions_changed",
            Self::Kv => "kv",
            Self::KvPath { .. } => "kv_path",
            Self::KvNamespaces => "kv_namespaces",
            Self::KvList => "kv_list",
            Self::KvSwitch => "kv_switch",
            Self::Transaction => "transaction",
            Self::Pop | Self::PopQueue(_) | Self::PopLane(..) => "pop",
            Self::Ack | Self::AckBatch => "ack",
            Self::LeaseExtend(_) => "lease_extend",
            Self::DeadLetters(_) => "dead_letters",
            Self::AuthMe => "auth_me",
            Self::Groups => "groups",
            Self::GroupsLagging => "groups_lagging",
            Self::Group(_) => "group",
            Self::GroupDelete(..) => "group_delete",
            Self::GroupSubscription(_) => "group_subscription",
            Self::GroupSeek { .. } => "group_seek",
            Self::Console => "console",
            Self::FakeFaults(_) => "fake_faults",
            Self::Unknown => "unknown",
        }
    }
}

/// The routes that change a native group.
fn of_group(group: &str, of: &[&str], delete: bool, post: bool) -> Target {
    let group = group.to_owned();
    match of {
        [] if delete => Target::GroupDelete(group, None),
        ["queues", queue] if delete => Target::GroupDelete(group, Some((*queue).to_owned())),
        ["subscription"] if post => Target::GroupSubscription(group),
        ["queues", queue, "seek"] if post => Target::GroupSeek {
            group,
            queue: (*queue).to_owned(),
            lane: None,
        },
        ["queues", queue, "partitions", lane, "seek"] if post => Target::GroupSeek {
            group,
            queue: (*queue).to_owned(),
            lane: Some((*lane).to_owned()),
        },
        _ => Target::Unknown,
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case("POST", "/api/v1/push", Target::Push)]
    #[case("GET", "/api/v1/push", Target::Unknown)]
    #[case("POST", "/api/v1/kv/", Target::Kv)]
    #[case("DELETE", "/api/v1/resources/queues/a%2Fb", Target::QueueDelete("a/b".into()))]
    #[case("GET", "/api/v1/kv/ns/a/b%20c", Target::KvPath {
        method: Method::GET,
        namespace: "ns".into(),
        key: "a/b c".into(),
    })]
    #[case("GET", "/nowhere", Target::Unknown)]
    #[case("GET", "/", Target::Console)]
    #[case("GET", "", Target::Console)]
    #[case("POST", "/", Target::Unknown)]
    #[case("GET", "/api/v1/pop/queue/a%20b", Target::PopQueue("a b".into()))]
    #[case("GET", "/api/v1/pop/queue/q/partition/0", Target::PopLane("q".into(), "0".into()))]
    #[case("POST", "/api/v1/lease/x/extend", Target::LeaseExtend("x".into()))]
    #[case("GET", "/api/v1/consumer-groups/g", Target::Group("g".into()))]
    #[case("DELETE", "/api/v1/consumer-groups/g", Target::GroupDelete("g".into(), None))]
    #[case("GET", "/api/v1/consumer-groups/g/queues/q/seek", Target::Unknown)]
    fn paths_name_routes(#[case] method: Method, #[case] path: &str, #[case] expected: Target) {
        assert_eq!(Target::of(&method, path), expected);
    }
}
