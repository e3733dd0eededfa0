//! Reading a KV call and every rule that needs no data (contract sections 7.1, 7.2, 7.5).

use std::collections::BTreeSet;
use std::sync::Arc;

use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::value::RawValue;

use super::call::{Action, Call, Operation, Write};
use super::rules::{
    BadCall, DEFAULT_PREFIX_LIMIT, Limits, MAX_KEY_BYTES, MAX_VALUE_BYTES, checked_key,
    clamp_limit, namespace,
};
use crate::json::{self, Object};

/// An operation as it was sent; a field that is there twice makes it unreadable.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RawOperation<'a> {
    /// Its name.
    #[serde(borrow)]
    pub op: Option<&'a RawValue>,
    /// The namespace.
    #[serde(borrow)]
    pub ns: Option<&'a RawValue>,
    /// What one key addresses.
    #[serde(borrow)]
    pub key: Option<&'a RawValue>,
    /// What several do.
    #[serde(borrow)]
    pub keys: Option<&'a RawValue>,
    /// What the beginning of a key does.
    #[serde(borrow)]
    pub prefix: Option<&'a RawValue>,
    #[serde(borrow)]
    after: Option<&'a RawValue>,
    #[serde(borrow)]
    limit: Option<&'a RawValue>,
    #[serde(borrow)]
    keys_only: Option<&'a RawValue>,
    // `null` is a value here, so absence needs its own layer.
    #[serde(borrow, default, deserialize_with = "present")]
    value: Option<&'a RawValue>,
    #[serde(borrow)]
    ttl_seconds: Option<&'a RawValue>,
    #[serde(borrow)]
    forever: Option<&'a RawValue>,
    #[serde(borrow)]
    expect: Option<&'a RawValue>,
    required: Option<bool>,
    #[serde(borrow)]
    delta: Option<&'a RawValue>,
    #[serde(borrow)]
    min: Option<&'a RawValue>,
    #[serde(borrow)]
    max: Option<&'a RawValue>,
}

/// Reads a field whose `null` is a value, so that only absence is `None`.
///
/// # Errors
/// The JSON.
pub fn present<'de, D: serde::Deserializer<'de>>(de: D) -> Result<Option<&'de RawValue>, D::Error> {
    <&RawValue>::deserialize(de).map(Some)
}

/// Field names only, to find those that no operation may carry.
#[derive(Deserialize)]
struct FieldNames<'a>(
    #[serde(borrow)] indexmap::IndexMap<std::borrow::Cow<'a, str>, serde::de::IgnoredAny>,
);

/// The elements of a bare array, or of `operations`.
///
/// # Errors
/// The JSON.
pub fn elements(body: &[u8]) -> Result<Vec<&RawValue>, serde_json::Error> {
    #[derive(Deserialize)]
    struct Named<'a> {
        #[serde(borrow)]
        operations: Vec<&'a RawValue>,
    }
    // `untagged` would build a tree first; the first byte tells.
    if body.trim_ascii_start().starts_with(b"[") {
        serde_json::from_slice(body)
    } else {
        serde_json::from_slice::<Object<Named<'_>>>(body).map(|named| named.0.operations)
    }
}

/// Reads `operations` and checks them against `limits`.
///
/// # Errors
/// The first broken rule.
pub fn parse(operations: &[&RawValue], limits: Limits) -> Result<Call, BadCall> {
    if operations.len() > limits.operations {
        return Err(BadCall::TooManyOperations);
    }
    let call = Call {
        operations: operations
            .iter()
            .map(|raw| operation(raw.get()))
            .collect::<Result<_, _>>()?,
    };
    let mut keys = 0_usize;
    let mut written = BTreeSet::new();
    for operation in &call.operations {
        keys += match &operation.action {
            Action::GetMany { keys } => keys.len(),
            Action::GetPrefix { .. } if !limits.prefixes => {
                return Err(BadCall::PrefixInTransaction);
            }
            Action::GetPrefix { limit, .. } => *limit,
            Action::Get { .. } => 1,
            Action::Write { key, .. } => {
                if !written.insert((&operation.namespace, key)) {
                    return Err(BadCall::DuplicateKey);
                }
                1
            }
        };
    }
    if keys > limits.keys {
        return Err(BadCall::TooManyKeys);
    }
    Ok(call)
}

fn operation(json: &str) -> Result<Operation, BadCall> {
    let FieldNames(names) = serde_json::from_str(json).map_err(|_| BadCall::Operation)?;
    if names
        .keys()
        .any(|name| matches!(&**name, "tenant" | "tenantId") || name.starts_with("_tenant"))
    {
        return Err(BadCall::TenantNotAnInput);
    }
    let raw: Object<RawOperation<'_>> =
        serde_json::from_str(json).map_err(|_| BadCall::Operation)?;
    let raw = raw.0;
    let op: String = typed(raw.op).ok_or(BadCall::UnknownOperation)?;
    let name = [
        "get",
        "getMany",
        "getPrefix",
        "put",
        "putIfAbsent",
        "delete",
        "incr",
    ]
    .into_iter()
    .find(|name| *name == op)
    .ok_or(BadCall::UnknownOperation)?;
    let namespace = namespace(&typed::<String>(raw.ns).ok_or(BadCall::Namespace)?)?;
    let action = match name {
        "get" => Action::Get { key: key(&raw)? },
        "getMany" => Action::GetMany {
            keys: typed::<Vec<String>>(raw.keys)
                .ok_or(BadCall::Key)?
                .iter()
                .map(|key| checked_key(key))
                .collect::<Result<_, _>>()?,
        },
        "getPrefix" => prefix(&raw)?,
        _ => write(name, &raw)?,
    };
    Ok(Operation {
        name,
        namespace,
        action,
    })
}

fn write(name: &str, raw: &RawOperation<'_>) -> Result<Action, BadCall> {
    let key = key(raw)?;
    let mut expect = raw
        .expect
        .map(|raw| typed::<u64>(Some(raw)).ok_or(BadCall::Expect))
        .transpose()?;
    let write = match name {
        "delete" => Write::Delete,
        "incr" => {
            let number = |raw: Option<&RawValue>| match raw {
                None => Ok(None),
                Some(_) => typed::<i64>(raw).map(Some).ok_or(BadCall::Delta),
            };
            Write::Incr {
                delta: number(raw.delta)?.ok_or(BadCall::Delta)?,
                min: number(raw.min)?,
                max: number(raw.max)?,
                ttl_seconds: expiry(raw)?,
            }
        }
        _ => {
            let value = json::compact(raw.value.ok_or(BadCall::Value)?.get());
            if value.len() > MAX_VALUE_BYTES {
                return Err(BadCall::ValueTooLarge);
            }
            if name == "putIfAbsent" {
                expect = Some(0);
            }
            Write::Put {
                value: value.into(),
                ttl_seconds: expiry(raw)?,
            }
        }
    };
    Ok(Action::Write {
        key,
        write,
        expect,
        required: raw.required.unwrap_or(false),
    })
}

fn prefix(raw: &RawOperation<'_>) -> Result<Action, BadCall> {
    let prefix: String = typed(raw.prefix).ok_or(BadCall::PrefixRequired)?;
    if prefix.is_empty() {
        return Err(BadCall::PrefixRequired);
    }
    if prefix.len() > MAX_KEY_BYTES {
        return Err(BadCall::KeyTooLarge);
    }
    let limit = match raw.limit {
        None => DEFAULT_PREFIX_LIMIT,
        Some(_) => typed::<i64>(raw.limit)
            .map(|limit| u64::try_from(limit).unwrap_or(0))
            .ok_or(BadCall::Limit)?,
    };
    Ok(Action::GetPrefix {
        prefix: prefix.into(),
        after: typed::<String>(raw.after).map(Into::into),
        limit: clamp_limit(limit),
        keys_only: typed(raw.keys_only).unwrap_or(false),
        include_expired: false,
    })
}

/// Exactly one of `ttlSeconds` and `forever:true`; the time to live, `None` for ever.
fn expiry(raw: &RawOperation<'_>) -> Result<Option<u64>, BadCall> {
    let forever = typed::<bool>(raw.forever).unwrap_or(false);
    match (raw.ttl_seconds, forever) {
        (None, true) => Ok(None),
        (Some(_), false) => match typed::<u64>(raw.ttl_seconds) {
            // Times stay within what milliseconds in an i64 can say.
            Some(ttl) if (1..=u64::from(u32::MAX)).contains(&ttl) => Ok(Some(ttl)),
            _ => Err(BadCall::Ttl),
        },
        _ => Err(BadCall::ExpiryNotSpecified),
    }
}

fn key(raw: &RawOperation<'_>) -> Result<Arc<str>, BadCall> {
    checked_key(&typed::<String>(raw.key).ok_or(BadCall::Key)?)
}

/// The value, when it is there and of that type.
pub fn typed<T: DeserializeOwned>(raw: Option<&RawValue>) -> Option<T> {
    serde_json::from_str(raw?.get()).ok()
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    fn parse_text(operations: &str, limits: Limits) -> Result<Call, BadCall> {
        let raw: Vec<&RawValue> = serde_json::from_str(operations).unwrap();
        parse(&raw, limits)
    }

    #[rstest]
    #[case(
        r#"[{"op":"put","ns":"a","key":"k","value":1}]"#,
        BadCall::ExpiryNotSpecified
    )]
    #[case(
        r#"[{"op":"put","ns":"a","key":"k","value":1,"forever":false}]"#,
        BadCall::ExpiryNotSpecified
    )]
    #[case(
        r#"[{"op":"put","ns":"a","key":"k","value":1,"forever":true,"ttlSeconds":1}]"#,
        BadCall::ExpiryNotSpecified
    )]
    #[case(
        r#"[{"op":"put","ns":"a","key":"k","value":1,"ttlSeconds":0}]"#,
        BadCall::Ttl
    )]
    #[case(
        r#"[{"op":"put","ns":"a","key":"k","value":1,"ttlSeconds":1.5}]"#,
        BadCall::Ttl
    )]
    #[case(r#"[{"op":"put","ns":"a","key":"k","forever":true}]"#, BadCall::Value)]
    #[case(
        r#"[{"op":"put","ns":"a","key":"k","value":1,"forever":true,"expect":-1}]"#,
        BadCall::Expect
    )]
    #[case(
        r#"[{"op":"put","ns":"A","key":"k","value":1,"forever":true}]"#,
        BadCall::Namespace
    )]
    #[case(
        r#"[{"op":"put","ns":"-a","key":"k","value":1,"forever":true}]"#,
        BadCall::Namespace
    )]
    #[case(
        r#"[{"op":"put","key":"k","value":1,"forever":true}]"#,
        BadCall::Namespace
    )]
    #[case(r#"[{"op":"get","ns":"a","key":""}]"#, BadCall::Key)]
    #[case(r#"[{"op":"getMany","ns":"a"}]"#, BadCall::Key)]
    #[case(
        r#"[{"op":"getPrefix","ns":"a","prefix":""}]"#,
        BadCall::PrefixRequired
    )]
    #[case(r#"[{"op":"scan","ns":"a"}]"#, BadCall::UnknownOperation)]
    #[case(
        r#"[{"op":"get","ns":"a","key":"k","tenantId":"x"}]"#,
        BadCall::TenantNotAnInput
    )]
    #[case(
        r#"[{"op":"get","ns":"a","key":"k","_tenant_x":null}]"#,
        BadCall::TenantNotAnInput
    )]
    #[case(r#"[1]"#, BadCall::Operation)]
    #[case(
        r#"[{"op":"delete","ns":"a","key":"k"},{"op":"put","ns":"a","key":"k","value":1,"forever":true}]"#,
        BadCall::DuplicateKey
    )]
    fn a_broken_rule_is_named(#[case] operations: &str, #[case] expected: BadCall) {
        assert_eq!(parse_text(operations, Limits::CALL), Err(expected));
    }

    #[test]
    fn limits_are_inclusive() {
        let many = |n: usize, op: &dyn Fn(usize) -> String| {
            format!("[{}]", (0..n).map(op).collect::<Vec<_>>().join(","))
        };
        let get = |n: usize| format!(r#"{{"op":"get","ns":"a","key":"{n}"}}"#);
        assert!(parse_text(&many(256, &get), Limits::CALL).is_ok());
        assert_eq!(
            parse_text(&many(257, &get), Limits::CALL),
            Err(BadCall::TooManyOperations)
        );
        assert!(parse_text(&many(64, &get), Limits::RIDER).is_ok());
        assert_eq!(
            parse_text(&many(65, &get), Limits::RIDER),
            Err(BadCall::TooManyOperations)
        );
        let prefix =
            |n: usize| format!(r#"{{"op":"getPrefix","ns":"a","prefix":"{n}","limit":5000}}"#);
        assert!(parse_text(&many(1, &prefix), Limits::CALL).is_ok());
        assert_eq!(
            parse_text(&many(2, &prefix), Limits::CALL),
            Err(BadCall::TooManyKeys)
        );
        assert_eq!(
            parse_text(&many(1, &prefix), Limits::RIDER),
            Err(BadCall::PrefixInTransaction)
        );
        let key = |len: usize| format!(r#"[{{"op":"get","ns":"a","key":"{}"}}]"#, "k".repeat(len));
        assert!(parse_text(&key(512), Limits::CALL).is_ok());
        assert_eq!(
            parse_text(&key(513), Limits::CALL),
            Err(BadCall::KeyTooLarge)
        );
        let put = |len: usize| {
            format!(
                r#"[{{"op":"put","ns":"a","key":"k","forever":true,"value": "{}" }}]"#,
                "v".repeat(len - 2)
            )
        };
        assert!(parse_text(&put(65_536), Limits::CALL).is_ok());
        assert_eq!(
            parse_text(&put(65_537), Limits::CALL),
            Err(BadCall::ValueTooLarge)
        );
    }

    #[test]
    fn null_is_a_value() {
        let call = parse_text(
            r#"[{"op":"put","ns":"a","key":"k","value":null,"forever":true}]"#,
            Limits::CALL,
        )
        .unwrap();
        assert!(matches!(
            &call.operations[0].action,
            Action::Write { write: Write::Put { value, .. }, .. } if &**value == "null"
        ));
    }
}
