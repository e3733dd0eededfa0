//! The bounds of KV calls and the names of broken ones (contract sections 7.1 and 7.5). Pure.

use std::sync::Arc;

/// Operations per call.
pub const MAX_OPERATIONS: usize = 256;
/// Keys per call.
pub const MAX_KEYS: usize = 1024;
/// Bytes of a key.
pub const MAX_KEY_BYTES: usize = 512;
/// Serialized bytes of a value.
pub const MAX_VALUE_BYTES: usize = 65_536;
/// Rows of one `getPrefix`.
pub const PREFIX_LIMIT: std::ops::RangeInclusive<u64> = 1..=1000;
/// Rows of a `getPrefix` that names no limit.
pub const DEFAULT_PREFIX_LIMIT: u64 = 100;
/// Bytes of a namespace.
const MAX_NAMESPACE_BYTES: usize = 64;

/// A refused call. The text of [`BadCall::reason`] is part of the contract.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[expect(missing_docs, reason = "each variant is the reason of that name")]
pub enum BadCall {
    #[error("an operation must be an object with the fields of its kind")]
    Operation,
    #[error("the namespace is missing or out of shape")]
    Namespace,
    #[error("the key is missing or empty")]
    Key,
    #[error("a key is longer than 512 bytes")]
    KeyTooLarge,
    #[error("a value is longer than 65536 bytes")]
    ValueTooLarge,
    #[error("unknown operation")]
    UnknownOperation,
    #[error("the prefix is missing or empty")]
    PrefixRequired,
    #[error("ttlSeconds must be a positive integer")]
    Ttl,
    #[error("exactly one of ttlSeconds and forever:true is required")]
    ExpiryNotSpecified,
    #[error("expect must be a non-negative integer")]
    Expect,
    #[error("put needs a value")]
    Value,
    #[error("delta, min and max must be integers")]
    Delta,
    #[error("limit must be an integer")]
    Limit,
    #[error("a key is written twice in one call")]
    DuplicateKey,
    #[error("too many operations")]
    TooManyOperations,
    #[error("too many keys")]
    TooManyKeys,
    #[error("the tenant is not an input")]
    TenantNotAnInput,
    #[error("getPrefix can't ride in a transaction")]
    PrefixInTransaction,
}

impl BadCall {
    /// The machine-readable reason.
    pub const fn reason(self) -> &'static str {
        match self {
            Self::Operation => "kv_bad_operation",
            Self::Namespace => "kv_bad_namespace",
            Self::Key => "kv_bad_key",
            Self::KeyTooLarge => "kv_key_too_large",
            Self::ValueTooLarge => "kv_value_too_large",
            Self::UnknownOperation => "kv_unknown_op",
            Self::PrefixRequired => "kv_prefix_required",
            Self::Ttl => "kv_bad_ttl",
            Self::ExpiryNotSpecified => "kv_expiry_not_specified",
            Self::Expect => "kv_bad_expect",
            Self::Value => "kv_bad_value",
            Self::Delta => "kv_bad_delta",
            Self::Limit => "kv_bad_limit",
            Self::DuplicateKey => "kv_duplicate_key_in_call",
            Self::TooManyOperations => "kv_too_many_ops",
            Self::TooManyKeys => "kv_too_many_keys",
            Self::TenantNotAnInput => "kv_tenant_not_an_input",
            Self::PrefixInTransaction => "kv_prefix_in_transaction",
        }
    }

    /// It is about size: 413 instead of 400.
    pub const fn is_too_large(self) -> bool {
        matches!(self, Self::KeyTooLarge | Self::ValueTooLarge)
    }
}

/// Bounds of a call; a transaction's rider has tighter ones.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Operations.
    pub operations: usize,
    /// Keys, where a `getPrefix` counts its limit.
    pub keys: usize,
    /// `getPrefix` is allowed.
    pub prefixes: bool,
}

impl Limits {
    /// Of `POST kv`.
    pub const CALL: Self = Self {
        operations: MAX_OPERATIONS,
        keys: MAX_KEYS,
        prefixes: true,
    };
    /// Of the rider of a transaction.
    pub const RIDER: Self = Self {
        operations: 64,
        keys: 256,
        prefixes: false,
    };
}

/// A `getPrefix` limit within its bounds.
pub fn clamp_limit(limit: u64) -> usize {
    // At most a thousand.
    limit.clamp(*PREFIX_LIMIT.start(), *PREFIX_LIMIT.end()) as usize
}

/// A namespace in its shape.
///
/// # Errors
/// [`BadCall::Namespace`].
pub fn namespace(text: &str) -> Result<Arc<str>, BadCall> {
    let shaped = |b: u8, first: bool| {
        b.is_ascii_lowercase() || b.is_ascii_digit() || (!first && matches!(b, b'.' | b'_' | b'-'))
    };
    if text.is_empty()
        || text.len() > MAX_NAMESPACE_BYTES
        || !text.bytes().enumerate().all(|(at, b)| shaped(b, at == 0))
    {
        return Err(BadCall::Namespace);
    }
    Ok(text.into())
}

/// A key in its bounds.
///
/// # Errors
/// [`BadCall::Key`] or [`BadCall::KeyTooLarge`].
pub fn checked_key(text: &str) -> Result<Arc<str>, BadCall> {
    match text.len() {
        0 => Err(BadCall::Key),
        len if len > MAX_KEY_BYTES => Err(BadCall::KeyTooLarge),
        _ => Ok(text.into()),
    }
}
