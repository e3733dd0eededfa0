//! A world: Queen and a facade on machines of their own, clients on a third, a network between
//! them, and the hand that breaks and mends it all.
//!
//! Doors and fakes run as they are shipped; only their `host` is simulated.

use std::collections::{BTreeMap, BTreeSet};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use facade::config::{Config, Variables};
use fake_queen::{Options, Queen, Storage};
use futures::future::BoxFuture;
use host::{Host, Remote};
use tokio::sync::watch;
use turmoil::Sim;

use crate::disk::Disk;
use crate::machine::{EPOCH_MS, Machine};
use crate::schedule::{Fault, Link, Lost, Server, Step, TICK_MS};
use crate::seed::Numbers;
use crate::trace::{Node, Trace};

/// The port of the facade.
pub const KAFKA_PORT: u16 = 9092;
/// The port of Queen.
const QUEEN_PORT: u16 = 6632;
/// Segments and connections that wait to be read or accepted. turmoil panics beyond, so this is
/// more than any scenario's clients can have in flight.
const TCP_CAPACITY: usize = 4096;
/// A message takes between one and so many milliseconds, mostly little, as the seed has it.
const MAX_LATENCY: Duration = Duration::from_millis(50);

/// What a world is made of.
#[derive(Clone, Debug)]
pub struct Description {
    /// Moves latencies, entropy, and what a power cut leaves.
    pub seed: u64,
    /// Partitions of topics that clients create.
    pub partitions: i32,
    /// Queen's disk confirms so many syncs that a power cut undoes: a planted fault. 0 is an
    /// honest disk.
    pub lying_syncs: usize,
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

/// What clients run: it gets the host of their machine and hears when the world has healed.
pub type Workload = Box<dyn FnOnce(Host, watch::Receiver<bool>) -> BoxFuture<'static, ()>>;

/// The world.
pub struct World {
    sim: Sim<'static>,
    machines: BTreeMap<Server, Machine>,
    disk: Disk,
    power: Numbers,
    /// Links that keep what is sent.
    held: BTreeSet<Link>,
    healed: watch::Sender<bool>,
    trace: Trace,
}

impl std::fmt::Debug for World {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("World")
            .field("machines", &self.machines)
            .finish_non_exhaustive()
    }
}

impl World {
    /// A healthy world whose programs start with the first tick.
    pub fn new(description: &Description, trace: Trace, workload: Workload) -> Self {
        let seed = description.seed;
        let epoch_ms = u64::try_from(EPOCH_MS).unwrap_or_default();
        let mut sim = turmoil::Builder::new()
            .rng_seed(Numbers::new(seed, "network").draw())
            .epoch(SystemTime::UNIX_EPOCH + Duration::from_millis(epoch_ms))
            .tick_duration(Duration::from_millis(TICK_MS))
            .min_message_latency(Duration::from_millis(1))
            .max_message_latency(MAX_LATENCY)
            .tcp_capacity(TCP_CAPACITY)
            // The world ends runs by itself.
            .simulation_duration(Duration::MAX)
            .build();
        let machine = |node| Machine::new(node, seed, trace.clone());
        let (queen, facade, clients) = (
            machine(Node::Queen),
            machine(Node::Facade),
            machine(Node::Clients),
        );
        let disk = match description.lying_syncs {
            0 => Disk::new(),
            syncs => Disk::lying(syncs),
        };
        sim.host(Node::Queen.name(), {
            let (queen, disk) = (queen.clone(), disk.clone());
            move || run_queen(queen.clone(), disk.clone())
        });
        sim.host(Node::Facade.name(), {
            let (facade, partitions) = (facade.clone(), description.partitions);
            move || run_facade(facade.clone(), partitions)
        });
        let (healed, hears) = watch::channel(false);
        sim.client(Node::Clients.name(), async move {
            workload(clients.boot(), hears).await;
            Ok(())
        });
        Self {
            sim,
            machines: [(Server::Queen, queen), (Server::Facade, facade)].into(),
            disk,
            power: Numbers::new(seed, "power"),
            held: BTreeSet::new(),
            healed,
            trace,
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
            while let Some(step) = steps.next_if(|step| Duration::from_millis(step.at_ms) <= now) {
                self.strike(step.fault);
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

    fn strike(&mut self, fault: Fault) {
        self.trace
            .note_at(self.sim.elapsed(), "world", format_args!("! {fault}"));
        match fault {
            Fault::Crash { node } => self.crash(node),
            Fault::Bounce { node } => {
                self.crash(node);
                self.sim.bounce(node.node().name());
            }
            Fault::Partition { link, lost } => {
                // From any state: what is lost is what this step says, nothing more.
                self.mend(link);
                let (caller, answerer) = link.ends();
                let (caller, answerer) = (caller.name(), answerer.name());
                match lost {
                    Lost::Both => self.sim.partition(caller, answerer),
                    Lost::Requests => self.sim.partition_oneway(caller, answerer),
                    Lost::Answers => self.sim.partition_oneway(answerer, caller),
                }
            }
            Fault::Repair { link } => self.mend(link),
            Fault::Hold { link } => {
                let (caller, answerer) = link.ends();
                self.sim.hold(caller.name(), answerer.name());
                self.held.insert(link);
            }
            Fault::Release { link } => {
                if self.held.contains(&link) {
                    self.mend(link);
                }
            }
            Fault::WallJump { node, by_ms } => {
                if let Some(machine) = self.machines.get(&node) {
                    machine.jump(by_ms);
                }
            }
        }
    }

    fn crash(&mut self, node: Server) {
        if !self.sim.is_host_running(node.node().name()) {
            return;
        }
        if node == Server::Queen {
            // First: a program that is torn down writes its last words, which a power cut doesn't
            // let it.
            self.disk.cut_power(&mut self.power);
        }
        if let Some(machine) = self.machines.get(&node) {
            machine.dies();
        }
        self.sim.crash(node.node().name());
    }

    /// A link is whole, from any state; what it held arrives.
    fn mend(&mut self, link: Link) {
        let (caller, answerer) = link.ends();
        self.sim.release(caller.name(), answerer.name());
        self.held.remove(&link);
    }

    fn heal(&mut self) {
        self.trace
            .note_at(self.sim.elapsed(), "world", format_args!("heals"));
        for link in Link::ALL {
            self.mend(link);
        }
        for node in Server::ALL {
            if !self.sim.is_host_running(node.node().name()) {
                self.sim.bounce(node.node().name());
            }
        }
        self.healed.send_replace(true);
    }
}

async fn run_queen(machine: Machine, disk: Disk) -> turmoil::Result {
    let _kernel = machine.kernel();
    let host = machine.boot();
    let options = Options {
        storage: Storage::Backend(Box::new(disk.open())),
        ..Options::default()
    };
    let queen = Queen::start(host.clone(), options).await?;
    let listener = host.net.bind(([0, 0, 0, 0], QUEEN_PORT).into()).await?;
    queen.serve(listener);
    std::future::pending().await
}

async fn run_facade(machine: Machine, partitions: i32) -> turmoil::Result {
    let _kernel = machine.kernel();
    let host = machine.boot();
    let upstream = Remote {
        net: Arc::clone(&host.net),
        host: Node::Queen.name().to_owned(),
        port: QUEEN_PORT,
    };
    let config = Config::from_variables(&variables(partitions))?;
    let facade = facade::boot::start(config, host, Arc::new(upstream)).await?;
    std::future::pending::<()>().await;
    drop(facade);
    Ok(())
}

/// The environment of the facade's process, as an operator writes it.
fn variables(partitions: i32) -> Variables {
    let (facade, queen) = (Node::Facade, Node::Queen);
    let pairs = [
        ("QUEEN_URL", format!("http://{queen}:{QUEEN_PORT}")),
        ("QUEEN_KAFKA_ADDR", format!("0.0.0.0:{KAFKA_PORT}")),
        (
            "QUEEN_KAFKA_ADVERTISED_ADDR",
            format!("{facade}:{KAFKA_PORT}"),
        ),
        ("QUEEN_KAFKA_DEFAULT_PARTITIONS", partitions.to_string()),
    ];
    pairs
        .into_iter()
        .map(|(name, value)| (name.into(), value.into()))
        .collect()
}

fn panic_text(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().copied();
    let text = text.or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    format!("panicked: {}", text.unwrap_or("without a text"))
}
