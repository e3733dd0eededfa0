//! The proxy of a cell before a Queen: API keys and scopes, clusters by host and on shared hosts,
//! route classes, quotas, rates, freezes and metering (contract section 8).
//!
//! It is a library over `host`, for simulations and tests, and `fake-queen proxy`. [`Proxy`] serves
//! listeners or a pipe; [`Cell`] is its directory and every knob, effective on the next request:
//! [`Cell::add_cluster`], [`Cell::share_host`], [`Cell::issue`]; then [`Cell::revoke`],
//! [`Cell::expire_at`], [`Cell::set_scopes`], [`Cell::rotate`] for a key, and [`Cell::freeze`] (403
//! for everything), [`Cell::storm`] (429 for everything, with or without `Retry-After`),
//! [`Cell::block`] (403 for growth only), [`Cell::set_plan`] (rates and caps) for a cluster;
//! [`Cell::metering`] tells what was counted. The Queen behind it is to be started with
//! `Options { tenancy_header: true, kv_require_grant: true, .. }` and [`crate::Queen::grant_kv`]
//! for each tenant.
//!
//! Only API keys are known: no logins of people, so no roles.

mod cell;
mod class;
mod file;
mod gateway;
mod kafka_kv;
mod keys;
mod metering;
mod plan;
mod produce;
mod refusal;
mod shares;
mod upstream;

use std::sync::Arc;
use std::time::Duration;

use host::service::InProcess;
use host::{Connect, Host, Listener, Secret};
use http::HeaderValue;
use tokio::sync::watch;

use self::gateway::Gateway;
use self::shares::Shares;
use self::upstream::Upstream;
use crate::PIPE_BYTES;
use crate::http::body::Intake;
use crate::http::server::Serving;

pub use self::cell::{Block, Cell, Slug, Storm, Unknown};
pub use self::class::{Access, Class, Feature};
pub use self::file::{CellFile, FileError};
pub use self::keys::{KeyId, Scope, Scopes};
pub use self::metering::Metering;
pub use self::plan::{Plan, Rate};

/// What can be chosen when a proxy is made. [`Options::default`] enforces everything.
#[derive(Debug)]
pub struct Options {
    /// Whether rates and quotas refuse (`QUEEN_PROXY_ENFORCE`); without it they are logged. Sizes,
    /// blocks, freezes and storms always refuse.
    pub enforce: bool,
    /// Largest request body (`QUEEN_PROXY_MAX_BODY_BYTES`).
    pub max_body_bytes: usize,
    /// Request bodies held at once; a request waits until its body fits.
    pub max_inflight_body_bytes: usize,
    /// How long the broker may take for the head of its answer (`QUEEN_PROXY_UPSTREAM_TIMEOUT_MS`).
    pub upstream_timeout: Duration,
    /// What the broker is called in `Host`.
    pub upstream_authority: HeaderValue,
    /// What stands before each path there; empty, or `/` and more without a slash at its end.
    pub upstream_base_path: String,
    /// The cell's own credential at the broker, without the scheme's word.
    pub upstream_token: Option<Secret<String>>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            enforce: true,
            max_body_bytes: 16 << 20,
            max_inflight_body_bytes: 256 << 20,
            upstream_timeout: Duration::from_millis(35_000),
            upstream_authority: HeaderValue::from_static("queen"),
            upstream_base_path: String::new(),
            upstream_token: None,
        }
    }
}

/// The cell's credential can't be sent in a header.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the broker's token has characters that no header carries")]
pub struct BadToken;

/// A running proxy. Clones are the same one.
#[derive(Clone, Debug)]
pub struct Proxy {
    gateway: Arc<Gateway>,
    serving: Serving,
}

impl Proxy {
    /// A proxy before the broker that `upstream` leads to. Nothing listens yet.
    ///
    /// # Errors
    /// [`BadToken`].
    pub fn new(
        host: Host,
        cell: Cell,
        upstream: Arc<dyn Connect>,
        options: Options,
    ) -> Result<Self, BadToken> {
        let token = options.upstream_token.map(|token| {
            let header = format!("Bearer {}", token.expose());
            let mut header = HeaderValue::try_from(header).map_err(|_| BadToken)?;
            header.set_sensitive(true);
            Ok(Secret::new(header))
        });
        let upstream = Upstream::new(
            upstream,
            options.upstream_authority,
            options.upstream_base_path,
            token.transpose()?,
            options.upstream_timeout,
        );
        let gateway = Gateway {
            host,
            cell,
            upstream,
            intake: Intake::new(options.max_body_bytes, options.max_inflight_body_bytes),
            shares: Shares::new(options.max_inflight_body_bytes, options.max_body_bytes),
            enforce: options.enforce,
            stopped: watch::Sender::new(false),
        };
        Ok(Self {
            gateway: Arc::new(gateway),
            serving: Serving::default(),
        })
    }

    /// The directory and the knobs.
    pub fn cell(&self) -> &Cell {
        &self.gateway.cell
    }

    /// Answers connections of `listener` until [`Proxy::stop`].
    pub fn serve(&self, listener: Box<dyn Listener>) {
        self.serving.serve(Arc::clone(&self.gateway), listener);
    }

    /// Serves a pipe and hands out its other end.
    pub fn in_process(self) -> InProcess {
        let served = self.clone();
        InProcess::piped(
            PIPE_BYTES,
            |listener| served.serve(listener),
            move || async move { self.stop().await },
        )
    }

    /// Stops: no new connections, requests in flight are answered.
    pub async fn stop(&self) {
        self.gateway.stopped.send_replace(true);
        self.serving.ended().await;
    }
}
