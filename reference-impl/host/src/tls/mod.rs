//! TLS for both ends of a stream: [`Acceptor`] for listeners, [`TlsConnect`] for calls to others.
//!
//! rustls with the *ring* provider, versions 1.2 and 1.3, no ALPN (Kafka has no protocol id), no
//! client certificates. Time comes from [`Clock`], so that certificates expire in a
//! simulated world when its clock says so.

mod client;
mod identity;
mod server;
mod stream;

use std::sync::Arc;
use std::time::Duration;

use tokio_rustls::rustls::crypto::{CryptoProvider, ring};
use tokio_rustls::rustls::pki_types::UnixTime;
use tokio_rustls::rustls::time_provider::TimeProvider;

use crate::Clock;

pub use client::{NoRoots, Roots, TlsConnect, TlsNameError};
pub use identity::{Identity, IdentityError, Unfit};
pub use server::{Accepted, Acceptor};

/// The wall clock of a host, as rustls asks for it.
#[derive(Debug)]
struct HostTime(Arc<dyn Clock>);

impl TimeProvider for HostTime {
    fn current_time(&self) -> Option<UnixTime> {
        // Before the epoch no certificate is valid.
        let ms = u64::try_from(self.0.wall().epoch_ms()).ok()?;
        Some(UnixTime::since_unix_epoch(Duration::from_millis(ms)))
    }
}

fn provider() -> Arc<CryptoProvider> {
    Arc::new(ring::default_provider())
}
