//! A host whose clocks are tokio's (paused in most tests), whose entropy is the system's and whose
//! blocking work runs in place; and a Queen on it.

use std::sync::Arc;

use fake_queen::{Options, Queen};
use host::blocking::Blocking;
use host::{Clock, Host, Monotonic, WallTime};

use crate::client::Client;

/// Where the tests' wall clock starts.
pub const START_MS: i64 = 1_700_000_000_000;

#[derive(Debug)]
struct TokioClock(tokio::time::Instant);

impl Clock for TokioClock {
    fn monotonic(&self) -> Monotonic {
        Monotonic::from_origin(self.0.elapsed())
    }

    fn wall(&self) -> WallTime {
        let ms = i64::try_from(self.0.elapsed().as_millis()).unwrap();
        WallTime::from_epoch_ms(START_MS + ms)
    }
}

pub fn host() -> Host {
    Host {
        clock: Arc::new(TokioClock(tokio::time::Instant::now())),
        blocking: Blocking::Inline,
        ..host::os::host()
    }
}

pub struct World {
    pub queen: Queen,
    pub client: Client,
}

impl World {
    pub async fn new(options: Options) -> Self {
        Self::on(host(), options).await
    }

    pub async fn on(host: Host, options: Options) -> Self {
        let queen = Queen::start(host, options).await.unwrap();
        let (connector, listener) = host::pipe::pipe(64 << 10);
        queen.serve(Box::new(listener));
        Self {
            queen,
            client: Client(Arc::new(connector)),
        }
    }

    pub async fn default() -> Self {
        Self::new(Options::default()).await
    }
}

/// Without rate limits.
pub fn unlimited() -> Options {
    Options {
        kv_rates: None,
        ..Options::default()
    }
}
