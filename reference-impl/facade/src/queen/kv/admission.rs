//! Queen's limit of calls to its key/value store: what it admits later is called again later.

use std::time::Duration;

use bytes::Bytes;

use crate::queen::transport::Call;
use crate::queen::{Class, Client, Error};

/// How long a call waits in all for its turn. Below what a coordinator's clients wait for an answer,
/// above the second or two that Queen asks for when many calls came at once.
const MAX_ADMISSION_WAIT: Duration = Duration::from_secs(4);
/// Between two tries at least, whatever Queen asks for.
const MIN_PAUSE: Duration = Duration::from_millis(100);

impl Client {
    /// Makes `call` on a route that Queen admits by rate. A 429 applied nothing, so the call is made
    /// again after its `Retry-After`: a client that were told so would look for another coordinator.
    ///
    /// # Errors
    ///
    /// All of [`Error`]; [`Class::Throttled`] without a `Retry-After`, or with one that leads past
    /// [`MAX_ADMISSION_WAIT`].
    pub(super) async fn admitted(&self, call: Call<'_>) -> Result<Bytes, Error> {
        let mut left = MAX_ADMISSION_WAIT;
        loop {
            let error = match self.transport.call_held(&call).await {
                Err(error) if error.class() == Class::Throttled => error,
                ended => return ended.map(|(body, _)| body),
            };
            let Some(pause) = error.retry_after().map(|asked| asked.max(MIN_PAUSE)) else {
                return Err(error);
            };
            let Some(rest) = left.checked_sub(pause) else {
                return Err(error);
            };
            left = rest;
            tokio::time::sleep(pause).await;
        }
    }
}
