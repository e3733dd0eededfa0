//! One request: the checks in the contract's order, then the broker, then the counts. The one
//! change: who has no key is refused before a body is read, so that strangers hold no memory.

use std::sync::Arc;

use bytes::Bytes;
use http::header::{
    AUTHORIZATION, CONNECTION, CONTENT_LENGTH, HOST, HeaderName, PROXY_AUTHORIZATION, TE, TRAILER,
    TRANSFER_ENCODING, UPGRADE,
};
use http::request::Parts;
use http::{HeaderMap, HeaderValue, Request, Response};
use http_body_util::{Either, Full};
use hyper::body::Incoming;
use serde_json::json;
use tokio::sync::watch;

use super::cell::{Caller, Cell, Cluster, Slug, bare_host};
use super::class::{Access, Class, Feature};
use super::kafka_kv;
use super::keys::Scopes;
use super::produce::{self, Load, Pushed};
use super::refusal::Refusal;
use super::shares::Shares;
use super::upstream::Upstream;
use crate::http::body::Intake;
use crate::http::error::ApiError;
use crate::http::query::Query;
use crate::http::reply::Reply;
use crate::http::server::{HangUp, Site, has_one_host};
use crate::ids;

/// Whose data a call is about; only the proxy says so.
const TENANT: HeaderName = HeaderName::from_static("x-queen-tenant");
/// What a person with several clusters chooses one by.
const ACTING: HeaderName = HeaderName::from_static("x-queen-act-cluster");
const REQUEST_ID: HeaderName = HeaderName::from_static("x-queen-request-id");
/// Of one connection, not of a message.
const HOP_BY_HOP: [HeaderName; 7] = [
    CONNECTION,
    HeaderName::from_static("keep-alive"),
    PROXY_AUTHORIZATION,
    TE,
    TRAILER,
    TRANSFER_ENCODING,
    UPGRADE,
];

/// A proxy's inside.
#[derive(Debug)]
pub struct Gateway {
    pub(super) host: host::Host,
    pub(super) cell: Cell,
    pub(super) upstream: Upstream,
    pub(super) intake: Intake,
    pub(super) shares: Shares,
    /// Whether rates and quotas are more than a line of the log.
    pub(super) enforce: bool,
    pub(super) stopped: watch::Sender<bool>,
}

/// What is sent back.
type Answer = Response<Either<Full<Bytes>, Incoming>>;

impl Site for Gateway {
    type Body = Either<Full<Bytes>, Incoming>;

    async fn stopping(&self) {
        // The sender is our own.
        let _ = self.stopped.subscribe().wait_for(|stopped| *stopped).await;
    }

    async fn answer(self: Arc<Self>, request: Request<Incoming>) -> Result<Answer, HangUp> {
        let mut cluster = None;
        Ok(match self.handle(request, &mut cluster).await {
            Ok(answer) => answer,
            Err(refusal) => {
                let (status, code) = refusal.code();
                if let Some(cluster) = &cluster {
                    self.cell.meter(cluster, |metering| {
                        *metering.refused.entry(code).or_default() += 1;
                    });
                }
                tracing::debug!(status = status.as_u16(), code, "refused");
                refusal.into_reply().into_response().map(Either::Left)
            }
        })
    }
}

impl Gateway {
    async fn handle(
        &self,
        request: Request<Incoming>,
        counted: &mut Option<Slug>,
    ) -> Result<Answer, Refusal> {
        let (head, incoming) = request.into_parts();
        if !has_one_host(&head.headers) {
            return Err(Refusal::Invalid("more than one Host header".into()));
        }
        let class = Class::of(&head.method, head.uri.path());
        if class == Class::Health {
            return Ok(local(Reply::value(&json!({"status": "healthy"}))));
        }
        let (slug, caller) = self.resolve(&head)?;
        *counted = Some(slug.clone());
        self.cell.admit_status(&slug)?;
        let caller = caller?;
        let cluster = self.cell.cluster(&slug).ok_or(Refusal::UnknownCluster)?;
        if class == Class::Blocked {
            return Err(Refusal::Blocked);
        }
        let query = head.uri.query().map(Query::parse);
        let share = self.shares.of(&slug);
        let read = self.intake.read(incoming, Some(&share)).await;
        let (body, _held) = read.map_err(unread)?;
        let class = match class {
            Class::Kv => kafka_kv::classify(&body),
            class => class,
        };
        self.admit_plan(class, &cluster)?;
        if caller.cluster != slug {
            return Err(Refusal::Mismatch);
        }
        authorize(class, caller.scopes)?;
        self.cell.admit_storm(&slug)?;
        self.enforced(self.cell.admit_request(&slug))?;
        if class == Class::Identity {
            return Ok(local(identity(&cluster, &caller)));
        }
        let (load, named) = self.admit_load(class, &head, &body, &cluster)?;
        let parked = match &query {
            Some(query) if waits(query) => Some(self.enforced_place(&slug)?),
            _ => None,
        };
        let bytes = body.len() as u64;
        let asked = self.passed_on(head, query.as_ref(), body, &cluster)?;
        let response = self.upstream.call(asked).await?;
        drop(parked);
        if response.status().is_success() {
            self.cell.register(&slug, &named);
        }
        self.cell.meter(&slug, |metering| {
            metering.requests += 1;
            if let (Some(items), true) = (load, response.status().is_success()) {
                metering.messages += items as u64;
                metering.bytes += bytes;
            }
        });
        Ok(passed_back(response))
    }

    /// Which cluster is meant, and who means it. Who has no key learns that before which clusters
    /// there are, where hosts are shared.
    fn resolve(&self, head: &Parts) -> Result<(Slug, Result<Caller, Refusal>), Refusal> {
        let caller = bearer(&head.headers).and_then(|bearer| self.cell.authenticate(bearer));
        if caller.is_ok() && head.headers.contains_key(ACTING) {
            return Err(Refusal::Acting);
        }
        let named = head.headers.get(HOST).and_then(|host| host.to_str().ok());
        let host = bare_host(head.uri.host().or(named).unwrap_or_default());
        if self.cell.is_shared(host) {
            let caller = caller?;
            return Ok((caller.cluster.clone(), Ok(caller)));
        }
        let slug = Slug::from(host.split('.').next().unwrap_or_default());
        match self.cell.cluster(&slug) {
            Some(_) => Ok((slug, caller)),
            None if self.cell.has_shared_hosts() => {
                caller?;
                Err(Refusal::UnknownCluster)
            }
            None => Err(Refusal::UnknownCluster),
        }
    }

    fn admit_plan(&self, class: Class, cluster: &Cluster) -> Result<(), Refusal> {
        if let Class::Gated(feature, _) = class
            && !cluster.plan.features.contains(&feature)
        {
            return Err(Refusal::Feature(match feature {
                Feature::Kv => "kv",
                Feature::Timers => "timers",
                Feature::Streams => "streams",
                Feature::Traces => "traces",
                Feature::Ephemeral => "ephemeral",
            }));
        }
        if class.grows() {
            self.cell.admit_growth(&cluster.slug)?;
        }
        Ok(())
    }

    /// The checks of a body that makes or fills queues: how many items it has, when it is a push, and
    /// the lanes it names. They are kept once the broker has taken them.
    fn admit_load(
        &self,
        class: Class,
        head: &Parts,
        body: &[u8],
        cluster: &Cluster,
    ) -> Result<(Option<usize>, Vec<Pushed>), Refusal> {
        let (plan, slug) = (&cluster.plan, &cluster.slug);
        if class == Class::Produce {
            let Load { items, lanes } = produce::load(body, plan)?;
            self.enforced(self.cell.admit_names(slug, &lanes))?;
            self.enforced(self.cell.admit_messages(slug, items))?;
            return Ok((Some(items), lanes));
        }
        if class == Class::QueueAdmin && head.uri.path() == "/api/v1/configure" {
            let made = match produce::configured(body, plan) {
                Err(refusal) if refusal.is_advisory() => self.enforced(Err(refusal)).map(|()| None),
                read => read,
            }?;
            self.enforced(self.cell.admit_names(slug, made.as_slice()))?;
            return Ok((None, made.into_iter().collect()));
        }
        Ok((None, Vec::new()))
    }

    fn enforced_place(&self, slug: &Slug) -> Result<Option<super::cell::Parked>, Refusal> {
        match self.cell.park(slug) {
            Ok(parked) => Ok(Some(parked)),
            Err(refusal) => self.enforced(Err(refusal)).map(|()| None),
        }
    }

    fn enforced(&self, checked: Result<(), Refusal>) -> Result<(), Refusal> {
        match checked {
            Err(refusal) if !self.enforce && refusal.is_advisory() => {
                tracing::warn!(%refusal, "not enforced");
                Ok(())
            }
            checked => checked,
        }
    }

    fn passed_on(
        &self,
        head: Parts,
        query: Option<&Query>,
        body: Bytes,
        cluster: &Cluster,
    ) -> Result<Request<Full<Bytes>>, Refusal> {
        let invalid = |error: http::Error| Refusal::Invalid(error.to_string());
        let mut target = format!("{}{}", self.upstream.base_path, head.uri.path());
        if let Some(query) = query {
            let query = query.encode();
            let query = query.map_err(|twice| Refusal::Invalid(twice.to_string()))?;
            target.push('?');
            target.push_str(&query);
        }
        let mut headers = head.headers;
        for name in HOP_BY_HOP {
            headers.remove(name);
        }
        for name in [AUTHORIZATION, CONTENT_LENGTH, ACTING, TENANT] {
            headers.remove(name);
        }
        headers.insert(HOST, self.upstream.authority.clone());
        let of_text = |text: String| HeaderValue::try_from(text).map_err(http::Error::from);
        let tenant = cluster.tenant.0.hyphenated().to_string();
        headers.insert(TENANT, of_text(tenant).map_err(invalid)?);
        let id = ids::uuid(&*self.host.entropy).hyphenated().to_string();
        headers.insert(REQUEST_ID, of_text(id).map_err(invalid)?);
        if let Some(token) = &self.upstream.token {
            headers.insert(AUTHORIZATION, token.expose().clone());
        }
        let mut request = Request::builder()
            .method(head.method)
            .uri(target)
            .body(Full::new(body))
            .map_err(invalid)?;
        *request.headers_mut() = headers;
        Ok(request)
    }
}

fn passed_back(response: Response<Incoming>) -> Answer {
    let mut response = response.map(Either::Right);
    for name in HOP_BY_HOP {
        response.headers_mut().remove(name);
    }
    response
}

fn local(reply: Reply) -> Answer {
    reply.into_response().map(Either::Left)
}

fn bearer(headers: &HeaderMap) -> Result<&[u8], Refusal> {
    let header = headers.get(AUTHORIZATION).ok_or(Refusal::NoCredential)?;
    let (scheme, bearer) = header
        .as_bytes()
        .split_at_checked("bearer ".len())
        .ok_or(Refusal::NoCredential)?;
    match scheme.eq_ignore_ascii_case(b"bearer ") {
        true => Ok(bearer.trim_ascii()),
        false => Err(Refusal::NoCredential),
    }
}

fn authorize(class: Class, scopes: Scopes) -> Result<(), Refusal> {
    let (permitted, scope) = match class {
        Class::Produce => (scopes.produce, "produce"),
        Class::Consume => (scopes.consume, "consume"),
        Class::QueueAdmin | Class::Replay => (scopes.admin, "admin"),
        Class::Read => (scopes.read || scopes.admin, "read"),
        Class::Gated(_, Access::Read) => (scopes.any(), "read"),
        Class::Gated(..) => (scopes.produce || scopes.consume, "produce"),
        Class::Operator => return Err(Refusal::Operator),
        Class::Identity | Class::Health => return Ok(()),
        // Both were dealt with; nothing else would be safe.
        Class::Kv | Class::Blocked => return Err(Refusal::Blocked),
    };
    match permitted {
        true => Ok(()),
        false => Err(Refusal::Scope(scope)),
    }
}

fn identity(cluster: &Cluster, caller: &Caller) -> Reply {
    let (id, slug, scopes) = (cluster.id, &cluster.slug.0, caller.scopes);
    Reply::value(&json!({
        "user_id": null,
        "email": null,
        "tenant_slug": null,
        "is_operator": false,
        "acting_cluster": {"id": id, "slug": slug},
        "clusters": [{
            "id": id, "slug": slug, "role": null, "tenant_slug": null,
            "tenant_id": cluster.tenant.0, "status": "active", "cell_slug": "local",
        }],
        "principal": "api_key",
        "key_id": caller.key.0,
        "scopes": {
            "produce": scopes.produce, "consume": scopes.consume,
            "admin": scopes.admin, "read": scopes.read,
        },
    }))
}

/// Whether a call may park. Only what is plainly no doesn't: the broker judges the value.
fn waits(query: &Query) -> bool {
    !matches!(query.get("wait"), None | Some("" | "false"))
}

fn unread(error: ApiError) -> Refusal {
    match error {
        ApiError::BodyTooLarge => Refusal::TooLarge("body"),
        ApiError::BodyTimedOut => Refusal::Slow,
        error => Refusal::Invalid(error.to_string()),
    }
}
