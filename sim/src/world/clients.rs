//! The machines of clients: each client has its own clocks' offset, entropy and sockets, behind one
//! address, and can be frozen by its name.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use host::Host;

use super::Keyring;
use crate::machine::{Late, Machine};
use crate::trace::{Node, Trace};

/// The clients of a world. Clones are the same.
#[derive(Clone, Debug)]
pub struct Clients {
    node: Node,
    seed: u64,
    keys: Keyring,
    late: Late,
    trace: Trace,
    machines: Arc<Mutex<BTreeMap<String, Machine>>>,
}

impl Clients {
    pub(super) fn new(node: Node, seed: u64, keys: Keyring, late: Late, trace: Trace) -> Self {
        Self {
            node,
            seed,
            keys,
            late,
            trace,
            machines: Arc::default(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, Machine>> {
        self.machines.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A program of the client `name` starts: its host. Call it inside the workload.
    pub fn host(&self, name: &str) -> Host {
        self.machine(name).boot()
    }

    /// The API keys of the world.
    pub fn keys(&self) -> &Keyring {
        &self.keys
    }

    /// What the client `name` runs on.
    pub(super) fn machine(&self, name: &str) -> Machine {
        let mut machines = self.lock();
        let new = || {
            let (late, trace) = (self.late.clone(), self.trace.clone());
            Machine::client(self.node, name, self.seed, late, trace)
        };
        machines.entry(name.to_owned()).or_insert_with(new).clone()
    }
}
