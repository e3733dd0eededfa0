//! A world: Queen, facades, a relay or a proxy on machines of their own, clients on another, a network
//! between them, and the hand that breaks and mends it all ([`strike`]).
//!
//! Doors and fakes run as they are shipped ([`programs`]); only their `host` is simulated. TLS, where
//! the description has it, is the shipped one over these same sockets ([`secure`]).

mod clients;
mod keys;
mod programs;
pub mod secure;
mod strike;

use std::collections::{BTreeMap, BTreeSet};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use facade::config::Config;
use fake_queen::faults::Faults;
use futures::future::BoxFuture;
use tokio::sync::{Notify, watch};
use turmoil::Sim;

use crate::disk::Disk;
use crate::history::{Mark, Recorder};
use crate::machine::{EPOCH_MS, Late, Machine};
use crate::schedule::{Link, Server, Step, TICK_MS};
use crate::seed::Numbers;
use crate::trace::{Node, Trace};

pub use clients::Clients;
pub use keys::{Keyring, Tenancy, tenant, tenant_id};
pub use programs::{Doubles, Program};
use strike::Undo;

/// The port of facades.
pub const KAFKA_PORT: u16 = 9092;
/// The port of Queen, and of the relay before her.
pub const QUEEN_PORT: u16 = 6632;
/// Segments and connections that wait to be read or accepted. turmoil panics beyond, so this is
/// more than any scenario's clients can have in flight.
const TCP_CAPACITY: usize = 4096;
/// A message takes between one and so many milliseconds, mostly little, as the seed has it.
const MAX_LATENCY: Duration = Duration::from_millis(50);
/// The shortest way of a message.
const MIN_LATENCY: Duration = Duration::from_millis(1);
/// Facades at most.
pub const MAX_FACADES: u8 = 3;

/// What a world is made of.
#[derive(Clone, Debug)]
pub struct Description {
    /// Moves latencies, entropy, and what a power cut leaves.
    pub seed: u64,
    /// Facades, each for itself: one to [`MAX_FACADES`].
    pub facades: u8,
    /// Calls to Queen pass through a relay.
    pub relay: bool,
    /// Calls to Queen pass through the proxy of a cell, which asks for keys; clients authenticate
    /// with them. It leaves no place for a relay.
    pub tenancy: Tenancy,
    /// There are clients that mean no good.
    pub strangers: bool,
    /// Partitions of topics that clients create.
    pub partitions: i32,
    /// More of a facade's environment.
    pub variables: &'static [(&'static str, &'static str)],
    /// What no variable of a facade says.
    pub configure: fn(&mut Config),
    /// Facades speak TLS, and authenticate.
    pub secure: bool,
    /// Queen's disk confirms so many syncs that a power cut undoes: a planted fault. 0 is an
    /// honest disk.
    pub lying_syncs: usize,
    /// Programs with a planted fault.
    pub doubles: Doubles,
}

impl Default for Description {
    /// One facade, Queen, and honest clients.
    fn default() -> Self {
        Self {
            seed: 0,
            facades: 1,
            relay: false,
            tenancy: Tenancy::None,
            strangers: false,
            partitions: 2,
            variables: &[],
            configure: |_| {},
            secure: false,
            lying_syncs: 0,
            doubles: Doubles::default(),
        }
    }
}

/// A world that can't be built.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DescriptionError {
    /// Too few facades, or too many.
    #[error("a world has 1 to {MAX_FACADES} facades, not {0}")]
    Facades(u8),
    /// Two that stand in one place.
    #[error("a world has a relay or a proxy before Queen, not both")]
    RelayAndProxy,
}

impl Description {
    /// The machines that can fail.
    pub fn servers(&self) -> Vec<Server> {
        let facades = [Server::Facade, Server::Facade2, Server::Facade3];
        let mut servers: Vec<_> = facades.into_iter().take(self.facades.into()).collect();
        servers.extend(self.relay.then_some(Server::Relay));
        servers.extend(self.has_tenants().then_some(Server::Proxy));
        servers.push(Server::Queen);
        servers
    }

    /// The links between them and clients.
    pub fn links(&self) -> Vec<Link> {
        let there = |node: Node| match node {
            Node::Clients => true,
            node => self.servers().iter().any(|server| server.node() == node),
        };
        let direct = |(caller, answerer)| {
            let between = match self.upstream() {
                Node::Queen => return false,
                between => between,
            };
            answerer == Node::Queen && caller != between
        };
        let all = Link::ALL.into_iter();
        all.filter(|link| {
            let (caller, answerer) = link.ends();
            there(caller) && there(answerer) && !direct((caller, answerer))
        })
        .collect()
    }

    /// Where facades send their calls to Queen.
    const fn upstream(&self) -> Node {
        match (self.has_tenants(), self.relay) {
            (true, _) => Node::Proxy,
            (false, true) => Node::Relay,
            (false, false) => Node::Queen,
        }
    }

    const fn has_tenants(&self) -> bool {
        !matches!(self.tenancy, Tenancy::None)
    }

    const fn validate(&self) -> Result<(), DescriptionError> {
        if self.relay && self.has_tenants() {
            return Err(DescriptionError::RelayAndProxy);
        }
        match self.facades {
            1..=MAX_FACADES => Ok(()),
            facades => Err(DescriptionError::Facades(facades)),
        }
    }
}

/// How a run ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ending {
    /// The clients finished.
    Finished,
    /// They didn't in the time they had after the heal.
    Stuck,
    /// A machine's program ended or panicked; the text says what it said.
    Broken(String),
}

/// What clients run: they get their machines by name and hear when the world has healed.
pub type Workload = Box<dyn FnOnce(Clients, watch::Receiver<bool>) -> BoxFuture<'static, ()>>;

/// The world.
pub struct World {
    sim: Sim<'static>,
    servers: Vec<Server>,
    links: Vec<Link>,
    machines: BTreeMap<Server, Machine>,
    clients: Clients,
    keys: Keyring,
    late: Late,
    disk: Disk,
    power: Numbers,
    queen_faults: Faults,
    relay_faults: Faults,
    told: BTreeMap<Server, Arc<Notify>>,
    /// Links that keep what is sent.
    held: BTreeSet<Link>,
    /// What ends by itself, by time and in order.
    undone: BTreeMap<(Duration, u64), Undo>,
    undone_count: u64,
    healed: watch::Sender<bool>,
    trace: Trace,
    recorder: Recorder,
}

impl std::fmt::Debug for World {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("World")
            .field("machines", &self.machines)
            .finish_non_exhaustive()
    }
}

impl World {
    /// A healthy world whose programs start with the first tick. `strangers` run beside `workload`
    /// where the description has them, and the run doesn't wait for them.
    ///
    /// # Errors
    ///
    /// [`DescriptionError`].
    pub fn new(
        description: &Description,
        trace: Trace,
        recorder: Recorder,
        workload: Workload,
        strangers: Option<Workload>,
    ) -> Result<Self, DescriptionError> {
        description.validate()?;
        let seed = description.seed;
        let epoch_ms = u64::try_from(EPOCH_MS).unwrap_or_default();
        let sim = turmoil::Builder::new()
            .rng_seed(Numbers::new(seed, "network").draw())
            .epoch(SystemTime::UNIX_EPOCH + Duration::from_millis(epoch_ms))
            .tick_duration(Duration::from_millis(TICK_MS))
            .min_message_latency(MIN_LATENCY)
            .max_message_latency(MAX_LATENCY)
            .tcp_capacity(TCP_CAPACITY)
            // The world ends runs by itself.
            .simulation_duration(Duration::MAX)
            .build();
        if description.secure {
            trace.conceal(KAFKA_PORT);
        }
        let late = Late::default();
        let keys = Keyring::new(seed, description.tenancy);
        let of = |node| Clients::new(node, seed, keys.clone(), late.clone(), trace.clone());
        let mut world = Self {
            sim,
            servers: description.servers(),
            links: description.links(),
            machines: BTreeMap::new(),
            clients: of(Node::Clients),
            keys: keys.clone(),
            late: late.clone(),
            disk: match description.lying_syncs {
                0 => Disk::new(),
                syncs => Disk::lying(syncs),
            },
            power: Numbers::new(seed, "power"),
            queen_faults: Faults::default(),
            relay_faults: Faults::default(),
            told: BTreeMap::new(),
            held: BTreeSet::new(),
            undone: BTreeMap::new(),
            undone_count: 0,
            healed: watch::Sender::new(false),
            trace: trace.clone(),
            recorder,
        };
        for server in world.servers.clone().into_iter().rev() {
            let machine = Machine::new(server.node(), seed, trace.clone());
            world.machines.insert(server, machine.clone());
            world.install(server, machine, description);
        }
        if let (true, Some(strangers)) = (description.strangers, strangers) {
            let clients = of(Node::Strangers);
            let hears = world.healed.subscribe();
            let start = std::cell::Cell::new(Some((strangers, clients, hears)));
            world.sim.host(Node::Strangers.name(), move || {
                let start = start.take();
                async move {
                    if let Some((strangers, clients, hears)) = start {
                        strangers(clients, hears).await;
                    }
                    Ok(())
                }
            });
        }
        let (clients, hears) = (world.clients.clone(), world.healed.subscribe());
        world.sim.client(Node::Clients.name(), async move {
            workload(clients, hears).await;
            Ok(())
        });
        Ok(world)
    }

    fn mark(&self, mark: Mark) {
        let at_ms = u64::try_from(self.sim.elapsed().as_millis()).unwrap_or(u64::MAX);
        self.recorder.mark(at_ms, mark);
    }

    fn install(&mut self, server: Server, machine: Machine, description: &Description) {
        let name = server.node().name();
        let Doubles {
            facade,
            relay,
            queen,
        } = description.doubles.clone();
        let tenants = description.has_tenants();
        let double = match server {
            Server::Queen => queen,
            Server::Relay => relay,
            Server::Proxy => None,
            Server::Facade | Server::Facade2 | Server::Facade3 => facade,
        };
        if let Some(double) = double {
            let run = move || programs::run_double(machine.clone(), double.clone());
            return self.sim.host(name, run);
        }
        match server {
            Server::Queen => {
                let (disk, faults) = (self.disk.clone(), self.queen_faults.clone());
                let run = move || {
                    programs::run_queen(machine.clone(), disk.clone(), faults.clone(), tenants)
                };
                self.sim.host(name, run);
            }
            Server::Relay => {
                let faults = self.relay_faults.clone();
                let run = move || programs::run_relay(machine.clone(), faults.clone());
                self.sim.host(name, run);
            }
            Server::Proxy => {
                let keys = self.keys.clone();
                let run = move || programs::run_proxy(machine.clone(), keys.clone());
                self.sim.host(name, run);
            }
            Server::Facade | Server::Facade2 | Server::Facade3 => {
                let told = Arc::new(Notify::new());
                self.told.insert(server, Arc::clone(&told));
                let upstream = description.upstream();
                let program = programs::FacadeProgram {
                    recorder: self.recorder.clone(),
                    name: server.node(),
                    machine,
                    variables: programs::variables(server, upstream, description),
                    configure: description.configure,
                    secure: description.secure,
                    tenants,
                    upstream,
                    told,
                };
                self.sim.host(name, move || program.clone().run());
            }
        }
    }

    /// Runs the world: `schedule` strikes, at `heal_at` everything is mended, and from then on the
    /// clients have `patience` to finish.
    pub fn run(&mut self, schedule: &[Step], heal_at: Duration, patience: Duration) -> Ending {
        let mut steps: Vec<&Step> = schedule.iter().collect();
        steps.sort_by_key(|step| step.at_ms);
        let mut steps = steps.into_iter().peekable();
        loop {
            let now = self.sim.elapsed();
            self.undo_until(now);
            while let Some(step) = steps.next_if(|step| Duration::from_millis(step.at_ms) <= now) {
                self.strike(&step.fault);
            }
            if now >= heal_at && !*self.healed.borrow() {
                self.heal();
            }
            if now >= heal_at + patience {
                return Ending::Stuck;
            }
            match catch_unwind(AssertUnwindSafe(|| self.sim.step())) {
                Ok(Ok(false)) => {}
                Ok(Ok(true)) => return Ending::Finished,
                Ok(Err(error)) => return Ending::Broken(error.to_string()),
                Err(panic) => return Ending::Broken(panic_text(&*panic)),
            }
        }
    }

    /// Simulated time since the start.
    pub fn elapsed(&self) -> Duration {
        self.sim.elapsed()
    }
}

fn panic_text(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().copied();
    let text = text.or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    format!("panicked: {}", text.unwrap_or("without a text"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_world_has_the_links_of_its_machines() {
        let world = |facades, relay| Description {
            facades,
            relay,
            ..Description::default()
        };
        assert_eq!(
            world(1, false).links(),
            [Link::ClientsFacade, Link::FacadeQueen]
        );
        assert_eq!(
            world(2, true).links(),
            [
                Link::ClientsFacade,
                Link::ClientsFacade2,
                Link::FacadeRelay,
                Link::Facade2Relay,
                Link::RelayQueen
            ]
        );
        let tenants = Description {
            tenancy: Tenancy::Enforced,
            ..world(1, false)
        };
        assert_eq!(
            tenants.links(),
            [Link::ClientsFacade, Link::FacadeProxy, Link::ProxyQueen]
        );
        let both = Description {
            relay: true,
            ..tenants
        };
        assert_eq!(both.validate(), Err(DescriptionError::RelayAndProxy));
        assert_eq!(
            world(0, false).validate(),
            Err(DescriptionError::Facades(0))
        );
        assert_eq!(world(4, true).validate(), Err(DescriptionError::Facades(4)));
    }
}
