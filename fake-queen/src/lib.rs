//! A faithful, durable Queen MQ: the embedded default, and the double the tests run against.
//!
//! [`embed`] runs one inside this process; [`Queen`] serves one on listeners of the caller's. Time,
//! randomness, storage and the network come from the caller through `host`.
//!
//! "Contract section N" in the comments of this crate is section N of docs/queen-contract.md.

pub mod auth;
mod bucket;
pub mod conformance;
pub mod console;
pub mod engine;
pub mod faults;
pub mod http;
pub mod ids;
pub mod json;
mod node;
pub mod options;
pub mod percent;
pub mod proxy;
pub mod queen;
pub mod routes;
pub mod store;
pub mod time;

use std::error::Error;
use std::path::PathBuf;

use futures::FutureExt;
use futures::future::BoxFuture;
use host::Host;
use host::service::InProcess;

pub use crate::options::{KafkaStatus, KvRates, Options, Storage, Version};
pub use crate::queen::Queen;

/// Bytes each direction of an embedded connection holds.
const PIPE_BYTES: usize = 256 << 10;

/// Starts a Queen inside this process: in memory, or durable in `dir`.
///
/// It keeps the limits of a self-hosted broker, the rates of KV calls among them, so that what
/// works here works against a remote one.
///
/// # Errors
/// The directory's database doesn't open.
pub fn embed(
    host: Host,
    dir: Option<PathBuf>,
) -> BoxFuture<'static, Result<InProcess, Box<dyn Error + Send + Sync>>> {
    async move {
        let storage = dir.map_or(Storage::Memory, Storage::Directory);
        let queen = Queen::start(
            host,
            Options {
                storage,
                ..Options::default()
            },
        )
        .await?;
        Ok(queen.in_process())
    }
    .boxed()
}
