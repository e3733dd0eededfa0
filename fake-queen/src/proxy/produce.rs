//! What a body that makes or fills queues holds, as far as plans limit it. Pure.

use std::borrow::Cow;

use serde::Deserialize;
use serde_json::value::RawValue;

use super::plan::Plan;
use super::refusal::Refusal;
use crate::json::Object;
use crate::routes::push::DEFAULT_LANE;

/// A lane that is written to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pushed {
    /// Its queue.
    pub queue: String,
    /// Its name.
    pub partition: String,
}

/// What a push or transaction holds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Load {
    /// Items, those of a transaction's operations counted flat.
    pub items: usize,
    /// Lanes, each once where it follows itself.
    pub lanes: Vec<Pushed>,
}

#[derive(Deserialize)]
struct Body<'a> {
    #[serde(borrow, default)]
    items: Vec<Object<Item<'a>>>,
    #[serde(borrow, default)]
    operations: Vec<Object<Operation<'a>>>,
}

#[derive(Deserialize)]
struct Operation<'a> {
    #[serde(borrow, default)]
    items: Vec<Object<Item<'a>>>,
}

#[derive(Deserialize)]
struct Item<'a> {
    #[serde(borrow, default)]
    queue: Cow<'a, str>,
    #[serde(default)]
    partition: Option<String>,
    #[serde(borrow, default)]
    payload: Option<&'a RawValue>,
    #[serde(borrow, default)]
    data: Option<&'a RawValue>,
}

/// Reads a push or a transaction, within the plan's sizes.
///
/// # Errors
/// [`Refusal::Invalid`] or [`Refusal::TooLarge`].
pub fn load(body: &[u8], plan: &Plan) -> Result<Load, Refusal> {
    let body: Body<'_> = object(body)?;
    let items = body.items.iter().chain(
        body.operations
            .iter()
            .flat_map(|operation| &operation.0.items),
    );
    let mut load = Load::default();
    for Object(item) in items {
        load.items += 1;
        if load.items > plan.max_batch_items {
            return Err(Refusal::TooLarge("max_batch_items"));
        }
        let payload = item.payload.or(item.data).map_or(0, |raw| raw.get().len());
        if plan.max_payload_bytes.is_some_and(|max| payload > max) {
            return Err(Refusal::TooLarge("max_payload_bytes"));
        }
        let partition = item.partition.as_deref().unwrap_or(DEFAULT_LANE);
        let follows = load
            .lanes
            .last()
            .is_some_and(|last| last.queue == item.queue && last.partition == partition);
        if !follows && !item.queue.is_empty() {
            load.lanes.push(Pushed {
                queue: item.queue.to_string(),
                partition: partition.to_owned(),
            });
        }
    }
    Ok(load)
}

/// Reads a `configure` call: the lane it makes room for, its retention within the plan's.
///
/// # Errors
/// [`Refusal::Invalid`] or [`Refusal::Quota`].
pub fn configured(body: &[u8], plan: &Plan) -> Result<Option<Pushed>, Refusal> {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Options {
        retention_seconds: Option<f64>,
    }
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Body {
        queue: Option<String>,
        retention_seconds: Option<f64>,
        options: Option<Object<Options>>,
    }
    let body: Body = object(body)?;
    let retention = body
        .options
        .and_then(|options| options.0.retention_seconds)
        .or(body.retention_seconds);
    if let (Some(asked), Some(max)) = (retention, plan.max_retention_seconds)
        && asked > max as f64
    {
        return Err(Refusal::Quota("max_retention_seconds"));
    }
    Ok(body.queue.map(|queue| Pushed {
        queue,
        partition: DEFAULT_LANE.to_owned(),
    }))
}

fn object<'b, T: Deserialize<'b>>(body: &'b [u8]) -> Result<T, Refusal> {
    serde_json::from_slice(body)
        .map(|Object(read)| read)
        .map_err(|error| Refusal::Invalid(error.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn items_of_a_transaction_count_flat() {
        let body = br#"{"operations":[
            {"type":"push","items":[{"queue":"q","partition":"0","data":{}},
                                    {"queue":"q","partition":"0","data":{}}]},
            {"type":"ack","transactionId":"x"},
            {"type":"push","items":[{"queue":"r","payload":1}]}]}"#;
        let read = load(body, &Plan::default()).unwrap();
        let lane = |queue: &str, partition: &str| Pushed {
            queue: queue.into(),
            partition: partition.into(),
        };
        assert_eq!(read.items, 3);
        assert_eq!(read.lanes, [lane("q", "0"), lane("r", "Default")]);
        let plan = Plan {
            max_batch_items: 2,
            ..Plan::default()
        };
        assert_eq!(load(body, &plan), Err(Refusal::TooLarge("max_batch_items")));
    }

    #[test]
    fn an_item_larger_than_the_plan_is_refused() {
        let body = br#"{"items":[{"queue":"q","payload":"12345678"}]}"#;
        let plan = |max| Plan {
            max_payload_bytes: Some(max),
            ..Plan::default()
        };
        assert!(load(body, &plan(10)).is_ok());
        assert_eq!(
            load(body, &plan(9)),
            Err(Refusal::TooLarge("max_payload_bytes"))
        );
        assert!(matches!(
            load(b"{\"items\":[", &plan(9)),
            Err(Refusal::Invalid(_))
        ));
    }

    #[test]
    fn fields_as_an_array_are_refused_wherever_they_stand() {
        for body in [
            r#"[[{"queue":"q"}]]"#,
            r#"{"items":[["q","0",1,null]]}"#,
            r#"{"operations":[[[{"queue":"q"}]]]}"#,
            r#"{"operations":[{"items":[["q","0",1,null]]}]}"#,
        ] {
            let read = load(body.as_bytes(), &Plan::default());
            assert!(matches!(read, Err(Refusal::Invalid(_))), "{body}: {read:?}");
        }
        for body in [r#"["q",61]"#, r#"{"queue":"q","options":[61]}"#] {
            let read = configured(body.as_bytes(), &Plan::default());
            assert!(matches!(read, Err(Refusal::Invalid(_))), "{body}: {read:?}");
        }
    }

    #[test]
    fn retention_is_found_where_the_broker_finds_it() {
        let plan = Plan {
            max_retention_seconds: Some(60),
            ..Plan::default()
        };
        let refused = Err(Refusal::Quota("max_retention_seconds"));
        let inside = br#"{"queue":"q","options":{"retentionSeconds":61}}"#;
        let beside = br#"{"queue":"q","retentionSeconds":61}"#;
        assert_eq!(configured(inside, &plan), refused);
        assert_eq!(configured(beside, &plan), refused);
        let short = br#"{"queue":"q","options":{"retentionSeconds":60}}"#;
        assert!(configured(short, &plan).is_ok_and(|pushed| pushed.is_some()));
    }
}
