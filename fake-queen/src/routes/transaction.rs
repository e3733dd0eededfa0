//! `POST /api/v1/transaction`: pushes, acks and KV operations, all or nothing. Contract section 5.
//! Business failures are 200 with `success:false`; `failedIndex` counts push items and acks before
//! the KV operations. Success shows no offsets. One rejected ack rejects the bundle. Timers are
//! refused.

use std::borrow::Cow;

use http::StatusCode;
use serde::Deserialize;
use serde_json::value::RawValue;
use uuid::Uuid;

use super::Call;
use super::ack::AckItem;
use super::admission::Kind;
use super::kv::{write_outcome, write_precondition};
use super::push::{DEFAULT_LANE, MAX_QUEUE_NAME_CHARS, Text};
use crate::engine::kv::parse;
use crate::engine::kv::rules::{BadCall, Limits};
use crate::engine::native::ack::{self, Verdict};
use crate::engine::push::{self, Grouper};
use crate::engine::transaction::{self, Bundle, Committed, Refused};
use crate::http::error::ApiError;
use crate::http::reply::Reply;
use crate::{ids, json};

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Body<'a> {
    #[serde(borrow)]
    operations: Option<Vec<&'a RawValue>>,
    #[serde(borrow)]
    required_leases: Option<Vec<Text<'a>>>,
    #[serde(borrow)]
    kv: Option<&'a RawValue>,
    #[serde(borrow)]
    timers: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct Operation<'a> {
    #[serde(borrow, rename = "type")]
    kind: Option<Text<'a>>,
    #[serde(borrow)]
    items: Option<Vec<Item<'a>>>,
}

/// A pushed item; unlike the push route's, `data` stands for `payload` and neither is `{}`.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Item<'a> {
    #[serde(borrow)]
    queue: Cow<'a, str>,
    #[serde(borrow)]
    partition: Option<Text<'a>>,
    #[serde(borrow, default, deserialize_with = "parse::present")]
    payload: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "parse::present")]
    data: Option<&'a RawValue>,
    #[serde(borrow)]
    transaction_id: Option<Text<'a>>,
}

/// Why a bundle didn't commit.
enum Failure<'a> {
    Shape(&'static str),
    Kv(BadCall),
    Admission(ApiError),
    Refused(&'a Refused),
}

/// One element of `results`, in the flat order.
enum Element<'a> {
    Push(Item<'a>),
    Ack(AckItem<'a>),
}

/// Answers.
///
/// # Errors
/// 400 for a body that isn't JSON, 500 for the store.
pub async fn handle(call: &Call<'_>) -> Result<Reply, ApiError> {
    let bundle_id = ids::uuid(&*call.node.host.entropy);
    let body: Body<'_> = call.json()?;
    let (elements, kv) = match read(&body) {
        Ok(read) => read,
        Err(failure) => return Ok(failed(call, bundle_id, &failure, 0)),
    };
    if !kv.operations.is_empty() {
        let kind = if kv.writes() { Kind::Write } else { Kind::Read };
        let now = call.node.host.clock.monotonic();
        if let Err(refused) = call.node.admission.admit(call.tenant, kind, now) {
            return Ok(failed(call, bundle_id, &Failure::Admission(refused), 0));
        }
    }
    let mut grouper = Grouper::default();
    for element in &elements {
        if let Element::Push(item) = element {
            let lane = item.partition.as_ref().map_or(DEFAULT_LANE, |text| &text.0);
            let id = item.transaction_id.as_ref().map(|text| &*text.0);
            let payload = item.payload.or(item.data).map_or("{}", RawValue::get);
            grouper.add(call.tenant, &item.queue, lane, id, payload);
        }
    }
    let (groups, positions) = grouper.finish();
    let acks: Vec<ack::Ack> = elements
        .iter()
        .filter_map(|element| match element {
            Element::Ack(item) => Some(item.ack(None, lent_lease(&body))),
            Element::Push(_) => None,
        })
        .collect();
    let shared = &call.node.engine.shared;
    let (acks, verdicts) = ack::prepare(shared, call.tenant, &acks).await?;
    let places = Places {
        pushes: positions,
        acks: verdicts,
    };
    let bundle = Bundle {
        tenant: call.tenant,
        acks,
        kv: kv.clone(),
        groups,
        truncate_get_many: call.injected.truncate_get_many(),
    };
    let bytes = push::bytes(&bundle.groups) + bundle.kv.bytes();
    let done = call
        .node
        .engine
        .writer()
        .write(bytes, move |batch| transaction::plan(batch, bundle))
        .await?;
    Ok(match done {
        Ok(committed) => Reply::ok(success(bundle_id, &elements, &places, &kv, &committed)),
        Err(refused) => failed(call, bundle_id, &Failure::Refused(&refused), elements.len()),
    })
}

/// The group and the place there of each push item, and of each ack.
struct Places {
    pushes: Vec<(usize, usize)>,
    acks: Vec<(usize, usize)>,
}

/// The lease of acks that show none: the bundle's, when it names exactly one.
fn lent_lease<'a>(body: &'a Body<'_>) -> &'a str {
    match body.required_leases.as_deref() {
        Some([lease]) => &lease.0,
        _ => "",
    }
}

type Read<'a> = (Vec<Element<'a>>, crate::engine::kv::call::Call);

fn read<'a>(body: &Body<'a>) -> Result<Read<'a>, Failure<'static>> {
    let array = |raw: Option<&'a RawValue>| -> Result<Vec<&'a RawValue>, Failure<'static>> {
        raw.map_or(Ok(Vec::new()), |raw| {
            serde_json::from_str(raw.get()).map_err(|_| Failure::Shape("kv must be an array"))
        })
    };
    let kv = array(body.kv)?;
    if !array(body.timers)?.is_empty() {
        return Err(Failure::Shape("timers are not supported"));
    }
    if body.operations.is_none() && body.kv.is_none() && body.timers.is_none() {
        return Err(Failure::Shape("operations is required"));
    }
    let mut elements = Vec::new();
    for raw in body.operations.iter().flatten() {
        operation(raw, &mut elements)?;
    }
    let kv = parse::parse(&kv, Limits::RIDER).map_err(Failure::Kv)?;
    Ok((elements, kv))
}

fn operation<'a>(
    raw: &'a RawValue,
    elements: &mut Vec<Element<'a>>,
) -> Result<(), Failure<'static>> {
    const SHAPE: Failure<'static> = Failure::Shape("malformed operation");
    let operation: Operation<'a> = serde_json::from_str(raw.get()).map_err(|_| SHAPE)?;
    match operation.kind.as_ref().map(|kind| &*kind.0) {
        Some("ack") => {
            let item = serde_json::from_str(raw.get()).map_err(|_| SHAPE)?;
            elements.push(Element::Ack(item));
            return Ok(());
        }
        Some("push") => {}
        _ => return Err(Failure::Shape("unknown operation type")),
    }
    let items = match operation.items {
        Some(items) => items,
        // The flat form is an item itself.
        None => vec![serde_json::from_str(raw.get()).map_err(|_| SHAPE)?],
    };
    for item in items {
        if item.queue.chars().count() > MAX_QUEUE_NAME_CHARS {
            return Err(Failure::Shape("queue name too long"));
        }
        elements.push(Element::Push(item));
    }
    Ok(())
}

fn success(
    bundle_id: Uuid,
    elements: &[Element<'_>],
    places: &Places,
    kv: &crate::engine::kv::call::Call,
    committed: &Committed,
) -> Vec<u8> {
    let mut out = head(bundle_id, true);
    json::raw(&mut out, ",\"results\":[");
    let (mut pushes, mut acks) = (places.pushes.iter(), places.acks.iter());
    for (index, element) in elements.iter().enumerate() {
        comma(&mut out, index);
        json::raw(&mut out, "{\"index\":");
        json::uint(&mut out, index as u64);
        let item = match element {
            Element::Push(item) => item,
            Element::Ack(item) => {
                if let Some((group, position)) = acks.next() {
                    write_ack(&mut out, item, &committed.acks[*group][*position]);
                }
                continue;
            }
        };
        let Some((group, position)) = pushes.next() else {
            continue;
        };
        let outcome = committed.groups[*group].item(*position);
        json::raw(
            &mut out,
            ",\"type\":\"push\",\"success\":true,\"transactionId\":",
        );
        let message_id = outcome.at.message_id.0;
        match &item.transaction_id {
            Some(id) => json::string(&mut out, &id.0),
            None => ids::write_uuid(&mut out, message_id),
        }
        json::raw(&mut out, ",\"messageId\":");
        ids::write_uuid(&mut out, message_id);
        json::raw(&mut out, ",\"queueName\":");
        json::string(&mut out, &item.queue);
        if outcome.duplicate {
            json::raw(&mut out, ",\"duplicate\":true");
        }
        out.push(b'}');
    }
    for (position, (operation, outcome)) in kv.operations.iter().zip(&committed.kv).enumerate() {
        let index = elements.len() + position;
        comma(&mut out, index);
        json::raw(&mut out, "{\"index\":");
        json::uint(&mut out, index as u64);
        json::raw(&mut out, ",\"opIndex\":");
        json::uint(&mut out, position as u64);
        json::raw(&mut out, ",\"type\":\"kv\",\"op\":\"");
        json::raw(&mut out, operation.name);
        out.push(b'"');
        write_outcome(&mut out, outcome);
        out.push(b'}');
    }
    json::raw(&mut out, "]}");
    out
}

fn write_ack(out: &mut Vec<u8>, item: &AckItem<'_>, verdict: &Verdict) {
    json::raw(out, ",\"type\":\"ack\",\"success\":true,\"transactionId\":");
    json::string(out, item.transaction_id());
    json::raw(out, ",\"error\":null,\"dlq\":");
    json::boolean(out, verdict.dead_lettered);
    out.push(b'}');
}

fn failed(call: &Call<'_>, bundle_id: Uuid, failure: &Failure<'_>, elements: usize) -> Reply {
    let mut retry_after = None;
    let (status, reason, error) = match failure {
        Failure::Shape(error) => (StatusCode::BAD_REQUEST, "bad_request", (*error).to_owned()),
        Failure::Kv(bad) if bad.is_too_large() => (
            StatusCode::PAYLOAD_TOO_LARGE,
            "payload_too_large",
            bad.reason().to_owned(),
        ),
        Failure::Kv(bad) => (
            StatusCode::BAD_REQUEST,
            "bad_request",
            bad.reason().to_owned(),
        ),
        Failure::Admission(ApiError::RateLimited { retry_after_s }) => {
            retry_after = Some(retry_after_s.to_string());
            (
                StatusCode::TOO_MANY_REQUESTS,
                "rate_limited",
                "rate_limited".to_owned(),
            )
        }
        // The kill switch is 403 here and 503 on the KV route.
        Failure::Admission(ApiError::KvDisabled) => (
            StatusCode::FORBIDDEN,
            "kv_disabled",
            "kv_disabled".to_owned(),
        ),
        Failure::Admission(_) => (
            StatusCode::FORBIDDEN,
            "feature_gated",
            "feature_gated".to_owned(),
        ),
        Failure::Refused(Refused::Duplicate) => (
            StatusCode::OK,
            "duplicate",
            "a transactionId was pushed before".to_owned(),
        ),
        Failure::Refused(Refused::AckRejected(why)) => {
            (StatusCode::OK, "ack_rejected", why.clone())
        }
        Failure::Refused(Refused::Precondition(_)) => (
            StatusCode::OK,
            "kv_precondition",
            "a required condition was lost".to_owned(),
        ),
    };
    let mut out = head(bundle_id, false);
    json::raw(&mut out, ",\"reason\":\"");
    json::raw(&mut out, reason);
    json::raw(&mut out, "\",\"error\":");
    json::string(&mut out, &error);
    if let Failure::Refused(Refused::Precondition(lost)) = failure {
        json::raw(&mut out, ",\"ok\":false");
        if !call.injected.omit_winner() {
            write_precondition(&mut out, lost, elements + lost.index);
        }
    }
    json::raw(&mut out, ",\"results\":[]}");
    let mut reply = Reply::json(status, out);
    reply.retry_after = retry_after;
    reply
}

fn head(bundle_id: Uuid, success: bool) -> Vec<u8> {
    let mut out = b"{\"transactionId\":".to_vec();
    ids::write_uuid(&mut out, bundle_id.as_u128());
    json::raw(&mut out, ",\"success\":");
    json::boolean(&mut out, success);
    out
}

fn comma(out: &mut Vec<u8>, index: usize) {
    if index > 0 {
        out.push(b',');
    }
}
