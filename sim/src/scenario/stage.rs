//! What a scenario's clients play on: their machines, the history, and word of the heal.

use std::time::Duration;

use host::Secret;
use tokio::sync::watch;
use tokio::time::sleep;

use crate::client::access::{Credentials, Held};
use crate::client::reader::Reader;
use crate::client::{Access, Client, Profile};
use crate::history::{Event, Name, Recorder};
use crate::schedule::Key;
use crate::seed::Numbers;
use crate::storage;
use crate::trace::Node;
use crate::world::{Clients, KAFKA_PORT, secure, tenant_id};

/// The client that reads the whole log at the end.
pub const AUDITOR: &str = "auditor";

/// What clients authenticate with; a Queen that asks nobody takes any.
const PASSWORD: &str = "a-token";
/// Who holds the key of another tenant is called so, and more.
pub const OTHER: &str = "other-";

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
    /// Nothing goes wrong but with keys.
    pub(super) quiet: bool,
    /// Who holds the key that schedules strike.
    pub(super) struck: &'static str,
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
            access: self.access(id),
        }
    }

    /// Which key a client holds, by what it is called.
    fn key_of(&self, id: &str) -> Key {
        match id {
            id if id.starts_with(OTHER) => Key::Other,
            id if id == self.struck => Key::Victim,
            _ => Key::Neighbour,
        }
    }

    fn access(&self, id: &str) -> Access {
        let key = self.key_of(id);
        if let Some(credentials) = self.clients.keys().credentials(key) {
            return Access {
                credentials: Some(credentials),
                struck: key == Key::Victim,
                undisturbed: self.quiet && key != Key::Victim,
                ..Access::default()
            };
        }
        match self.secure {
            true => Access {
                trusts: Some(secure::roots()),
                credentials: Some(Credentials::new(Held {
                    principal: "anybody".into(),
                    tenant: "everybody".into(),
                    secret: Secret::new(PASSWORD.to_owned()),
                })),
                ..Access::default()
            },
            false => Access::default(),
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
        self.audit_as(AUDITOR, topic, partitions, profile).await;
    }

    /// The same by another auditor.
    pub async fn audit_as(
        &self,
        auditor: &str,
        topic: &Name,
        partitions: i32,
        profile: &'static Profile,
    ) {
        let reader = self.client(auditor, profile);
        let (host, tenants) = (reader.host.clone(), self.clients.keys());
        let key = self.key_of(auditor);
        let tenant = tenants.credentials(key).map(|_| tenant_id(key));
        Reader::new(reader, topic.clone(), partitions)
            .read_all()
            .await;
        storage::read_all(&host, &self.recorder, topic, partitions, tenant).await;
    }
}
