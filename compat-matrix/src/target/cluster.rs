//! Three nodes of one cluster over a Queen of its own process.

use std::path::Path;

use super::node::Node;
use super::queen::{QueenOptions, QueenProcess};
use crate::spec::Stop;

/// How many nodes.
const NODES: usize = 3;
/// What each has beside its number. Quick to miss a node: the subject is what happens then.
const SETTINGS: &[(&str, &str)] = &[
    ("QUEEN_TOKEN", "cluster"),
    ("QUEEN_KAFKA_CLUSTER_HEARTBEAT_MS", "500"),
    ("QUEEN_KAFKA_CLUSTER_TTL_MS", "3000"),
    ("QUEEN_KAFKA_GROUP_JOIN_DELAY_MS", "300"),
];

/// A cluster of our own.
#[derive(Debug)]
pub struct Cluster {
    nodes: Vec<Node>,
    _queen: QueenProcess,
}

impl Cluster {
    /// Starts it, with an empty store, in `folder`.
    ///
    /// # Errors
    ///
    /// [`Stop::Fail`] when a process does not get ready.
    pub async fn start(folder: &Path) -> Result<Self, Stop> {
        let failed = |error: std::io::Error| Stop::fail(format!("a cluster's folders: {error}"));
        let options = QueenOptions {
            dir: Some(folder.join("queen")),
            ..QueenOptions::default()
        };
        let queen = QueenProcess::start(&options, Some(&folder.join("queen.log"))).await?;
        let url = format!("http://{}", queen.addr);
        let program = std::env::current_exe().map_err(failed)?;
        let mut nodes = Vec::new();
        for number in 1..=NODES {
            let own = folder.join(format!("node-{number}"));
            std::fs::create_dir_all(&own).map_err(failed)?;
            let number = number.to_string();
            let mut settings = vec![
                ("QUEEN_URL", url.as_str()),
                ("QUEEN_KAFKA_NODE_ID", number.as_str()),
            ];
            settings.extend(SETTINGS);
            nodes.push(Node::launch_program(program.clone(), own, &settings).await?);
        }
        Ok(Self {
            nodes,
            _queen: queen,
        })
    }

    /// The nodes, in order of their numbers.
    pub fn nodes(&self) -> &[Node] {
        &self.nodes
    }

    /// Where clients bootstrap from: all of them.
    pub fn bootstrap(&self) -> String {
        let addresses = self.nodes.iter().map(|node| node.bootstrap().to_string());
        addresses.collect::<Vec<_>>().join(",")
    }
}
