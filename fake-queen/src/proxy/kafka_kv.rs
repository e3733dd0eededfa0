//! Which KV batches only keep what Kafka's groups and transactions keep (contract section 8): those
//! need the `consume` scope and no feature. Pure.

use std::borrow::Cow;

use serde::Deserialize;
use serde_json::value::RawValue;

use super::class::{Access, Class, Feature};

/// Where a facade keeps its rows.
const NAMESPACE: &str = "queen-kafka";
/// How its keys begin.
const PREFIX: &str = "qk:";

/// What counts of an operation; a field that is there twice makes the batch unreadable.
#[derive(Deserialize)]
struct Operation<'a> {
    #[serde(borrow)]
    ns: Option<&'a RawValue>,
    #[serde(borrow)]
    op: Option<&'a RawValue>,
    #[serde(borrow)]
    key: Option<&'a RawValue>,
    #[serde(borrow)]
    keys: Option<&'a RawValue>,
    #[serde(borrow)]
    prefix: Option<&'a RawValue>,
}

/// The class of `POST /api/v1/kv` with this body. One that can't be read is gated.
pub fn classify(body: &[u8]) -> Class {
    let Some(operations) = operations(body) else {
        return Class::Gated(Feature::Kv, Access::Grow);
    };
    let parsed: Option<Vec<Operation<'_>>> = operations
        .iter()
        .map(|operation| {
            // Not an array of the fields, which the broker has in another order.
            let is_object = operation.get().starts_with('{');
            is_object.then(|| serde_json::from_str(operation.get()).ok())?
        })
        .collect();
    let Some(parsed) = parsed else {
        return Class::Gated(Feature::Kv, Access::Grow);
    };
    if !parsed.is_empty() && parsed.iter().all(Operation::is_of_kafka) {
        return Class::Consume;
    }
    let access = parsed
        .iter()
        .map(Operation::access)
        .fold(Access::Read, |worst, access| match (worst, access) {
            (Access::Grow, _) | (_, Access::Grow) => Access::Grow,
            (Access::Shrink, _) | (_, Access::Shrink) => Access::Shrink,
            _ => Access::Read,
        });
    Class::Gated(Feature::Kv, access)
}

/// The elements of a bare array, or of `operations`.
fn operations(body: &[u8]) -> Option<Vec<&RawValue>> {
    #[derive(Deserialize)]
    struct Named<'a> {
        #[serde(borrow)]
        operations: Vec<&'a RawValue>,
    }
    let first = body.iter().find(|byte| !byte.is_ascii_whitespace());
    if first == Some(&b'[') {
        serde_json::from_slice(body).ok()
    } else {
        let named = serde_json::from_slice::<Named<'_>>(body).ok()?;
        Some(named.operations)
    }
}

impl Operation<'_> {
    fn is_of_kafka(&self) -> bool {
        let op = text(self.op);
        let known = matches!(
            op.as_deref(),
            Some("put" | "delete" | "getMany" | "getPrefix")
        );
        let mut addresses = [self.key, self.prefix].into_iter().flatten().peekable();
        let addressed = addresses.peek().is_some() || self.keys.is_some();
        known
            && text(self.ns).as_deref() == Some(NAMESPACE)
            && addressed
            && addresses.all(|raw| text(Some(raw)).is_some_and(|key| key.starts_with(PREFIX)))
            && self.keys.is_none_or(all_of_kafka)
    }

    fn access(&self) -> Access {
        match text(self.op).as_deref() {
            Some("get" | "getMany" | "getPrefix") => Access::Read,
            Some("delete") => Access::Shrink,
            _ => Access::Grow,
        }
    }
}

fn text(raw: Option<&RawValue>) -> Option<Cow<'_, str>> {
    #[derive(Deserialize)]
    #[serde(transparent)]
    struct Text<'a>(#[serde(borrow)] Cow<'a, str>);
    serde_json::from_str::<Text<'_>>(raw?.get())
        .ok()
        .map(|text| text.0)
}

fn all_of_kafka(keys: &RawValue) -> bool {
    serde_json::from_str::<Vec<&RawValue>>(keys.get()).is_ok_and(|keys| {
        !keys.is_empty()
            && keys
                .iter()
                .all(|key| text(Some(key)).is_some_and(|key| key.starts_with(PREFIX)))
    })
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case::put(r#"[{"ns":"queen-kafka","op":"put","key":"qk:group:a","value":1}]"#)]
    #[case::named(r#" {"operations":[{"ns":"queen-kafka","op":"getMany","keys":["qk:a"]}]}"#)]
    #[case::prefix_alone(r#"[{"ns":"queen-kafka","op":"getPrefix","prefix":"qk:"}]"#)]
    #[case::escaped(r#"[{"ns":"queen-kafka","op":"delete","key":"\u0071k:a"}]"#)]
    fn batches_of_kafka_are_consumption(#[case] body: &str) {
        assert_eq!(classify(body.as_bytes()), Class::Consume);
    }

    #[rstest]
    #[case::get(r#"[{"ns":"queen-kafka","op":"get","key":"qk:a"}]"#, Access::Read)]
    #[case::put_if_absent(
        r#"[{"ns":"queen-kafka","op":"putIfAbsent","key":"qk:a"}]"#,
        Access::Grow
    )]
    #[case::namespace(r#"[{"ns":"mine","op":"delete","key":"qk:a"}]"#, Access::Shrink)]
    #[case::upper_case(r#"[{"ns":"queen-kafka","op":"put","key":"QK:a"}]"#, Access::Grow)]
    #[case::short(
        r#"[{"ns":"queen-kafka","op":"getPrefix","prefix":"q"}]"#,
        Access::Read
    )]
    #[case::no_address(r#"[{"ns":"queen-kafka","op":"put"}]"#, Access::Grow)]
    #[case::one_foreign(
        r#"[{"ns":"queen-kafka","op":"put","key":"qk:a"},{"ns":"x","op":"put","key":"qk:a"}]"#,
        Access::Grow
    )]
    #[case::foreign_beside(
        r#"[{"ns":"queen-kafka","op":"getMany","keys":["qk:a"],"key":"other"}]"#,
        Access::Read
    )]
    #[case::no_keys(r#"[{"ns":"queen-kafka","op":"getMany","keys":[]}]"#, Access::Read)]
    #[case::number(r#"[{"ns":"queen-kafka","op":"getMany","keys":[7]}]"#, Access::Read)]
    #[case::twice(
        r#"[{"ns":"queen-kafka","op":"put","key":"qk:a","key":"other"}]"#,
        Access::Grow
    )]
    #[case::not_an_object("[1]", Access::Grow)]
    #[case::fields_as_an_array(r#"[["queen-kafka","put","qk:a",null,null]]"#, Access::Grow)]
    #[case::empty("[]", Access::Read)]
    #[case::torn("[{", Access::Grow)]
    fn other_batches_stay_gated(#[case] body: &str, #[case] access: Access) {
        assert_eq!(classify(body.as_bytes()), Class::Gated(Feature::Kv, access));
    }
}
