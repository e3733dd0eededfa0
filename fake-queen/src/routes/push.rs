//! `POST /api/v1/push`: appends items to lanes. Contract sections 4.1 to 4.3.
//! Queues and lanes that are missing are made. Each (queue, partition) group of a call is one
//! segment, all or nothing; groups stand for themselves. Always 201 with one result per item.

use std::borrow::Cow;

use http::StatusCode;
use serde::Deserialize;
use serde_json::value::RawValue;

use super::Call;
use crate::engine::push::{self, Grouper};
use crate::faults::ItemStatus;
use crate::http::error::ApiError;
use crate::http::reply::Reply;
use crate::ids::MessageId;
use crate::options::Version;
use crate::{ids, json};

/// Longest queue name (`VARCHAR(255)`).
pub const MAX_QUEUE_NAME_CHARS: usize = 255;
/// The lane of items that name none.
pub const DEFAULT_LANE: &str = "Default";
/// Bytes of a result without its names.
const RESULT_BYTES: usize = 160;

#[derive(Deserialize)]
struct Body<'a> {
    #[serde(borrow)]
    items: Vec<Item<'a>>,
}

/// One pushed item.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Item<'a> {
    #[serde(borrow)]
    queue: Cow<'a, str>,
    #[serde(borrow)]
    partition: Option<Text<'a>>,
    #[serde(borrow)]
    payload: &'a RawValue,
    #[serde(borrow)]
    transaction_id: Option<Text<'a>>,
}

/// Text that isn't copied unless it holds escapes, also behind an `Option`.
#[derive(Deserialize)]
#[serde(transparent)]
pub struct Text<'a>(#[serde(borrow)] pub Cow<'a, str>);

/// Where an item went.
#[derive(Clone, Copy)]
enum Place {
    /// Item of the call's groups.
    Pushed(usize),
    /// Answered with a status and not appended.
    Left(&'static str),
}

/// Answers.
///
/// # Errors
/// 400 for a body of another shape, 500 for the store.
pub async fn handle(call: &Call<'_>) -> Result<Reply, ApiError> {
    let Body { items } = call.json()?;
    let (mut pushed, mut buffered) = (Grouper::default(), Grouper::default());
    let mut places = Vec::with_capacity(items.len());
    let mut count = 0;
    for (position, item) in items.iter().enumerate() {
        let left = match call.injected.push_item(position) {
            Some(ItemStatus::Error) => Some("error"),
            Some(ItemStatus::Failed) => Some("failed"),
            Some(ItemStatus::Buffered) => {
                item.add_to(&mut buffered, call);
                Some("buffered")
            }
            Some(ItemStatus::Duplicate) | None => item.refusal(),
        };
        places.push(match left {
            Some(status) => Place::Left(status),
            None => {
                item.add_to(&mut pushed, call);
                count += 1;
                Place::Pushed(count - 1)
            }
        });
    }
    let (groups, positions) = pushed.finish();
    let writer = call.node.engine.writer();
    let outcomes = if groups.is_empty() {
        Vec::new()
    } else {
        writer
            .write(push::bytes(&groups), move |batch| push::plan(batch, groups))
            .await?
    };
    let shows_offsets = call.node.options.version >= Version::V1_4 && !call.injected.omit_offsets();
    let mut out = Vec::with_capacity(items.len() * RESULT_BYTES + 2);
    out.push(b'[');
    for (index, (item, place)) in items.iter().zip(places).enumerate() {
        if index > 0 {
            out.push(b',');
        }
        let (message_id, status, offset) = match place {
            Place::Left(status) => (MessageId::UNKNOWN, status, None),
            Place::Pushed(nth) => {
                let (group, position) = positions[nth];
                let outcome = outcomes[group].item(position);
                let injected = call.injected.push_item(index) == Some(ItemStatus::Duplicate);
                let status = if outcome.duplicate || injected {
                    "duplicate"
                } else {
                    "queued"
                };
                (outcome.at.message_id, status, Some(outcome.at.offset))
            }
        };
        write_result(
            &mut out,
            index,
            item,
            message_id,
            status,
            offset.filter(|_| shows_offsets),
        );
    }
    out.push(b']');
    replay(call, buffered);
    Ok(Reply::json(StatusCode::CREATED, out))
}

impl Item<'_> {
    /// Adds it to the groups of its call.
    pub fn add_to(&self, grouper: &mut Grouper, call: &Call<'_>) {
        let lane = self.partition.as_ref().map_or(DEFAULT_LANE, |text| &text.0);
        let id = self.transaction_id.as_ref().map(|text| &*text.0);
        grouper.add(call.tenant, &self.queue, lane, id, self.payload.get());
    }

    /// The status of an item that its row wouldn't take.
    fn refusal(&self) -> Option<&'static str> {
        let long = self.queue.len() > MAX_QUEUE_NAME_CHARS
            && self.queue.chars().count() > MAX_QUEUE_NAME_CHARS;
        long.then_some("error")
    }
}

fn write_result(
    out: &mut Vec<u8>,
    index: usize,
    item: &Item<'_>,
    message_id: MessageId,
    status: &str,
    offset: Option<i64>,
) {
    json::raw(out, "{\"index\":");
    json::uint(out, index as u64);
    json::raw(out, ",\"message_id\":");
    ids::write_uuid(out, message_id.0);
    json::raw(out, ",\"transaction_id\":");
    match &item.transaction_id {
        Some(id) => json::string(out, &id.0),
        None => ids::write_uuid(out, message_id.0),
    }
    json::raw(out, ",\"queueName\":");
    json::string(out, &item.queue);
    json::raw(out, ",\"status\":\"");
    json::raw(out, status);
    out.push(b'"');
    if let Some(offset) = offset {
        json::raw(out, ",\"offset\":");
        json::int(out, offset);
    }
    out.push(b'}');
}

/// Appends what was answered as buffered, as the spool does later.
fn replay(call: &Call<'_>, buffered: Grouper) {
    let (groups, _) = buffered.finish();
    if groups.is_empty() {
        return;
    }
    let writer = call.node.engine.writer().clone();
    tokio::spawn(async move {
        // Whether the spool's replay works out is told to nobody.
        let _ = writer
            .write(push::bytes(&groups), move |batch| {
                push::plan(batch, groups);
            })
            .await;
    });
}
