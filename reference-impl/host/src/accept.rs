//! Accepts connections behind a gate, one task each, until the node drains.

use std::io::ErrorKind;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::sleep;

use crate::clock::Clock;
use crate::gate::{Gate, Slot, Standing};
use crate::net::{BoxStream, Listener};
use crate::sampled::Sampler;
use crate::shutdown::Shutdown;

/// The wait after a failed accept: long enough for a file descriptor to come back.
const AFTER_ERROR: Duration = Duration::from_millis(50);

/// How a listener admits.
#[derive(Clone, Debug)]
pub struct Admission {
    /// The bounds.
    pub gate: Gate,
    /// What a connection counts as when it is accepted.
    pub standing: Standing,
    /// How long a connection may stay [`Standing::Unauthenticated`].
    pub auth_timeout: Duration,
}

/// Serves every connection that the gate admits with `serve`, each in a task of its own, until the
/// node drains; then the listener is closed, and the tasks end with `serve` or when the node is
/// closed. A connection the gate refuses is closed at once, without an answer.
pub async fn accept<S, F>(
    mut listener: Box<dyn Listener>,
    admission: Admission,
    clock: Arc<dyn Clock>,
    shutdown: Shutdown,
    mut serve: S,
) where
    S: FnMut(BoxStream, Slot) -> F,
    F: Future<Output = ()> + Send + 'static,
{
    let (refused, failed) = (Sampler::default(), Sampler::default());
    loop {
        let accepted = tokio::select! {
            biased;
            () = shutdown.draining() => return,
            accepted = listener.accept() => accepted,
        };
        let stream = match accepted {
            Ok(stream) => stream,
            // A peer that was gone before it was accepted is no reason to let the others wait.
            Err(error)
                if matches!(
                    error.kind(),
                    ErrorKind::ConnectionAborted
                        | ErrorKind::ConnectionReset
                        | ErrorKind::Interrupted
                ) =>
            {
                continue;
            }
            Err(error) => {
                if let Some(suppressed) = failed.pass(clock.monotonic()) {
                    tracing::warn!(%error, suppressed, "a connection could not be accepted");
                }
                sleep(AFTER_ERROR).await;
                continue;
            }
        };
        let peer = stream.peer_addr();
        match admission.gate.admit(peer.ip(), admission.standing) {
            Ok(slot) => {
                let late = late(&slot, admission.auth_timeout);
                let serving = serve(stream, slot);
                let shutdown = shutdown.clone();
                tokio::spawn(async move {
                    let _guard = shutdown.guard();
                    tokio::select! {
                        biased;
                        () = serving => {}
                        () = late => tracing::debug!(%peer, "did not authenticate in time"),
                        () = shutdown.closed() => {}
                    }
                });
            }
            Err(reason) => {
                if let Some(suppressed) = refused.pass(clock.monotonic()) {
                    tracing::warn!(%peer, %reason, suppressed, "a connection was refused");
                }
            }
        }
    }
}

/// Ends when the connection has had its time and has not authenticated.
fn late(slot: &Slot, auth_timeout: Duration) -> impl Future<Output = ()> + Send + 'static {
    let stranger = slot.stranger();
    async move {
        match stranger {
            Some(stranger) => {
                sleep(auth_timeout).await;
                if stranger.has_authenticated() {
                    std::future::pending().await
                }
            }
            None => std::future::pending().await,
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::task::JoinHandle;

    use super::*;
    use crate::gate::{GateLimits, GateMetrics};
    use crate::net::Connect;
    use crate::os::OsClock;
    use crate::pipe::{PipeConnector, pipe};
    use crate::shutdown::{Trigger, shutdown};

    const AUTH: Duration = Duration::from_secs(10);

    /// Serves an echo; a first byte of `!` authenticates.
    fn start(standing: Standing) -> (PipeConnector, Trigger, JoinHandle<()>) {
        let (connector, listener) = pipe(64);
        let (trigger, shutdown) = shutdown();
        let limits = GateLimits {
            max_connections: 2,
            max_unauthenticated: 2,
            max_per_address: None,
        };
        let admission = Admission {
            gate: Gate::new(limits, GateMetrics::default()),
            standing,
            auth_timeout: AUTH,
        };
        let serve = |mut stream: BoxStream, mut slot: Slot| async move {
            let mut byte = [0];
            while stream.read_exact(&mut byte).await.is_ok() {
                if byte == *b"!" {
                    slot.authenticated();
                }
                stream.write_all(&byte).await.unwrap();
            }
        };
        let clock = Arc::new(OsClock::new());
        let accepting = accept(Box::new(listener), admission, clock, shutdown, serve);
        (connector, trigger, tokio::spawn(accepting))
    }

    async fn echoes(stream: &mut BoxStream, byte: u8) -> bool {
        let mut answer = [0];
        stream.write_all(&[byte]).await.is_ok() && stream.read_exact(&mut answer).await.is_ok()
    }

    #[tokio::test(start_paused = true)]
    async fn past_the_bound_a_connection_closes_at_once_and_others_do_not_notice() {
        let (connector, _trigger, _accepting) = start(Standing::Authenticated);
        let mut first = connector.connect().await.unwrap();
        let mut second = connector.connect().await.unwrap();
        assert!(echoes(&mut first, b'a').await && echoes(&mut second, b'b').await);
        let mut third = connector.connect().await.unwrap();
        assert!(!echoes(&mut third, b'c').await);
        drop(first);
        tokio::task::yield_now().await;
        let mut fourth = connector.connect().await.unwrap();
        assert!(echoes(&mut second, b'b').await && echoes(&mut fourth, b'd').await);
    }

    #[tokio::test(start_paused = true)]
    async fn a_stranger_has_a_deadline_and_who_authenticates_has_none() {
        let (connector, _trigger, _accepting) = start(Standing::Unauthenticated);
        let mut stranger = connector.connect().await.unwrap();
        let mut friend = connector.connect().await.unwrap();
        assert!(echoes(&mut friend, b'!').await);
        let started = tokio::time::Instant::now();
        assert_eq!(stranger.read(&mut [0]).await.unwrap(), 0);
        assert_eq!(started.elapsed(), AUTH);
        tokio::time::sleep(AUTH).await;
        assert!(echoes(&mut friend, b'a').await);
    }

    #[tokio::test(start_paused = true)]
    async fn a_stop_closes_the_listener_first_and_the_connections_after_the_drain() {
        let (connector, trigger, accepting) = start(Standing::Authenticated);
        let mut open = connector.connect().await.unwrap();
        assert!(echoes(&mut open, b'a').await);
        let stopping = tokio::spawn(trigger.stop(Duration::from_secs(2)));
        accepting.await.unwrap();
        assert!(connector.connect().await.is_err());
        assert!(echoes(&mut open, b'a').await, "still served while draining");
        assert!(!stopping.await.unwrap());
        assert!(!echoes(&mut open, b'a').await);
    }
}
