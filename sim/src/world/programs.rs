//! What runs on the machines of a world: the shipped facade and the fake Queen, or their doubles.

use std::fmt;
use std::rc::Rc;
use std::sync::Arc;

use facade::config::{Config, Mechanism, Variables};
use fake_queen::faults::Faults;
use fake_queen::proxy::{self, Proxy};
use fake_queen::{Options, Queen, Storage};
use futures::future::LocalBoxFuture;
use host::{Host, Remote};
use tokio::sync::Notify;

use super::{Description, KAFKA_PORT, Keyring, QUEEN_PORT, secure, tenant_id};
use crate::disk::Disk;
use crate::history::{Event, Mark, Name, Recorder};
use crate::machine::Machine;
use crate::relay;
use crate::schedule::{Key, Server};
use crate::trace::Node;

/// A program that stands in for a shipped one, started anew whenever its machine is. It ends only
/// with an error.
pub type Program = Rc<dyn Fn(Host) -> LocalBoxFuture<'static, turmoil::Result>>;

/// Programs with a planted fault. Each takes the place, the name and the port of the shipped one.
#[derive(Clone, Default)]
pub struct Doubles {
    /// Instead of every facade.
    pub facade: Option<Program>,
    /// Instead of the relay.
    pub relay: Option<Program>,
    /// Instead of Queen.
    pub queen: Option<Program>,
}

impl fmt::Debug for Doubles {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Doubles")
            .field("facade", &self.facade.is_some())
            .field("relay", &self.relay.is_some())
            .field("queen", &self.queen.is_some())
            .finish()
    }
}

/// Runs `program` until it is killed.
pub(super) async fn run_double(machine: Machine, program: Program) -> turmoil::Result {
    let _kernel = machine.kernel();
    program(machine.boot()).await
}

pub(super) async fn run_queen(
    machine: Machine,
    disk: Disk,
    faults: Faults,
    tenants: bool,
) -> turmoil::Result {
    let _kernel = machine.kernel();
    let host = machine.boot();
    let options = Options {
        storage: Storage::Backend(Box::new(disk.open())),
        faults,
        tenancy_header: tenants,
        kv_require_grant: tenants,
        ..Options::default()
    };
    let queen = Queen::start(host.clone(), options).await?;
    if tenants {
        for key in Key::ALL {
            queen.grant_kv(tenant_id(key), true);
        }
    }
    let listener = host.net.bind(([0, 0, 0, 0], QUEEN_PORT).into()).await?;
    queen.serve(listener);
    std::future::pending().await
}

pub(super) async fn run_proxy(machine: Machine, keys: Keyring) -> turmoil::Result {
    let _kernel = machine.kernel();
    let host = machine.boot();
    let upstream = Arc::new(remote(&host, Node::Queen));
    let options = proxy::Options::default();
    let proxy = Proxy::new(host.clone(), keys.open(host.clone()), upstream, options)?;
    let listener = host.net.bind(([0, 0, 0, 0], QUEEN_PORT).into()).await?;
    proxy.serve(listener);
    std::future::pending().await
}

pub(super) async fn run_relay(machine: Machine, faults: Faults) -> turmoil::Result {
    let _kernel = machine.kernel();
    let host = machine.boot();
    let listener = host.net.bind(([0, 0, 0, 0], QUEEN_PORT).into()).await?;
    let upstream = remote(&host, Node::Queen);
    relay::relay(listener, Arc::new(upstream), faults).await;
    Ok(())
}

fn remote(host: &Host, node: Node) -> Remote {
    Remote {
        net: Arc::clone(&host.net),
        host: node.name().to_owned(),
        port: QUEEN_PORT,
    }
}

/// A facade: what it needs to start, again and again.
#[derive(Clone, Debug)]
pub(super) struct FacadeProgram {
    pub(super) name: Node,
    pub(super) machine: Machine,
    pub(super) variables: Variables,
    pub(super) configure: fn(&mut Config),
    pub(super) secure: bool,
    /// Clients authenticate with the keys of tenants.
    pub(super) tenants: bool,
    /// Where calls to Queen go first.
    pub(super) upstream: Node,
    /// Rings when it is told to stop.
    pub(super) told: Arc<Notify>,
    pub(super) recorder: Recorder,
}

impl FacadeProgram {
    pub(super) async fn run(self) -> turmoil::Result {
        let _kernel = self.machine.kernel();
        let host = self.machine.boot();
        let world = Name::from("world");
        let node = Name::from(self.name.name());
        loop {
            let mut config = Config::from_variables(&self.variables)?;
            (self.configure)(&mut config);
            if self.secure {
                secure::secure(&mut config);
            }
            if self.tenants {
                config.security.sasl = Some(Mechanism::Plain);
            }
            let upstream = Arc::new(remote(&host, self.upstream));
            let facade = facade::boot::start(config, host.clone(), upstream).await?;
            self.told.notified().await;
            facade.stop().await;
            // Its memory is as gone as after a crash.
            for mark in [
                Mark::Crash { node: node.clone() },
                Mark::Start { node: node.clone() },
            ] {
                self.recorder.record(&world, Event::Mark(mark));
            }
        }
    }
}

/// The environment of a facade's process, as an operator writes it.
pub(super) fn variables(facade: Server, upstream: Node, description: &Description) -> Variables {
    let usual = [
        ("QUEEN_URL", format!("http://{upstream}:{QUEEN_PORT}")),
        ("QUEEN_KAFKA_ADDR", format!("0.0.0.0:{KAFKA_PORT}")),
        (
            "QUEEN_KAFKA_ADVERTISED_ADDR",
            format!("{facade}:{KAFKA_PORT}"),
        ),
        (
            "QUEEN_KAFKA_DEFAULT_PARTITIONS",
            description.partitions.to_string(),
        ),
        // Clocks jump here as far as they like, and nobody promised the clients that theirs agree.
        ("QUEEN_KAFKA_TIMESTAMP_AFTER_MAX_MS", i64::MAX.to_string()),
    ];
    let more = description.variables.iter();
    usual
        .into_iter()
        .chain(more.map(|(name, value)| (*name, (*value).to_owned())))
        .map(|(name, value)| (name.into(), value.into()))
        .collect()
}
