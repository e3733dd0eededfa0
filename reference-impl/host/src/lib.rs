//! What a node needs from its machine.
//!
//! Doors, fakes and clients reach the network, the clocks, entropy and blocking work only through
//! [`Host`]. Production binds it to the operating system ([`os::host`]); the simulation binds it to
//! its world. This crate knows no protocol and none of the other crates.

pub mod accept;
pub mod answers;
pub mod blocking;
pub mod budget;
pub mod clock;
pub mod entropy;
pub mod files;
pub mod frame;
pub mod gate;
pub mod metrics;
pub mod net;
pub mod os;
pub mod pipe;
pub mod sampled;
pub mod secret;
pub mod service;
pub mod shutdown;
pub mod text;
pub mod tls;

use std::sync::Arc;

pub use clock::{Clock, Monotonic, WallTime};
pub use entropy::Entropy;
pub use net::{BoxStream, Connect, Listener, Net, Remote, Stream};
pub use secret::Secret;

/// The machine, as one node sees it. Cheap to clone: four reference counts.
#[derive(Clone, Debug)]
pub struct Host {
    /// Bind, accept, connect, resolve.
    pub net: Arc<dyn Net>,
    /// Monotonic and wall clock.
    pub clock: Arc<dyn Clock>,
    /// Random bytes.
    pub entropy: Arc<dyn Entropy>,
    /// Where work that blocks a thread runs.
    pub blocking: blocking::Blocking,
}
