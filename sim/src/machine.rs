//! `host` bound to the simulated world: turmoil's network, simulated time, numbers from the seed.
//! Blocking work runs in place. A machine can be frozen, and its requests late. Touches nothing of
//! the real machine.

mod gate;
mod late;
mod net;
mod sockets;

use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use host::blocking::Blocking;
use host::{Clock, Entropy, Host, Monotonic, WallTime};
use tokio::sync::Notify;
use tokio::time::Instant;

use crate::seed::Numbers;
use crate::trace::{self, Node, Trace};

pub use gate::Freeze;
use gate::Gate;
pub use late::Late;
pub use sockets::Kernel;
use sockets::Sockets;

/// The wall clock of every machine at the start of a run: 2026-01-01T00:00:00Z.
pub const EPOCH_MS: i64 = 1_767_225_600_000;

/// One machine: what outlives the programs that run on it. Clones are the same one.
#[derive(Clone, Debug)]
pub struct Machine(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    node: Node,
    /// Goes on where it was after a restart: no machine draws the same numbers twice.
    entropy: Mutex<Numbers>,
    wall_offset_ms: AtomicI64,
    sockets: Sockets,
    gate: Gate,
    /// Rings when a freeze ends.
    thawed: Notify,
    /// Requests that wait; only clients have them.
    late: Option<Late>,
    trace: Trace,
}

impl Machine {
    /// The machine `node` of the world with `seed`.
    pub fn new(node: Node, seed: u64, trace: Trace) -> Self {
        Self::build(node, Numbers::new(seed, node.name()), None, trace)
    }

    /// What the client `name` runs on: one of the machines behind the one address of `node`.
    pub fn client(node: Node, name: &str, seed: u64, late: Late, trace: Trace) -> Self {
        let numbers = Numbers::new(seed, &format!("{node}/{name}"));
        Self::build(node, numbers, Some(late), trace)
    }

    fn build(node: Node, numbers: Numbers, late: Option<Late>, trace: Trace) -> Self {
        Self(Arc::new(Inner {
            node,
            entropy: Mutex::new(numbers),
            wall_offset_ms: AtomicI64::new(0),
            sockets: Sockets::default(),
            gate: Gate::default(),
            thawed: Notify::new(),
            late,
            trace,
        }))
    }

    /// The host of a program that starts now. Call it on the machine's own runtime: monotonic time
    /// begins here.
    pub fn boot(&self) -> Host {
        tokio::spawn(self.clone().reap());
        Host {
            net: Arc::new(net::SimNet::new(self.clone())),
            clock: Arc::new(SimClock {
                machine: self.clone(),
                boot: Instant::now(),
            }),
            entropy: Arc::new(SimEntropy(self.clone())),
            blocking: Blocking::Inline,
        }
    }

    /// What closes the sockets of a program that is killed. Held by the program's first future,
    /// which turmoil drops last.
    pub fn kernel(&self) -> Kernel {
        Kernel::new(self.clone())
    }

    /// Closes what a frozen program dropped, once it thaws.
    async fn reap(self) {
        loop {
            self.0.thawed.notified().await;
            self.0.sockets.close();
        }
    }

    /// The program is about to be killed: its sockets are left to the [`Kernel`].
    pub fn dies(&self) {
        self.0.sockets.keep();
        self.0.gate.reset();
    }

    /// Nothing goes in or out of the machine's sockets from now on. They stay open.
    pub fn freeze(&self) -> Freeze {
        self.0.gate.shut()
    }

    /// Ends `freeze`, unless it was ended by a restart, or overtaken by another.
    pub fn thaw(&self, freeze: Freeze) {
        if self.0.gate.end(freeze) {
            self.0.thawed.notify_one();
        }
    }

    /// Moves the wall clock by `by_ms`, forward or back.
    pub fn jump(&self, by_ms: i64) {
        self.0.wall_offset_ms.fetch_add(by_ms, Ordering::Relaxed);
    }
}

/// Monotonic time since the program started; the wall clock of its machine.
#[derive(Debug)]
struct SimClock {
    machine: Machine,
    boot: Instant,
}

impl Clock for SimClock {
    fn monotonic(&self) -> Monotonic {
        Monotonic::from_origin(self.boot.elapsed())
    }

    fn wall(&self) -> WallTime {
        let elapsed_ms = i64::try_from(trace::now().as_millis()).unwrap_or(i64::MAX);
        let offset_ms = self.machine.0.wall_offset_ms.load(Ordering::Relaxed);
        WallTime::from_epoch_ms(
            EPOCH_MS
                .saturating_add(elapsed_ms)
                .saturating_add(offset_ms),
        )
    }
}

#[derive(Debug)]
struct SimEntropy(Machine);

impl Entropy for SimEntropy {
    fn fill(&self, bytes: &mut [u8]) {
        let entropy = &self.0.0.entropy;
        let mut entropy = entropy.lock().unwrap_or_else(PoisonError::into_inner);
        entropy.fill(bytes);
    }
}
