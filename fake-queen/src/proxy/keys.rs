//! API keys: what one may do, until when, and which secret proves it. Only digests are kept.

use host::{Entropy, Secret};
use ring::digest::{SHA256, digest};
use serde::Deserialize;

/// The longest bearer that is looked up.
const MAX_BEARER_BYTES: usize = 4096;

/// Names a key; not a secret.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(transparent)]
pub struct KeyId(pub String);

/// What a key may do.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Scopes {
    /// Push and commit.
    pub produce: bool,
    /// Fetch, pop, and move positions.
    pub consume: bool,
    /// Make and delete queues.
    pub admin: bool,
    /// List them.
    pub read: bool,
}

/// One scope by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Scope {
    /// [`Scopes::produce`].
    Produce,
    /// [`Scopes::consume`].
    Consume,
    /// [`Scopes::admin`].
    Admin,
    /// [`Scopes::read`].
    Read,
}

impl Scopes {
    /// Everything.
    pub const ALL: Self = Self {
        produce: true,
        consume: true,
        admin: true,
        read: true,
    };

    /// Those named.
    pub fn of(named: &[Scope]) -> Self {
        Self {
            produce: named.contains(&Scope::Produce),
            consume: named.contains(&Scope::Consume),
            admin: named.contains(&Scope::Admin),
            read: named.contains(&Scope::Read),
        }
    }

    /// Whether there is any.
    pub const fn any(self) -> bool {
        self.produce || self.consume || self.admin || self.read
    }
}

/// SHA-256 of a secret.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Digest([u8; 32]);

impl Digest {
    /// Of a bearer; `None` for one too long to be any key.
    pub fn of(bearer: &[u8]) -> Option<Self> {
        if bearer.len() > MAX_BEARER_BYTES {
            return None;
        }
        let digest = digest(&SHA256, bearer);
        digest.as_ref().try_into().ok().map(Self)
    }
}

/// A new secret of the shape `qk_<environment>_<43 characters>`.
pub fn new_secret(entropy: &dyn Entropy, environment: &str) -> Secret<String> {
    let mut random = [0; 32];
    entropy.fill(&mut random);
    let text = base64_simd::URL_SAFE_NO_PAD.encode_to_string(random);
    Secret::new(format!("qk_{environment}_{text}"))
}
