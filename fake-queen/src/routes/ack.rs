//! `POST /api/v1/ack` and `POST /api/v1/ack/batch`. Contract section 4.10.
//! Always 200 with one result per ack, in order; each (partition, lease) stands for itself.

use serde::Deserialize;

use super::Call;
use super::push::Text;
use crate::engine::native::QUEUE_MODE;
use crate::engine::native::ack::{self, Ack, Status, Verdict};
use crate::http::error::ApiError;
use crate::http::reply::Reply;
use crate::json;

/// One ack as it comes.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AckItem<'a> {
    #[serde(borrow)]
    transaction_id: Option<Text<'a>>,
    #[serde(borrow)]
    partition_id: Option<Text<'a>>,
    #[serde(borrow)]
    consumer_group: Option<Text<'a>>,
    #[serde(borrow)]
    lease_id: Option<Text<'a>>,
    #[serde(borrow)]
    status: Option<Text<'a>>,
    #[serde(borrow)]
    error: Option<Text<'a>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Batch<'a> {
    #[serde(borrow)]
    consumer_group: Option<Text<'a>>,
    #[serde(borrow)]
    acknowledgments: Vec<AckItem<'a>>,
}

fn text<'t>(text: &'t Option<Text<'_>>) -> &'t str {
    text.as_ref().map_or("", |text| &text.0)
}

impl AckItem<'_> {
    /// The record's transaction id; empty when none is shown.
    pub fn transaction_id(&self) -> &str {
        text(&self.transaction_id)
    }

    /// The ack of `group`, or of the group it names itself; `lent` stands in for a lease that it
    /// doesn't show.
    pub fn ack(&self, group: Option<&str>, lent: &str) -> Ack {
        let own = Some(text(&self.consumer_group)).filter(|group| !group.is_empty());
        let lease = Some(text(&self.lease_id)).filter(|lease| !lease.is_empty());
        Ack {
            transaction_id: self.transaction_id().to_owned(),
            partition_id: text(&self.partition_id).to_owned(),
            lease_id: lease.unwrap_or(lent).to_owned(),
            group: group.or(own).unwrap_or(QUEUE_MODE).into(),
            status: Status::of(self.status.as_ref().map(|status| &*status.0)),
            error: self
                .error
                .as_ref()
                .map(|error| error.0.clone().into_owned()),
        }
    }
}

/// Answers for one ack, with an array all the same.
///
/// # Errors
/// 400 for the body, 500 for the store.
pub async fn one(call: &Call<'_>) -> Result<Reply, ApiError> {
    let item: AckItem<'_> = call.json()?;
    answer(call, vec![item.ack(None, "")]).await
}

/// Answers for many. The group is the call's; items' own are not read.
///
/// # Errors
/// As [`one`].
pub async fn batch(call: &Call<'_>) -> Result<Reply, ApiError> {
    let batch: Batch<'_> = call.json()?;
    let group = match text(&batch.consumer_group) {
        "" => QUEUE_MODE,
        group => group,
    };
    let acks = batch.acknowledgments.iter();
    answer(call, acks.map(|item| item.ack(Some(group), "")).collect()).await
}

async fn answer(call: &Call<'_>, acks: Vec<Ack>) -> Result<Reply, ApiError> {
    let engine = &call.node.engine;
    let (groups, places) = ack::prepare(&engine.shared, call.tenant, &acks)
        .await
        .map_err(|_| ApiError::PopFailed)?;
    let verdicts: Vec<Vec<Verdict>> = engine
        .writer()
        .write(0, move |batch| {
            let plans = groups.iter().map(|group| ack::plan(batch, group));
            plans.collect()
        })
        .await?;
    let mut out = b"[".to_vec();
    for (index, (ack, (group, position))) in acks.iter().zip(places).enumerate() {
        if index > 0 {
            out.push(b',');
        }
        write(&mut out, index, ack, &verdicts[group][position]);
    }
    out.push(b']');
    Ok(Reply::ok(out))
}

fn write(out: &mut Vec<u8>, index: usize, ack: &Ack, verdict: &Verdict) {
    json::raw(out, "{\"index\":");
    json::uint(out, index as u64);
    json::raw(out, ",\"transactionId\":");
    json::string(out, &ack.transaction_id);
    json::raw(out, ",\"success\":");
    json::boolean(out, verdict.rejected.is_none());
    json::raw(out, ",\"error\":");
    match &verdict.rejected {
        Some(rejected) => json::string(out, &rejected.to_string()),
        None => json::raw(out, "null"),
    }
    for (name, value) in [
        (",\"leaseReleased\":", verdict.lease_released),
        (",\"dlq\":", verdict.dead_lettered),
        (",\"noop\":", verdict.noop),
    ] {
        json::raw(out, name);
        json::boolean(out, value);
    }
    if let Some(conflated) = verdict.conflated {
        json::raw(out, ",\"conflated\":");
        json::uint(out, conflated);
    }
    out.push(b'}');
}
