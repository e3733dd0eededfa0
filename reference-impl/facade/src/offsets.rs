//! Committed offsets: rows of Queen's key/value store, written and read in shared calls.
//!
//! Queen grants a tenant about 100 writing and 200 reading calls a second, and a call carries 256
//! writes or 1024 keys. So while a call is in flight the next one is gathered from every group and
//! connection of a tenant. Keys and values are those of docs/queen-contract.md, section 7.9: a
//! facade of another make finds them. Knows no group and decides no Kafka code.

use std::sync::Arc;

use futures::future::BoxFuture;
use host::metrics::Registry;
use host::shutdown::Shutdown;
use host::{Clock, Host};

use crate::queen::kv::{Batch, Outcome, Readout, Scan};
use crate::queen::{Client, Credential, Error, Repeat, Scope};

mod commit;
mod fence;
mod keys;
mod pace;
mod queue;
mod read;
mod rows;
mod sweep;
#[cfg(test)]
mod tests;
mod unfolded;
mod versions;
mod write;

pub use commit::{Change, Commit, Receipt, Verdicts, WriteError};
pub(crate) use fence::Fencing;
pub use keys::{INDEX_PREFIX, MAX_METADATA_BYTES, OffsetKey, group_prefix, index_key};
pub use read::{AllOffsets, Offset, ReadError};
pub use rows::{IndexRow, OffsetRow};
pub use sweep::{ListedIndex, SweepError};
pub use unfolded::Unfolded;

/// Whose offsets: the scope they are filed under, and who the calls are made as.
#[derive(Clone, Debug)]
pub struct Tenant {
    /// Calls of one scope are shared and paced together.
    pub scope: Scope,
    /// A call is made as one credential; others of the scope wait for the next.
    pub credential: Credential,
}

/// The part of Queen that this module needs.
pub(crate) trait Store: std::fmt::Debug + Send + Sync + 'static {
    /// Runs a batch whose repetition has the same effect.
    fn run<'a>(
        &'a self,
        credential: &'a Credential,
        batch: &'a Batch,
    ) -> BoxFuture<'a, Result<Outcome, Error>>;

    /// Reads the rows of these keys.
    fn read<'a>(
        &'a self,
        credential: &'a Credential,
        keys: &'a [String],
    ) -> BoxFuture<'a, Result<Readout, Error>>;

    /// Reads the rows of `keys` as they are after the rows under `prefix` were read: what waits
    /// there to be written to them is seen in one place or the other.
    fn read_behind<'a>(
        &'a self,
        credential: &'a Credential,
        prefix: &'a str,
        keys: &'a [String],
    ) -> BoxFuture<'a, Result<(Scan, Readout), Error>> {
        Box::pin(async move {
            let scan = self
                .scan(credential, prefix, false, unfolded::MAX_PAGES)
                .await?;
            Ok((scan, self.read(credential, keys).await?))
        })
    }

    /// Reads the rows under a prefix.
    fn scan<'a>(
        &'a self,
        credential: &'a Credential,
        prefix: &'a str,
        keys_only: bool,
        max_pages: usize,
    ) -> BoxFuture<'a, Result<Scan, Error>>;
}

impl Store for Client {
    fn run<'a>(
        &'a self,
        credential: &'a Credential,
        batch: &'a Batch,
    ) -> BoxFuture<'a, Result<Outcome, Error>> {
        Box::pin(self.kv(credential, batch, Repeat::Safe))
    }

    fn read<'a>(
        &'a self,
        credential: &'a Credential,
        keys: &'a [String],
    ) -> BoxFuture<'a, Result<Readout, Error>> {
        Box::pin(self.kv_read(credential, keys))
    }

    fn read_behind<'a>(
        &'a self,
        credential: &'a Credential,
        prefix: &'a str,
        keys: &'a [String],
    ) -> BoxFuture<'a, Result<(Scan, Readout), Error>> {
        Box::pin(self.kv_read_behind(credential, prefix, keys, unfolded::MAX_PAGES))
    }

    fn scan<'a>(
        &'a self,
        credential: &'a Credential,
        prefix: &'a str,
        keys_only: bool,
        max_pages: usize,
    ) -> BoxFuture<'a, Result<Scan, Error>> {
        Box::pin(self.kv_scan(credential, prefix, keys_only, max_pages))
    }
}

/// The offsets of every tenant of this process. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Offsets {
    store: Arc<dyn Store>,
    clock: Arc<dyn Clock>,
    writer: Arc<write::Writer>,
    reader: Arc<read::Reader>,
    folds: Arc<unfolded::Folds>,
}

impl Offsets {
    /// Nothing queued over `client`. What is queued when the node drains is still written.
    pub fn new(host: &Host, client: Arc<Client>, shutdown: Shutdown, registry: &Registry) -> Self {
        Self::over(host, client, shutdown, registry, None)
    }

    /// Over `store`; in a cluster, every write is fenced.
    pub(crate) fn over(
        host: &Host,
        store: Arc<dyn Store>,
        shutdown: Shutdown,
        registry: &Registry,
        fencing: Option<Arc<dyn Fencing>>,
    ) -> Self {
        let clock = Arc::clone(&host.clock);
        let folds = Arc::<unfolded::Folds>::default();
        let writer = Arc::new(write::Writer::new(
            Arc::clone(&store),
            Arc::clone(&clock),
            shutdown,
            registry,
            fencing,
        ));
        Self {
            reader: Arc::new(read::Reader::new(
                Arc::clone(&store),
                Arc::clone(&clock),
                Arc::clone(&folds),
                Arc::clone(&writer),
                registry,
            )),
            writer,
            folds,
            store,
            clock,
        }
    }

    /// Queues the writes of `commit`, behind everything queued for its scope before. Returns at
    /// once, so that whoever decides on a commit also decides its place in the order.
    pub fn commit(&self, commit: Commit) -> Receipt {
        self.writer.submit(commit)
    }
}
