//! Calls to the broker behind the proxy: kept connections, one exchange on each at a time.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use host::{Connect, Secret};
use http::{HeaderValue, Request, Response};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::client::conn::http1::{self, SendRequest};
use hyper_util::rt::TokioIo;

use super::refusal::Refusal;

/// Connections kept for the next call.
const MAX_KEPT: usize = 64;

/// How the broker is reached.
#[derive(Debug)]
pub struct Upstream {
    connect: Arc<dyn Connect>,
    /// What stands before each path; empty, or `/` and more without a slash at its end.
    pub(super) base_path: String,
    pub(super) authority: HeaderValue,
    /// The cell's own credential.
    pub(super) token: Option<Secret<HeaderValue>>,
    timeout: Duration,
    kept: Mutex<Vec<SendRequest<Full<Bytes>>>>,
}

impl Upstream {
    pub(super) fn new(
        connect: Arc<dyn Connect>,
        authority: HeaderValue,
        base_path: String,
        token: Option<Secret<HeaderValue>>,
        timeout: Duration,
    ) -> Self {
        Self {
            connect,
            base_path,
            authority,
            token,
            timeout,
            kept: Mutex::default(),
        }
    }

    /// The head of the answer; its body may still be coming.
    pub(super) async fn call(
        &self,
        request: Request<Full<Bytes>>,
    ) -> Result<Response<Incoming>, Refusal> {
        tokio::time::timeout(self.timeout, self.exchange(request))
            .await
            .map_err(|_| Refusal::Timeout)?
    }

    async fn exchange(&self, request: Request<Full<Bytes>>) -> Result<Response<Incoming>, Refusal> {
        let mut request = request;
        // A kept connection that closed before it took the request gives it back.
        while let Some(mut sender) = self.take_kept() {
            match sender.try_send_request(request).await {
                Ok(response) => {
                    self.keep(sender);
                    return Ok(response);
                }
                Err(mut failed) => match failed.take_message() {
                    Some(unsent) => request = unsent,
                    None => return Err(Refusal::BadGateway),
                },
            }
        }
        let stream = self
            .connect
            .connect()
            .await
            .map_err(|_| Refusal::BadGateway)?;
        let (mut sender, connection) = http1::handshake(TokioIo::new(stream))
            .await
            .map_err(|_| Refusal::BadGateway)?;
        tokio::spawn(async move {
            if let Err(error) = connection.await {
                tracing::trace!(%error, "connection to the broker ended");
            }
        });
        let response = sender
            .send_request(request)
            .await
            .map_err(|_| Refusal::BadGateway)?;
        self.keep(sender);
        Ok(response)
    }

    /// One whose last answer has been read to its end.
    fn take_kept(&self) -> Option<SendRequest<Full<Bytes>>> {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        kept.retain(|sender| !sender.is_closed());
        let at = kept.iter().position(SendRequest::is_ready)?;
        Some(kept.swap_remove(at))
    }

    fn keep(&self, sender: SendRequest<Full<Bytes>>) {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        if kept.len() < MAX_KEPT {
            kept.push(sender);
        }
    }
}
