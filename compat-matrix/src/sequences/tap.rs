//! A tap on the way to a node: forwards every byte, and notes the header of every request.

use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use fixtures::sequences::Sequence;
use host::Listener;
use kafka_wire::ApiKey;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

/// The largest request of these flows, with room to spare.
const MAX_REQUEST_BYTES: usize = 1 << 20;

/// A tap.
#[derive(Debug)]
pub(super) struct Tap {
    sequence: Arc<Mutex<Sequence>>,
}

fn lock(sequence: &Mutex<Sequence>) -> MutexGuard<'_, Sequence> {
    sequence.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Tap {
    /// Listens on `address` and forwards to `node`.
    pub(super) async fn open(address: &str, node: &str) -> io::Result<Self> {
        let invalid = |_| io::Error::from(io::ErrorKind::InvalidInput);
        let (host, port) = node
            .rsplit_once(':')
            .ok_or(io::Error::from(io::ErrorKind::InvalidInput))?;
        let port: u16 = port.parse().map_err(|_| io::ErrorKind::InvalidInput)?;
        let machine = host::os::host();
        let listener = machine.net.bind(address.parse().map_err(invalid)?).await?;
        let sequence = Arc::default();
        let accepting = accept(
            listener,
            machine,
            (host.to_owned(), port),
            Arc::clone(&sequence),
        );
        tokio::spawn(accepting);
        Ok(Self { sequence })
    }

    /// Forgets what was noted.
    pub(super) fn begin(&self) {
        *lock(&self.sequence) = Sequence::default();
    }

    /// What was noted since.
    pub(super) fn end(&self) -> Vec<String> {
        std::mem::take(&mut *lock(&self.sequence)).lines()
    }
}

async fn accept(
    mut listener: Box<dyn Listener>,
    machine: host::Host,
    (host, port): (String, u16),
    sequence: Arc<Mutex<Sequence>>,
) {
    let connections = Arc::new(AtomicU64::new(0));
    while let Ok(client) = listener.accept().await {
        let Ok(node) = machine.net.connect(&host, port).await else {
            continue;
        };
        let number = connections.fetch_add(1, Ordering::Relaxed);
        let (from_client, to_client) = tokio::io::split(client);
        let (from_node, to_node) = tokio::io::split(node);
        let sequence = Arc::clone(&sequence);
        // Either end may go first: then the connection is over.
        tokio::spawn(async move {
            tokio::select! {
                _ = requests(from_client, to_node, number, &sequence) => {}
                _ = answers(from_node, to_client) => {}
            }
        });
    }
}

async fn requests(
    mut from: impl AsyncRead + Unpin,
    mut to: impl AsyncWrite + Unpin,
    connection: u64,
    sequence: &Mutex<Sequence>,
) -> io::Result<()> {
    loop {
        let length = from.read_i32().await?;
        let size = usize::try_from(length).unwrap_or(usize::MAX);
        if !(4..=MAX_REQUEST_BYTES).contains(&size) {
            return Err(io::ErrorKind::InvalidData.into());
        }
        let mut frame = vec![0; size];
        from.read_exact(&mut frame).await?;
        let key = ApiKey(i16::from_be_bytes([frame[0], frame[1]]));
        let version = i16::from_be_bytes([frame[2], frame[3]]);
        lock(sequence).push(connection, &key.to_string(), version);
        to.write_i32(length).await?;
        to.write_all(&frame).await?;
    }
}

async fn answers(
    mut from: impl AsyncRead + Unpin,
    mut to: impl AsyncWrite + Unpin,
) -> io::Result<()> {
    tokio::io::copy(&mut from, &mut to).await?;
    Ok(())
}
