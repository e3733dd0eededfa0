//! Which KV batches only keep what Kafka's groups and transactions keep (contract section 8): those
//! need the `consume` scope and no feature. Pure.

use serde_json::value::RawValue;

use super::class::{Access, Class, Feature};
use crate::engine::kv::parse::{self, RawOperation};
use crate::json::Object;

/// Where a facade keeps its rows.
const NAMESPACE: &str = "queen-kafka";
/// How its keys begin.
const PREFIX: &str = "qk:";

/// The class of `POST /api/v1/kv` with this body. One that can't be read is gated.
pub fn classify(body: &[u8]) -> Class {
    let Some(parsed) = operations(body) else {
        return Class::Gated(Feature::Kv, Access::Grow);
    };
    if !parsed.is_empty() && parsed.iter().all(is_of_kafka) {
        return Class::Consume;
    }
    let access = parsed
        .iter()
        .map(access)
        .fold(Access::Read, |worst, access| match (worst, access) {
            (Access::Grow, _) | (_, Access::Grow) => Access::Grow,
            (Access::Shrink, _) | (_, Access::Shrink) => Access::Shrink,
            _ => Access::Read,
        });
    Class::Gated(Feature::Kv, access)
}

fn operations(body: &[u8]) -> Option<Vec<RawOperation<'_>>> {
    let elements = parse::elements(body).ok()?;
    let mut parsed = Vec::with_capacity(elements.len());
    for raw in elements {
        let Object(operation) = serde_json::from_str(raw.get()).ok()?;
        parsed.push(operation);
    }
    Some(parsed)
}

fn is_of_kafka(operation: &RawOperation<'_>) -> bool {
    let op = text(operation.op);
    let known = matches!(
        op.as_deref(),
        Some("put" | "delete" | "getMany" | "getPrefix")
    );
    let one = [operation.key, operation.prefix];
    let mut addresses = one.into_iter().flatten().peekable();
    let addressed = addresses.peek().is_some() || operation.keys.is_some();
    known
        && text(operation.ns).as_deref() == Some(NAMESPACE)
        && addressed
        && addresses.all(|raw| text(Some(raw)).is_some_and(|key| key.starts_with(PREFIX)))
        && operation.keys.is_none_or(all_of_kafka)
}

fn access(operation: &RawOperation<'_>) -> Access {
    match text(operation.op).as_deref() {
        Some("get" | "getMany" | "getPrefix") => Access::Read,
        Some("delete") => Access::Shrink,
        _ => Access::Grow,
    }
}

fn text(raw: Option<&RawValue>) -> Option<String> {
    parse::typed(raw)
}

fn all_of_kafka(keys: &RawValue) -> bool {
    parse::typed::<Vec<String>>(Some(keys))
        .is_some_and(|keys| !keys.is_empty() && keys.iter().all(|key| key.starts_with(PREFIX)))
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
