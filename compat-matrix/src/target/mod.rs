//! What is under test: the embedded facade, whose nodes this binary starts itself, or any address.

mod node;

use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

pub(crate) use node::free_port;
pub use node::{Memory, Node, called_as_node};

use crate::spec::Stop;

/// The kinds of target.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Kind {
    /// `queen-kafka` over an embedded Queen.
    Facade,
    /// A server that somebody else started.
    Bootstrap {
        /// Its `host:port`.
        address: String,
    },
}

impl Kind {
    /// The target's name in reports and of its expectations file.
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Facade => "facade",
            Self::Bootstrap { .. } => "bootstrap",
        }
    }

    /// How much longer things may take than on a node of our own, as a factor: a real cluster creates
    /// and deletes in the background, and may be far away.
    pub const fn patience(&self) -> u32 {
        match self {
            Self::Facade => 1,
            Self::Bootstrap { .. } => 3,
        }
    }
}

/// A target with its shared node.
#[derive(Debug)]
pub struct Target {
    kind: Kind,
    shared: Node,
    scratch: Arc<tempfile::TempDir>,
    topics: Mutex<Vec<String>>,
}

impl Target {
    /// Starts the shared node, or takes the address as it is, and waits until it answers.
    ///
    /// # Errors
    ///
    /// [`Stop::Fail`] when it does not answer.
    pub async fn start(kind: Kind) -> Result<Self, Stop> {
        let scratch = tempfile::Builder::new()
            .prefix("compat-matrix-")
            .tempdir()
            .map_err(|error| Stop::fail(format!("no scratch folder: {error}")))?;
        let scratch = Arc::new(scratch);
        let shared = match &kind {
            Kind::Facade => Node::launch(new_folder(&scratch)?, &[]).await?,
            Kind::Bootstrap { address } => Node::at(address.clone()).await?,
        };
        Ok(Self {
            kind,
            shared,
            scratch,
            topics: Mutex::default(),
        })
    }

    /// What kind it is.
    pub const fn kind(&self) -> &Kind {
        &self.kind
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
            Kind::Facade => Node::launch(new_folder(&self.scratch)?, settings).await,
            Kind::Bootstrap { .. } => Err(Stop::skip(
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
