//! Who clients are told of. A snapshot: cheap to take, and the same for a whole answer.

use std::collections::BTreeMap;
use std::sync::Arc;

use coordinator::cluster::rendezvous::{self, Item};
use coordinator::cluster::{NodeId, Row};

/// A node as clients see it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Broker {
    /// Its broker id.
    pub id: NodeId,
    /// Where it is reached.
    pub host: Arc<str>,
    /// TCP port.
    pub port: u16,
}

/// The live nodes, this one always among them and described by itself.
#[derive(Clone, Debug)]
pub struct View {
    me: Broker,
    /// `None` outside a cluster.
    nodes: Option<Arc<BTreeMap<NodeId, Row>>>,
}

impl View {
    /// What `me` sees of `nodes`.
    pub fn new(me: Broker, nodes: Option<Arc<BTreeMap<NodeId, Row>>>) -> Self {
        Self { me, nodes }
    }

    /// This node.
    pub fn me(&self) -> &Broker {
        &self.me
    }

    /// All, in order of their ids.
    pub fn brokers(&self) -> Vec<Broker> {
        let others = self.nodes.iter().flat_map(|nodes| nodes.iter());
        let mut brokers: Vec<Broker> = others
            .filter(|(id, _)| **id != self.me.id)
            .map(|(id, row)| Broker {
                id: *id,
                host: Arc::clone(&row.host),
                port: row.port,
            })
            .collect();
        brokers.push(self.me.clone());
        brokers.sort_by_key(|broker| broker.id);
        brokers
    }

    /// The lowest id, as every node comes to it.
    pub fn controller(&self) -> NodeId {
        self.ids().min().unwrap_or(self.me.id)
    }

    /// The owner of `item`.
    pub fn owner(&self, item: Item<'_>) -> Broker {
        let owner = rendezvous::owner(item, self.ids());
        let row = owner.and_then(|id| Some((id, self.nodes.as_ref()?.get(&id)?)));
        match row {
            Some((id, row)) if id != self.me.id => Broker {
                id,
                host: Arc::clone(&row.host),
                port: row.port,
            },
            _ => self.me.clone(),
        }
    }

    /// The leader that clients are told of.
    pub fn leader(&self, topic: &str, partition: i32) -> NodeId {
        match &self.nodes {
            None => self.me.id,
            Some(_) => {
                let item = Item::Partition(topic, partition);
                rendezvous::owner(item, self.ids()).unwrap_or(self.me.id)
            }
        }
    }

    /// Another node that tells clients this node's address: they would be sent in a circle.
    pub fn twin(&self) -> Option<NodeId> {
        let me = &self.me;
        let mut others = self.nodes.iter().flat_map(|nodes| nodes.iter());
        let twin =
            others.find(|(id, row)| **id != me.id && row.host == me.host && row.port == me.port);
        twin.map(|(id, _)| *id)
    }

    fn ids(&self) -> impl Iterator<Item = NodeId> {
        let others = self.nodes.iter().flat_map(|nodes| nodes.keys().copied());
        let me = self.me.id;
        others
            .filter(move |id| *id != me)
            .chain(std::iter::once(me))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn broker(id: i32) -> Broker {
        Broker {
            id: NodeId(id),
            host: "me".into(),
            port: 9092,
        }
    }

    fn row(host: &str) -> Row {
        Row {
            host: host.into(),
            port: 1,
            incarnation: "x".into(),
            serves_transactions: true,
        }
    }

    #[test]
    fn alone_it_is_everything() {
        let view = View::new(broker(0), None);
        assert_eq!(view.brokers(), [broker(0)]);
        assert_eq!(view.controller(), NodeId(0));
        assert_eq!(view.leader("orders", 7), NodeId(0));
        assert_eq!(view.owner(Item::Group("g")), broker(0));
    }

    #[test]
    fn a_node_with_this_nodes_address_is_found_and_its_own_row_is_none() {
        let at = |host, port| Row { port, ..row(host) };
        let twin = |id, host, port| {
            let nodes = [(NodeId(2), at("me", 9092)), (NodeId(id), at(host, port))];
            View::new(broker(2), Some(Arc::new(nodes.into()))).twin()
        };
        assert_eq!(twin(1, "me", 9092), Some(NodeId(1)));
        assert_eq!(twin(1, "me", 9093), None);
        assert_eq!(twin(1, "other", 9092), None);
        assert_eq!(View::new(broker(2), None).twin(), None);
    }

    #[test]
    fn others_come_from_their_rows_and_it_from_itself() {
        let nodes = [(NodeId(1), row("one")), (NodeId(2), row("stale"))];
        let view = View::new(broker(2), Some(Arc::new(nodes.into())));
        let hosts: Vec<_> = view
            .brokers()
            .iter()
            .map(|b| (b.id.0, b.host.to_string()))
            .collect();
        assert_eq!(hosts, [(1, "one".to_owned()), (2, "me".to_owned())]);
        assert_eq!(view.controller(), NodeId(1));
        // A vector of the contract: of 1, 2 and 3 the owner is 2.
        assert_eq!(view.owner(Item::Group("orders-consumer")), broker(2));
        assert_eq!(view.leader("orders", 0), NodeId(2));
        // Not in its own view yet, it is live all the same.
        let nodes = [(NodeId(1), row("one"))];
        let view = View::new(broker(3), Some(Arc::new(nodes.into())));
        assert_eq!(view.brokers().len(), 2);
    }
}
