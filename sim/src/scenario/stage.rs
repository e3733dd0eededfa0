//! What a scenario's clients play on: their machines, the history, and word of the heal.

use std::time::Duration;

use host::Secret;
use tokio::sync::watch;
use tokio::time::sleep;

use crate::client::reader::Reader;
use crate::client::{Access, Client, Profile};
use crate::history::{Event, Name, Recorder};
use crate::seed::Numbers;
use crate::storage;
use crate::trace::Node;
use crate::world::{Clients, KAFKA_PORT, secure};

/// The client that reads the whole log at the end.
pub const AUDITOR: &str = "auditor";

/// What clients authenticate with; a Queen that asks nobody takes any.
const PASSWORD: &str = "a-token";

/// Where clients play. Clones are the same.
#[derive(Clone, Debug)]
pub struct Stage {
    /// Their machines.
    pub clients: Clients,
    /// What they do and see.
    pub recorder: Recorder,
    /// How long they may take after the heal.
    pub patience: Duration,
    pub(super) seed: u64,
    /// Clients come over TLS.
    pub(super) secure: bool,
    pub(super) healed: watch::Receiver<bool>,
}

impl Stage {
    /// A client that knows the first facade.
    pub fn client(&self, id: &str, profile: &'static Profile) -> Client {
        self.client_of(id, profile, Node::Facade)
    }

    /// A client that knows `door`.
    pub fn client_of(&self, id: &str, profile: &'static Profile, door: Node) -> Client {
        Client {
            host: self.clients.host(id),
            profile,
            id: id.into(),
            bootstrap: (door.name().to_owned(), KAFKA_PORT),
            recorder: self.recorder.clone(),
            access: match self.secure {
                true => Access {
                    trusts: Some(secure::roots()),
                    password: Some(Secret::new(PASSWORD.to_owned())),
                },
                false => Access::default(),
            },
        }
    }

    /// The numbers of `label` in this run.
    pub fn numbers(&self, label: &str) -> Numbers {
        Numbers::new(self.seed, label)
    }

    /// Whether the world has healed.
    pub fn is_healed(&self) -> bool {
        *self.healed.borrow()
    }

    /// Ends when the world has healed.
    pub async fn healed(&self) {
        // An error says that the world is gone, and this with it.
        let _ = self.healed.clone().wait_for(|healed| *healed).await;
    }

    /// Notes again and again what the listeners of the first facade hold, by the metrics that it
    /// serves on `port`, and that it may hold `bound_bytes`. Until it is dropped.
    pub async fn watch_memory(self, port: u16, bound_bytes: u64) {
        let who = Name::from("watcher");
        let host = self.clients.host(who.as_str());
        loop {
            sleep(Duration::from_millis(250)).await;
            // A facade that is down holds nothing.
            if let Some(used_bytes) = storage::held_bytes(&host, Node::Facade, port).await {
                let seen = Event::Memory {
                    node: Node::Facade.name().into(),
                    used_bytes,
                    bound_bytes,
                };
                self.recorder.record(&who, seen);
            }
        }
    }

    /// Reads the whole of a topic, as a fresh consumer and from Queen herself.
    pub async fn audit(&self, topic: &Name, partitions: i32, profile: &'static Profile) {
        let reader = self.client(AUDITOR, profile);
        let host = reader.host.clone();
        Reader::new(reader, topic.clone(), partitions)
            .read_all()
            .await;
        storage::read_all(&host, &self.recorder, topic, partitions).await;
    }
}
