//! A relay between a real client and its servers: what it sees is what the client really used, and
//! what it does to a connection is what a bad network does.
//!
//! Each session has a relay of its own. Addresses in answers are rewritten, so that a client that
//! learns of a broker, coordinator or leader stays on the relay. Bodies pass as they are read; only
//! answers that hold addresses are held until they are whole. TLS ends here and begins again: towards
//! its client with a certificate for the relay's own address ([`Front`]), towards the server as that
//! demands.

mod connection;
mod fault;
mod rewrite;

use std::collections::BTreeMap;
use std::io;
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use host::net::{BoxStream, Connect as _};
use host::os::{OsClock, stream as boxed};
use host::tls::{Acceptor, TlsConnect};
use kafka_wire::ApiKey;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::time::{Instant, sleep};

pub use self::fault::{Act, Rule, Side};
use crate::cx::Recorder;
use crate::wire::tcp::Dial;
use crate::wire::{Access, Security};

/// Where the relay listens: it serves this machine's clients alone.
const FRONT: &str = "127.0.0.1";
/// How long a relay whose session is over still serves: clients say goodbye in the background.
const LINGER: Duration = Duration::from_secs(15);
/// A silence after which they have said it.
const QUIET: Duration = Duration::from_millis(500);

/// What a relay shows a client that speaks TLS.
#[derive(Clone, Debug)]
pub struct Front {
    /// Proves that it is this machine.
    pub acceptor: Acceptor,
    /// The PEM file that a client must trust for it.
    pub ca_file: PathBuf,
}

/// A session's relay. When it is dropped it serves on for a moment, until its client has gone.
#[derive(Debug)]
pub struct Relay {
    bootstrap: String,
    shared: Arc<Shared>,
    stop: watch::Sender<bool>,
}

/// What all connections of a relay share.
#[derive(Debug)]
struct Shared {
    record: Recorder,
    /// The client id that every request is to have.
    session: String,
    /// The port in front of each server that is known.
    fronts: Mutex<BTreeMap<Address, u16>>,
    rules: Mutex<Vec<Rule>>,
    /// `None` for a client that speaks plaintext.
    front: Option<Acceptor>,
    /// What the servers demand; who the client is is its own business.
    upstream: Security,
    open: AtomicUsize,
    /// Connections that ever came.
    accepted: AtomicUsize,
    stopped: watch::Receiver<bool>,
}

/// A server as clients are told of it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Address {
    host: String,
    port: u16,
}

impl Relay {
    /// Starts a relay in front of a server. Requests go to `record` as those of `session`, whose name is
    /// its client id. With `front` the client speaks TLS to the relay, without it plaintext.
    ///
    /// # Errors
    ///
    /// An address that is none, or a machine that gives no port.
    pub fn start(
        bootstrap: &Access,
        record: Recorder,
        session: &str,
        front: Option<Acceptor>,
    ) -> io::Result<Self> {
        let address = Address::of(bootstrap).ok_or_else(|| {
            io::Error::new(
                io::ErrorKind::InvalidInput,
                format!("{bootstrap} is not HOST:PORT"),
            )
        })?;
        let (stop, stopped) = watch::channel(false);
        let shared = Arc::new(Shared {
            record,
            session: session.to_owned(),
            fronts: Mutex::default(),
            rules: Mutex::default(),
            front,
            upstream: bootstrap.security().clone(),
            open: AtomicUsize::new(0),
            accepted: AtomicUsize::new(0),
            stopped,
        });
        let port = shared.front_of(address)?;
        Ok(Self {
            bootstrap: format!("{FRONT}:{port}"),
            shared,
            stop,
        })
    }

    /// `host:port` for the client.
    pub fn bootstrap(&self) -> &str {
        &self.bootstrap
    }

    /// How many connections its client has opened so far.
    pub fn connections(&self) -> usize {
        self.shared.accepted.load(Ordering::SeqCst)
    }

    /// From now on, this happens to the requests and answers that `rule` describes. Rules are asked in
    /// the order in which they came; the first that fits acts.
    pub fn add(&self, rule: Rule) {
        self.shared.rules().push(rule);
    }

    /// How often rules have acted.
    pub fn acted(&self) -> u32 {
        self.shared.rules().iter().map(Rule::acted).sum()
    }

    /// The network is healthy again.
    pub fn heal(&self) {
        self.shared.rules().iter_mut().for_each(Rule::end);
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        let (shared, stop) = (Arc::clone(&self.shared), self.stop.clone());
        // Without a runtime there is nothing left to serve.
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            runtime.spawn(async move {
                shared.until_quiet().await;
                stop.send_replace(true);
            });
        }
    }
}

impl Shared {
    /// The rules are changed by whole values.
    fn rules(&self) -> std::sync::MutexGuard<'_, Vec<Rule>> {
        self.rules.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What is to happen to a frame, if anything.
    fn act_on(&self, side: Side, key: ApiKey) -> Option<Act> {
        self.rules()
            .iter_mut()
            .find_map(|rule| rule.act_on(side, key))
    }

    /// The port in front of `address`; it is opened when nobody has asked for it yet.
    fn front_of(self: &Arc<Self>, address: Address) -> io::Result<u16> {
        // A port is entered once its listener is there.
        let mut fronts = self.fronts.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(port) = fronts.get(&address) {
            return Ok(*port);
        }
        let listener = std::net::TcpListener::bind((FRONT, 0))?;
        listener.set_nonblocking(true)?;
        let port = listener.local_addr()?.port();
        let listener = TcpListener::from_std(listener)?;
        tokio::spawn(Arc::clone(self).accept(listener, address.clone()));
        fronts.insert(address, port);
        Ok(port)
    }

    async fn accept(self: Arc<Self>, listener: TcpListener, address: Address) {
        let mut stopped = self.stopped.clone();
        loop {
            let accepted = tokio::select! {
                biased;
                _ = stopped.wait_for(|stopped| *stopped) => return,
                accepted = listener.accept() => accepted,
            };
            // A client that is gone before it was accepted, or too many open files: the next one may
            // have more luck.
            if let Ok((client, _)) = accepted {
                tokio::spawn(Arc::clone(&self).serve(client, address.clone()));
            }
        }
    }

    async fn serve(self: Arc<Self>, client: TcpStream, address: Address) {
        let mut stopped = self.stopped.clone();
        self.open.fetch_add(1, Ordering::SeqCst);
        self.accepted.fetch_add(1, Ordering::SeqCst);
        tokio::select! {
            biased;
            _ = stopped.wait_for(|stopped| *stopped) => {}
            () = self.relay(client, &address) => {}
        }
        self.open.fetch_sub(1, Ordering::SeqCst);
    }

    /// A server that is not there is an end of the connection: that is how a client hears of it. So is
    /// a handshake of either side that fails.
    async fn relay(self: &Arc<Self>, client: TcpStream, address: &Address) {
        let client = match &self.front {
            None => boxed(client),
            Some(acceptor) => match acceptor.accept(boxed(client)).await {
                Ok(accepted) => accepted.stream,
                Err(error) => {
                    let note = format!("relay: the client's TLS handshake failed: {error}");
                    return self.record.note(note);
                }
            },
        };
        match self.connect(address).await {
            Ok(server) => connection::run(self, client, server).await,
            // As when there is nobody: the client will tell.
            Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {}
            Err(error) => self.record.note(format!("relay: no connection: {error}")),
        }
    }

    async fn connect(&self, address: &Address) -> io::Result<BoxStream> {
        let dial = Dial {
            host: address.host.clone(),
            port: address.port,
            window: None,
        };
        let Some(trust) = &self.upstream.tls else {
            return dial.connect().await;
        };
        let clock = Arc::new(OsClock::new());
        TlsConnect::new(Arc::new(dial), &address.host, trust.roots(), clock)
            .map_err(io::Error::other)?
            .connect()
            .await
    }

    async fn until_quiet(&self) {
        let began = Instant::now();
        let mut quiet_since = None;
        while began.elapsed() < LINGER {
            let quiet = self.open.load(Ordering::SeqCst) == 0;
            quiet_since = match (quiet, quiet_since) {
                (false, _) => None,
                (true, None) => Some(Instant::now()),
                (true, Some(since)) if since.elapsed() >= QUIET => return,
                (true, since) => since,
            };
            sleep(QUIET / 10).await;
        }
    }
}

impl Address {
    fn of(access: &Access) -> Option<Self> {
        let (host, port) = access.host_and_port()?;
        Some(Self {
            host: host.to_owned(),
            port,
        })
    }
}

#[cfg(test)]
mod tests;
