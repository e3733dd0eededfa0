//! The client against every status, header and broken body of the contract, and against sockets
//! that misbehave.

mod answers;
mod sockets;
mod statuses;

use std::sync::Arc;

use host::blocking::Blocking;
use host::{Host, Secret};

use super::*;

/// The machine, with blocking work in place so that a paused clock stays paused.
fn host() -> Host {
    Host {
        blocking: Blocking::Inline,
        ..::host::os::host()
    }
}

fn token(bearer: &str) -> Credential {
    Credential {
        bearer: Some(Secret::new(bearer.to_owned())),
        host: None,
    }
}

fn remote(host: &Host, address: std::net::SocketAddr) -> ::host::net::Remote {
    ::host::net::Remote {
        net: Arc::clone(&host.net),
        host: address.ip().to_string(),
        port: address.port(),
    }
}

/// A client of the HTTP server at `address`.
fn client_of(address: std::net::SocketAddr) -> Client {
    let host = host();
    let connector = Arc::new(remote(&host, address));
    Client::new(&host, connector, &address.to_string()).expect("a legal authority")
}

fn one_record() -> Fragment {
    let mut writer = FragmentWriter::new("q", 0, 64);
    writer
        .record(None, crate::envelope::RecordParts::default(), [])
        .expect("no header");
    writer.finish()
}

fn one_write() -> kv::Batch {
    let mut batch = kv::Batch::new();
    batch.put_forever("qk:a", &1).expect("fits");
    batch
}

/// Every route, called once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Route {
    ListQueues,
    QueueOptions,
    Configure,
    DeleteQueue,
    PartitionsChanged,
    Push,
    Fetch,
    FetchOffsets,
    Kv,
    Transaction,
    AuthMe,
    Health,
}

impl Route {
    const ALL: [Self; 12] = [
        Self::ListQueues,
        Self::QueueOptions,
        Self::Configure,
        Self::DeleteQueue,
        Self::PartitionsChanged,
        Self::Push,
        Self::Fetch,
        Self::FetchOffsets,
        Self::Kv,
        Self::Transaction,
        Self::AuthMe,
        Self::Health,
    ];

    /// The error of the call, `None` when there was none.
    async fn call(self, client: &Client, credential: &Credential) -> Option<Error> {
        let options = serde_json::Map::new();
        match self {
            Self::ListQueues => client.list_queues(credential).await.err(),
            Self::QueueOptions => client.queue_options(credential, "q").await.err(),
            Self::Configure => client.configure(credential, "q", &options).await.err(),
            Self::DeleteQueue => client.delete_queue(credential, "q").await.err(),
            Self::PartitionsChanged => {
                let entry = ChangedEntry {
                    queue: "q",
                    after: None,
                };
                client.partitions_changed(credential, &[entry]).await.err()
            }
            Self::Push => client
                .push(credential, &[one_record()], Repeat::Unsafe)
                .await
                .err(),
            Self::Fetch => {
                let entry = FetchEntry {
                    queue: "q",
                    partition: 0,
                    offset: 0,
                    max_bytes: 1,
                };
                client
                    .fetch(credential, &[entry], std::time::Duration::ZERO, 1)
                    .await
                    .err()
            }
            Self::FetchOffsets => {
                let entry = OffsetsEntry {
                    queue: "q",
                    partition: 0,
                    timestamp_ms: 0,
                };
                client.fetch_offsets(credential, &[entry]).await.err()
            }
            Self::Kv => client
                .kv(credential, &one_write(), Repeat::Unsafe)
                .await
                .err(),
            Self::Transaction => client
                .transaction(credential, &[one_record()], &one_write())
                .await
                .err(),
            Self::AuthMe => client.auth_me(credential).await.err(),
            Self::Health => client.health().await.err(),
        }
    }

    /// Whether 404 means that this Queen lacks the route or the queue, rather than an error.
    fn may_be_missing(self) -> bool {
        matches!(
            self,
            Self::QueueOptions | Self::PartitionsChanged | Self::FetchOffsets
        )
    }
}
