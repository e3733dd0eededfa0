//! What a field means to a door. Constants only.

use std::fmt;

macro_rules! roles {
    ($($(#[doc = $doc:literal])+ $role:ident,)*) => {
        /// What a field means to a door: who may see it, what is renamed, what is recorded.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[repr(u8)]
        pub enum Role {
            $($(#[doc = $doc])+ $role,)*
        }

        impl Role {
            /// Every role.
            pub const ALL: &'static [Role] = &[$(Role::$role),*];
        }
    };
}

roles! {
    /// Nothing was said: numbers, flags and structures. Never on a string, bytes or a uuid.
    Plain,
    /// Looked at and found to mean nothing to a door.
    Opaque,
    /// A topic name.
    Topic,
    /// A topic id (uuid).
    TopicId,
    /// A group id.
    Group,
    /// A transactional id.
    TransactionalId,
    /// The id the coordinator gave to a group member.
    MemberId,
    /// The id a static group member brings.
    InstanceId,
    /// What a client calls itself.
    ClientId,
    /// Host of a broker or controller.
    Host,
    /// Port of a broker or controller.
    Port,
    /// Address of a group member: somebody else's machine.
    MemberHost,
    /// Port of a group member.
    MemberPort,
    /// Id of a broker or controller.
    NodeId,
    /// Id of the cluster.
    ClusterId,
    /// Milliseconds the client is asked to wait.
    ThrottleMs,
    /// An error code.
    ErrorCode,
    /// Free text that may quote any physical name.
    ErrorMessage,
    /// Record batches.
    Records,
    /// A pattern over topic names.
    TopicRegex,
    /// A pattern over transactional ids.
    TransactionalIdRegex,
    /// An ACL principal such as `User:alice`.
    Principal,
    /// The name of a user.
    User,
    /// The host an ACL speaks of.
    AclHost,
    /// A consumer-protocol subscription when the protocol type says `consumer`; else opaque.
    ConsumerProtocolSubscription,
    /// A consumer-protocol assignment when the protocol type says `consumer`; else opaque.
    ConsumerProtocolAssignment,
    /// A name of the config APIs; its kind is beside it.
    ConfigResourceName,
    /// A name of the ACL APIs, or a prefix of names; kind and pattern type are beside it.
    AclResourceName,
    /// What a coordinator is looked up for; the key type decides.
    CoordinatorKey,
    /// A user or client id of the quota APIs; the entity type decides.
    QuotaEntityName,
    /// The name of a configuration.
    ConfigKey,
    /// The value of a configuration; some hold topics, brokers or principals.
    ConfigValue,
    /// A producer id.
    ProducerId,
    /// Credentials: never written to a log or an audit record.
    Secret,
    /// A request, response or principal of another connection, whole.
    Enveloped,
}

/// A set of roles.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct RoleSet(u64);

impl RoleSet {
    /// No role.
    pub const EMPTY: RoleSet = RoleSet(0);

    /// The roles listed.
    pub const fn of(roles: &[Role]) -> RoleSet {
        let mut bits = 0;
        let mut next = 0;
        while next < roles.len() {
            bits |= 1 << roles[next] as u64;
            next += 1;
        }
        RoleSet(bits)
    }

    /// Whether `role` is in the set.
    #[inline]
    pub const fn contains(self, role: Role) -> bool {
        self.0 & (1 << role as u64) != 0
    }

    /// Both sets together.
    pub const fn union(self, other: RoleSet) -> RoleSet {
        RoleSet(self.0 | other.0)
    }
}

impl fmt::Debug for RoleSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set()
            .entries(Role::ALL.iter().filter(|role| self.contains(**role)))
            .finish()
    }
}

const _: () = assert!(Role::ALL.len() <= 64, "a RoleSet is one word");
