//! What is under test: the facade, whose nodes this binary starts itself, any address, or an Apache
//! Kafka in a container.

mod authority;
mod cluster;
mod container;
mod guard;
mod node;
mod outfit;
mod queen;
mod tenants;

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use host::Secret;

pub use authority::{Authority, Issued};
pub use cluster::Cluster;
use container::Container;
pub use guard::Guard;
pub(crate) use node::free_port;
pub use node::{Memory, Node, called_as_node};
pub(crate) use queen::{COMMAND as SERVE_QUEEN, QueenOptions, QueenProcess, serve as serve_queen};
pub use tenants::{Key, Tenants};

use crate::relay::Front;
use crate::spec::Stop;
use crate::wire::{Access, Credentials};
use outfit::Outfit;

/// The kinds of target.
#[derive(Clone, Debug)]
pub enum Kind {
    /// `queen-kafka` over an embedded Queen.
    Facade,
    /// The same under TLS and SASL, over a Queen of its own process that asks for tokens.
    FacadeSaslTls,
    /// The same as a tenant of a cell: over a Queen behind its proxy, with SASL in the clear, where a
    /// password is a key of the tenant.
    FacadeCloud,
    /// A server that somebody else started.
    Bootstrap(Access),
    /// Apache Kafka in a container that is started here.
    Container,
}

impl Kind {
    /// The target's name in reports and of its expectations file.
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Facade => "facade",
            Self::FacadeSaslTls => "facade-sasl-tls",
            Self::FacadeCloud => "facade-cloud",
            Self::Bootstrap(_) => "bootstrap",
            Self::Container => "container",
        }
    }

    /// The name of the file that says what it refuses, when nobody names another.
    pub const fn expectations(&self) -> &'static str {
        match self {
            Self::Container => "apache-kafka",
            Self::Facade | Self::FacadeSaslTls | Self::FacadeCloud | Self::Bootstrap(_) => {
                self.name()
            }
        }
    }

    /// Whether clients have to say who they are.
    pub const fn authenticates(&self) -> bool {
        match self {
            Self::Facade | Self::Container => false,
            Self::FacadeSaslTls | Self::FacadeCloud => true,
            Self::Bootstrap(access) => access.security().sasl.is_some(),
        }
    }

    /// Whether its nodes are processes of ours: `queen-kafka`, to be killed and configured.
    pub const fn is_ours(&self) -> bool {
        matches!(self, Self::Facade | Self::FacadeSaslTls | Self::FacadeCloud)
    }

    /// Whether it is still there after the run, with everything that checks left on it.
    pub const fn stays(&self) -> bool {
        matches!(self, Self::Bootstrap(_))
    }
}

/// A target with its shared node.
#[derive(Debug)]
pub struct Target {
    kind: Kind,
    shared: Node,
    /// Certificates for relays, and for nodes under TLS.
    authority: Arc<Authority>,
    outfit: Outfit,
    container: Option<Container>,
    scratch: Arc<tempfile::TempDir>,
    topics: Mutex<Vec<String>>,
    bounds: Bounds,
}

/// What the caller allows, instead of what the kind of target says.
#[derive(Clone, Copy, Debug, Default)]
pub struct Bounds {
    /// See [`Target::patience`].
    pub patience: Option<u32>,
    /// See [`Target::at_once`].
    pub at_once: Option<u16>,
    /// See [`Target::reads_only`].
    pub read_only: bool,
}

/// Checks of the shared lane that run at once. They mostly wait for the network, but a machine of two
/// cores also runs the server under test, and a Queen that grants a tenant 100 KV writes a second: with
/// 8 it was asked for more in some runs, and the probes met refusals that clients repeat.
const AT_ONCE: u16 = 5;

impl Target {
    /// Starts the shared node, or takes the address as it is, and waits until it answers.
    ///
    /// # Errors
    ///
    /// [`Stop::Skip`] where this machine lacks what it runs in; [`Stop::Fail`] when it does not answer.
    pub async fn start(kind: Kind) -> Result<Self, Stop> {
        Self::start_within(kind, Bounds::default()).await
    }

    /// As [`Target::start`], with other bounds than those of its kind.
    ///
    /// # Errors
    ///
    /// As [`Target::start`].
    pub async fn start_within(kind: Kind, bounds: Bounds) -> Result<Self, Stop> {
        let scratch = tempfile::Builder::new()
            .prefix("compat-matrix-")
            .tempdir()
            .map_err(|error| Stop::fail(format!("no scratch folder: {error}")))?;
        let scratch = Arc::new(scratch);
        let authority = Arc::new(Authority::new(scratch.path())?);
        let outfit = match &kind {
            Kind::FacadeSaslTls => {
                Outfit::Guarded(Guard::new(Arc::clone(&authority), scratch.path())?)
            }
            Kind::FacadeCloud => Outfit::Cell(Tenants::new(scratch.path())?),
            Kind::Facade | Kind::Bootstrap(_) | Kind::Container => Outfit::Bare,
        };
        let mut container = None;
        let shared = match &kind {
            Kind::Bootstrap(access) => Node::at(access.clone()).await?,
            Kind::Container => {
                let (running, node) = Container::start().await?;
                container = Some(running);
                node
            }
            Kind::Facade | Kind::FacadeSaslTls | Kind::FacadeCloud => {
                Node::launch(new_folder(&scratch)?, &[], &outfit).await?
            }
        };
        Ok(Self {
            kind,
            shared,
            authority,
            outfit,
            container,
            scratch,
            topics: Mutex::default(),
            bounds,
        })
    }

    /// What kind it is.
    pub const fn kind(&self) -> &Kind {
        &self.kind
    }

    /// How much longer things may take than on a node of our own, as a factor: a real cluster creates
    /// and deletes in the background, and may be far away.
    pub const fn patience(&self) -> u32 {
        match (self.bounds.patience, &self.kind) {
            (Some(factor), _) => factor,
            (None, Kind::Facade) => 1,
            (None, Kind::FacadeSaslTls | Kind::FacadeCloud) => 2,
            (None, Kind::Bootstrap(_) | Kind::Container) => 3,
        }
    }

    /// How many checks it bears at once.
    pub fn at_once(&self) -> usize {
        usize::from(self.bounds.at_once.unwrap_or(AT_ONCE))
    }

    /// Whether nothing may be sent that makes or changes something.
    pub const fn reads_only(&self) -> bool {
        self.bounds.read_only
    }

    /// The secrets of its nodes, where they have some.
    ///
    /// # Errors
    ///
    /// [`Stop::Skip`] where they have none that this program knows.
    pub fn guard(&self) -> Result<&Guard, Stop> {
        match &self.outfit {
            Outfit::Guarded(guard) => Ok(guard),
            Outfit::Bare | Outfit::Cell(_) => Err(Stop::skip(
                "needs the secrets of a node of ours under TLS and SASL",
            )),
        }
    }

    /// The tenants of its cells.
    ///
    /// # Errors
    ///
    /// [`Stop::Skip`] where there are none that this program knows.
    pub fn tenants(&self) -> Result<&Tenants, Stop> {
        match &self.outfit {
            Outfit::Cell(tenants) => Ok(tenants),
            Outfit::Bare | Outfit::Guarded(_) => Err(Stop::skip("needs a cell of ours")),
        }
    }

    /// Somebody who may do everything, and whose authentication has no end of its own.
    ///
    /// # Errors
    ///
    /// [`Stop::Skip`] where nodes of ours ask nobody who he is.
    pub fn lasting_credentials(&self) -> Result<Credentials, Stop> {
        match &self.outfit {
            Outfit::Guarded(guard) => Ok(guard.somebody("admin", None)),
            Outfit::Cell(tenants) => Ok(tenants.credentials(Key::Owner)),
            Outfit::Bare => Err(Stop::skip("nobody needs a password here")),
        }
    }

    /// What nobody may print: what processes and clients were given as secrets.
    pub fn secrets(&self) -> Vec<Secret<String>> {
        let own = self.outfit.secrets();
        let users = match &self.kind {
            Kind::Bootstrap(access) => access.security().sasl.as_ref(),
            Kind::Facade | Kind::FacadeSaslTls | Kind::FacadeCloud | Kind::Container => None,
        };
        let users = users.map(|sasl| sasl.password.clone());
        own.into_iter().chain(users).collect()
    }

    /// The logs of all processes that were started here, those of single checks included.
    pub fn logs(&self) -> Vec<PathBuf> {
        let entries = |folder: &Path| {
            let found = std::fs::read_dir(folder).into_iter().flatten();
            found.filter_map(|entry| Some(entry.ok()?.path()))
        };
        entries(self.scratch.path())
            .flat_map(|folder| entries(&folder).collect::<Vec<_>>())
            .filter(|path| path.extension().is_some_and(|end| end == "log"))
            .collect()
    }

    /// What a relay shows its client in front of a server under TLS.
    ///
    /// # Errors
    ///
    /// A machine without randomness.
    pub fn front(&self) -> Result<Front, Stop> {
        Ok(Front {
            acceptor: self.authority.acceptor()?,
            ca_file: self.authority.file().to_path_buf(),
        })
    }

    /// Ends what was started for it, whoever still holds it. Dropping does the same later, or never.
    ///
    /// # Errors
    ///
    /// What does not end.
    pub async fn end(&self) -> Result<(), Stop> {
        if let Some(container) = &self.container {
            return container.remove().await;
        }
        match self.shared.kill().await {
            // Somebody else's is left alone.
            Ok(()) | Err(Stop::Skip(_)) => Ok(()),
            Err(why) => Err(why),
        }
    }

    /// The node that checks share.
    pub const fn shared(&self) -> &Node {
        &self.shared
    }

    /// Remembers a topic that a check makes, for the end of the run.
    pub fn remember_topic(&self, name: &str) {
        // Names are pushed whole.
        self.topics
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .push(name.to_owned());
    }

    /// The topics that checks have made since the last call.
    pub fn take_topics(&self) -> Vec<String> {
        std::mem::take(&mut *self.topics.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Starts another node with an empty store.
    ///
    /// # Errors
    ///
    /// [`Stop::Skip`] where nodes cannot be started; [`Stop::Fail`] when it does not get ready.
    pub async fn own_node(&self, settings: &[(&str, &str)]) -> Result<Node, Stop> {
        match &self.kind {
            Kind::Facade | Kind::FacadeSaslTls | Kind::FacadeCloud => {
                Node::launch(new_folder(&self.scratch)?, settings, &self.outfit).await
            }
            Kind::Bootstrap(_) | Kind::Container => Err(Stop::skip(
                "needs a node that can be killed or configured; this target is no node of ours",
            )),
        }
    }
}

/// A folder of its own for one node.
fn new_folder(scratch: &tempfile::TempDir) -> Result<PathBuf, Stop> {
    tempfile::Builder::new()
        .prefix("node-")
        .tempdir_in(scratch.path())
        // The scratch folder removes it with everything else.
        .map(tempfile::TempDir::keep)
        .map_err(|error| Stop::fail(format!("no folder for a node: {error}")))
}
