//! The routes, one file each. A route reads its body, asks the engine, renders the answer.

pub mod ack;
pub mod admission;
pub mod auth_me;
pub mod configure;
pub mod dead_letters;
pub mod fake_faults;
pub mod fetch;
pub mod fetch_offsets;
pub mod group_admin;
pub mod groups;
pub mod health;
pub mod kv;
pub mod kv_console;
pub mod kv_path;
pub mod kv_switch;
pub mod lease;
pub mod partitions_changed;
pub mod pop;
pub mod push;
pub mod queue_delete;
pub mod queue_depth;
pub mod queue_detail;
pub mod queue_list;
pub mod status;
pub mod status_queues;
pub mod transaction;

use std::sync::Arc;

use bytes::Bytes;
use http::request::Parts;
use http::{Request, StatusCode};
use hyper::body::Incoming;
use serde::Deserialize;
use uuid::Uuid;

use crate::auth;
use crate::console;
use crate::faults::{Injected, RetryAfter};
use crate::http::error::ApiError;
use crate::http::query::Query;
use crate::http::reply::Reply;
use crate::http::server::{HangUp, has_one_host};
use crate::http::target::Target;
use crate::ids::TenantId;
use crate::node::Node;
use crate::time;

/// What a route is called with.
#[derive(Debug)]
pub struct Call<'a> {
    /// The Queen.
    pub node: &'a Arc<Node>,
    /// Whose call.
    pub tenant: TenantId,
    /// Behind `?`, undecoded; `None` without one.
    pub query: Option<&'a str>,
    /// The body, whole.
    pub body: Bytes,
    /// What goes wrong.
    pub injected: Injected,
}

impl Call<'_> {
    /// Reads the body as JSON.
    ///
    /// # Errors
    /// [`ApiError::BadBody`].
    pub fn json<'b, T: Deserialize<'b>>(&'b self) -> Result<T, ApiError> {
        serde_json::from_slice(&self.body).map_err(|error| ApiError::BadBody(error.to_string()))
    }

    /// The value of a query parameter, percent-decoded.
    pub fn parameter(&self, name: &str) -> Option<String> {
        Query::parse(self.query?).get(name).map(str::to_owned)
    }
}

/// Answers a request, or cuts the connection when a fault says so.
///
/// # Errors
/// [`HangUp`].
pub async fn answer(node: &Arc<Node>, request: Request<Incoming>) -> Result<Reply, HangUp> {
    let (head, incoming) = request.into_parts();
    let target = Target::of(&head.method, head.uri.path());
    if !has_one_host(&head.headers) {
        return Ok(ApiError::BadRequest("more than one Host header").into_reply());
    }
    let (body, _held) = match node.intake.read(incoming, None).await {
        Ok(read) => read,
        Err(error) => return Ok(error.into_reply()),
    };
    let injected = match target {
        Target::FakeFaults(_) => Injected::default(),
        _ => node.faults.strike(target.name(), &body),
    };
    if let Some(delay) = injected.delay() {
        tokio::time::sleep(delay).await;
    }
    if let Some(delay) = injected.late() {
        let node = Arc::clone(node);
        tokio::spawn(async move {
            tokio::time::sleep(delay).await;
            // Who asked is gone.
            let _ = done(&node, &head, target, body, Injected::default()).await;
        });
        return Err(HangUp);
    }
    if injected.drop_before() {
        return Err(HangUp);
    }
    done(node, &head, target, body, injected).await
}

/// Does what a request asks.
async fn done(
    node: &Arc<Node>,
    head: &Parts,
    target: Target,
    body: Bytes,
    injected: Injected,
) -> Result<Reply, HangUp> {
    if let Some((code, retry_after, body)) = injected.status() {
        return Ok(overridden(node, code, retry_after, body));
    }
    if let Some(key) = &node.options.jwt {
        let now_ms = node.host.clock.wall().epoch_ms();
        let level = auth::Level::of(&target);
        if let Err(error) = auth::authorize(key, level, &head.headers, now_ms) {
            return Ok(error.into_reply());
        }
    }
    let tenant = match tenant(node, &head.headers) {
        Ok(tenant) => tenant,
        Err(error) => return Ok(error.into_reply()),
    };
    let call = Call {
        node,
        tenant,
        query: head.uri.query(),
        body,
        injected,
    };
    let reply = dispatch(&call, target)
        .await
        .unwrap_or_else(ApiError::into_reply);
    if let Some(delay) = call.injected.delay_after() {
        tokio::time::sleep(delay).await;
    }
    if call.injected.drop_after() {
        return Err(HangUp);
    }
    match call.injected.status_after() {
        Some(code) => Ok(overridden(node, code, None, None)),
        None => Ok(reply),
    }
}

async fn dispatch(call: &Call<'_>, target: Target) -> Result<Reply, ApiError> {
    match target {
        Target::Health => Ok(health::handle(call)),
        Target::Status => Ok(status::handle(call)),
        Target::QueueList => Ok(queue_list::handle(call)),
        Target::QueueDetail(name) => queue_detail::handle(call, &name),
        Target::QueueDepth(name) => queue_depth::handle(call, &name),
        Target::QueueDelete(name) => queue_delete::handle(call, &name).await,
        Target::StatusQueues => Ok(status_queues::list(call)),
        Target::StatusQueue(name) => status_queues::one(call, &name),
        Target::Configure => configure::handle(call).await,
        Target::Push => push::handle(call).await,
        Target::Fetch => fetch::handle(call).await,
        Target::FetchOffsets => fetch_offsets::handle(call).await,
        Target::PartitionsChanged => partitions_changed::handle(call),
        Target::Kv => kv::handle(call).await,
        Target::KvPath {
            method,
            namespace,
            key,
        } => kv_path::handle(call, &method, &namespace, &key).await,
        Target::KvNamespaces => kv_console::namespaces(call),
        Target::KvList => kv_console::list(call),
        Target::KvSwitch => kv_switch::handle(call),
        Target::Transaction => transaction::handle(call).await,
        Target::Pop => pop::discover(call).await,
        Target::PopQueue(queue) => pop::queue(call, &queue).await,
        Target::PopLane(queue, lane) => pop::lane(call, &queue, &lane).await,
        Target::Ack => ack::one(call).await,
        Target::AckBatch => ack::batch(call).await,
        Target::LeaseExtend(id) => lease::handle(call, &id).await,
        Target::DeadLetters(method) => dead_letters::handle(call, &method).await,
        Target::AuthMe => Ok(auth_me::handle(call)),
        Target::Groups => groups::list(call).await,
        Target::GroupsLagging => groups::lagging(call).await,
        Target::Group(name) => groups::one(call, &name).await,
        Target::GroupDelete(group, queue) => {
            group_admin::delete(call, &group, queue.as_deref()).await
        }
        Target::GroupSubscription(group) => group_admin::subscription(call, &group).await,
        Target::GroupSeek { group, queue, lane } => {
            group_admin::seek(call, &group, &queue, lane.as_deref()).await
        }
        Target::Console => Ok(console::handle(call)),
        Target::FakeFaults(method) => fake_faults::handle(call, &method),
        Target::Unknown => Err(ApiError::NoSuchRoute),
    }
}

fn tenant(node: &Node, headers: &http::HeaderMap) -> Result<TenantId, ApiError> {
    if !node.options.tenancy_header {
        return Ok(TenantId::DEFAULT);
    }
    match headers
        .get("x-queen-tenant")
        .map(http::HeaderValue::as_bytes)
    {
        None | Some(b"") => Ok(TenantId::DEFAULT),
        Some(text) => Uuid::try_parse_ascii(text)
            .map(TenantId)
            .map_err(|_| ApiError::BadTenant),
    }
}

fn overridden(
    node: &Node,
    code: u16,
    retry_after: Option<RetryAfter>,
    body: Option<&str>,
) -> Reply {
    // A rule with an impossible status is a mistake of the test's; it shows as 500.
    let status = StatusCode::from_u16(code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let body = body.unwrap_or(r#"{"error":"injected"}"#).to_owned();
    let mut reply = Reply::json(status, body);
    reply.retry_after = retry_after.map(|retry_after| match retry_after {
        RetryAfter::Seconds(seconds) => seconds.to_string(),
        RetryAfter::DateIn(seconds) => {
            let ahead_ms = i64::try_from(seconds.saturating_mul(1000)).unwrap_or(i64::MAX);
            time::http_date(node.host.clock.wall().epoch_ms().saturating_add(ahead_ms))
        }
    });
    reply
}
