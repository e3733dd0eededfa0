//! What every request reaches: the engine, the choices made at start, the faults, KV admission.

use std::sync::Arc;

use host::Host;

use crate::engine::{Engine, Settings};
use crate::faults::Faults;
use crate::http::body::Intake;
use crate::options::{Options, Storage};
use crate::routes::admission::Admission;
use crate::store::{Store, StoreError};

/// One Queen's inside.
#[derive(Debug)]
pub struct Node {
    pub host: Host,
    pub engine: Engine,
    /// `storage` is taken.
    pub options: Options,
    pub faults: Faults,
    pub admission: Admission,
    /// Where the data lives, for people.
    pub storage: String,
    /// Room for request bodies.
    pub intake: Intake,
}

impl Node {
    pub async fn start(host: Host, mut options: Options) -> Result<Arc<Self>, StoreError> {
        let cache_bytes = options.store_cache_bytes;
        let storage = std::mem::take(&mut options.storage);
        let place = match &storage {
            Storage::Memory => "memory".to_owned(),
            Storage::Directory(directory) => directory.display().to_string(),
            Storage::Backend(_) => "the caller's".to_owned(),
        };
        let store = match storage {
            Storage::Memory => None,
            storage => Some(
                host.blocking
                    .run(move || match storage {
                        Storage::Directory(directory) => Store::open(&directory, cache_bytes),
                        Storage::Backend(backend) => Store::open_backend(backend, cache_bytes),
                        Storage::Memory => Err(StoreError::Closed),
                    })
                    .await?,
            ),
        };
        let settings = Settings {
            segment_cache_bytes: options.segment_cache_bytes,
            retention_interval: options.retention_interval,
            lane_cleanup_after: options.lane_cleanup_after,
        };
        let engine = Engine::start(host.clone(), store, settings).await?;
        Ok(Arc::new(Self {
            admission: Admission::new(options.kv_rates, options.kv_require_grant),
            intake: Intake::new(options.max_body_bytes, options.max_inflight_body_bytes),
            host,
            engine,
            storage: place,
            faults: options.faults.clone(),
            options,
        }))
    }
}
