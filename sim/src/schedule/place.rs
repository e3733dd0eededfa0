//! Where a fault strikes: machines and links by the names that schedules use.

use std::fmt;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

use crate::trace::Node;

/// A machine that can fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[expect(missing_docs, reason = "as the nodes of the world")]
pub enum Server {
    Facade,
    Facade2,
    Facade3,
    Relay,
    Proxy,
    Queen,
}

impl Server {
    /// All of them.
    pub const ALL: [Self; 6] = [
        Self::Facade,
        Self::Facade2,
        Self::Facade3,
        Self::Relay,
        Self::Proxy,
        Self::Queen,
    ];

    /// Its machine.
    pub const fn node(self) -> Node {
        match self {
            Self::Facade => Node::Facade,
            Self::Facade2 => Node::Facade2,
            Self::Facade3 => Node::Facade3,
            Self::Relay => Node::Relay,
            Self::Proxy => Node::Proxy,
            Self::Queen => Node::Queen,
        }
    }

    /// Whether a facade runs on it.
    pub const fn is_facade(self) -> bool {
        matches!(self, Self::Facade | Self::Facade2 | Self::Facade3)
    }
}

impl fmt::Display for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.node().name())
    }
}

/// A link between two machines, named from who calls to who answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[expect(missing_docs, reason = "the names are the ends")]
pub enum Link {
    ClientsFacade,
    ClientsFacade2,
    ClientsFacade3,
    FacadeQueen,
    Facade2Queen,
    Facade3Queen,
    FacadeRelay,
    Facade2Relay,
    Facade3Relay,
    RelayQueen,
    FacadeProxy,
    ProxyQueen,
}

impl Link {
    /// All of them.
    pub const ALL: [Self; 12] = [
        Self::ClientsFacade,
        Self::ClientsFacade2,
        Self::ClientsFacade3,
        Self::FacadeQueen,
        Self::Facade2Queen,
        Self::Facade3Queen,
        Self::FacadeRelay,
        Self::Facade2Relay,
        Self::Facade3Relay,
        Self::RelayQueen,
        Self::FacadeProxy,
        Self::ProxyQueen,
    ];

    /// Who calls, who answers.
    pub const fn ends(self) -> (Node, Node) {
        match self {
            Self::ClientsFacade => (Node::Clients, Node::Facade),
            Self::ClientsFacade2 => (Node::Clients, Node::Facade2),
            Self::ClientsFacade3 => (Node::Clients, Node::Facade3),
            Self::FacadeQueen => (Node::Facade, Node::Queen),
            Self::Facade2Queen => (Node::Facade2, Node::Queen),
            Self::Facade3Queen => (Node::Facade3, Node::Queen),
            Self::FacadeRelay => (Node::Facade, Node::Relay),
            Self::Facade2Relay => (Node::Facade2, Node::Relay),
            Self::Facade3Relay => (Node::Facade3, Node::Relay),
            Self::RelayQueen => (Node::Relay, Node::Queen),
            Self::FacadeProxy => (Node::Facade, Node::Proxy),
            Self::ProxyQueen => (Node::Proxy, Node::Queen),
        }
    }
}

impl fmt::Display for Link {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (caller, answerer) = self.ends();
        write!(f, "{caller}_{answerer}")
    }
}

/// Which calls to Queen a fault strikes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[expect(missing_docs, reason = "the routes that a facade calls")]
pub enum Route {
    Any,
    Push,
    Fetch,
    Kv,
    Configure,
    QueueList,
    QueueDetail,
    Transaction,
    Health,
}

impl Route {
    /// All of them.
    pub const ALL: [Self; 9] = [
        Self::Any,
        Self::Push,
        Self::Fetch,
        Self::Kv,
        Self::Configure,
        Self::QueueList,
        Self::QueueDetail,
        Self::Transaction,
        Self::Health,
    ];

    /// Its name, as the fake Queen's rules have it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Any => "any",
            Self::Push => "push",
            Self::Fetch => "fetch",
            Self::Kv => "kv",
            Self::Configure => "configure",
            Self::QueueList => "queue_list",
            Self::QueueDetail => "queue_detail",
            Self::Transaction => "transaction",
            Self::Health => "health",
        }
    }
}

impl fmt::Display for Route {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// An API key of the cell.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Key {
    /// The one that schedules strike.
    Victim,
    /// Another one of the same tenant.
    Neighbour,
    /// One of another tenant.
    Other,
}

impl Key {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Victim, Self::Neighbour, Self::Other];

    /// Its name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Victim => "victim",
            Self::Neighbour => "neighbour",
            Self::Other => "other",
        }
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// One of `all` that is called so; else an error that says what there is.
fn named<'de, D, T>(deserializer: D, what: &str, all: &[T]) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: Copy + fmt::Display,
{
    let text = String::deserialize(deserializer)?;
    let found = all.iter().find(|one| one.to_string() == text);
    found.copied().ok_or_else(|| {
        let names: Vec<_> = all.iter().map(ToString::to_string).collect();
        de::Error::custom(format_args!(
            "no {what} is called {text:?}; there are {}",
            names.join(", ")
        ))
    })
}

macro_rules! by_name {
    ($kind:ty, $what:literal) => {
        impl Serialize for $kind {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.collect_str(self)
            }
        }

        impl<'de> Deserialize<'de> for $kind {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                named(deserializer, $what, &Self::ALL)
            }
        }
    };
}

by_name!(Server, "machine");
by_name!(Link, "link");
by_name!(Route, "route");
by_name!(Key, "key");
