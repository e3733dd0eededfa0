//! The certificate and key of the listener, from files: read at boot, and again when they change.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use host::files::{self, FileError};
use host::tls::{Acceptor, Identity, IdentityError};
use host::{Host, Secret};
use tokio::sync::Notify;

/// How often the files are looked at.
pub const LOOK_EVERY: Duration = Duration::from_secs(10);
/// The largest file that is read: a chain of a few certificates has some kilobytes.
const MAX_FILE_BYTES: u64 = 1 << 20;

/// Where the listener's certificate and key are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlsFiles {
    /// PEM chain, leaf first.
    pub cert: PathBuf,
    /// PEM key.
    pub key: PathBuf,
}

/// Why the files cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum TlsFilesError {
    /// The chain's file cannot be read.
    #[error("{0}")]
    Cert(FileError),
    /// The key's file cannot be read.
    #[error("{0}")]
    Key(FileError),
    /// They are no identity.
    #[error("{0}")]
    Identity(#[from] IdentityError),
}

impl TlsFilesError {
    /// Whether the key's file is at fault rather than the chain's.
    pub fn is_of_key(&self) -> bool {
        match self {
            Self::Cert(_) => false,
            Self::Key(_) => true,
            Self::Identity(error) => error.is_of_key(),
        }
    }
}

/// What the two files hold.
type Contents = (Vec<u8>, Secret<Vec<u8>>);

impl TlsFiles {
    /// Reads both. Blocks.
    ///
    /// # Errors
    ///
    /// [`TlsFilesError`].
    pub fn load(&self) -> Result<Identity, TlsFilesError> {
        let (cert, key) = self.read()?;
        Ok(Identity::from_pem(&cert, &key)?)
    }

    fn read(&self) -> Result<Contents, TlsFilesError> {
        let cert = files::read(&self.cert, MAX_FILE_BYTES).map_err(TlsFilesError::Cert)?;
        let key = files::read(&self.key, MAX_FILE_BYTES).map_err(TlsFilesError::Key)?;
        Ok((cert, Secret::new(key)))
    }
}

/// Gives `acceptor` what the files hold whenever that has changed, and when `asked` says to look
/// now. Files that are no identity (half of a pair was written) leave the old one in place.
pub async fn follow(files: TlsFiles, acceptor: Acceptor, host: Host, asked: Arc<Notify>) {
    let mut seen: Option<Contents> = None;
    let mut told: Option<String> = None;
    loop {
        let by_signal = tokio::select! {
            biased;
            () = asked.notified() => true,
            () = tokio::time::sleep(LOOK_EVERY) => false,
        };
        let reading = files.clone();
        let loaded = match host.blocking.run(move || reading.read()).await {
            Ok(contents) if seen.as_ref() == Some(&contents) && !by_signal => continue,
            Ok(contents) => {
                let identity = Identity::from_pem(&contents.0, &contents.1);
                let first = seen.replace(contents).is_none();
                identity
                    .map(|identity| (identity, first))
                    .map_err(Into::into)
            }
            Err(error) => Err(error),
        };
        match loaded {
            Ok((identity, first)) => {
                acceptor.replace(identity);
                // The first look finds what was read at boot.
                if by_signal || !first {
                    tracing::info!("TLS certificate reloaded");
                }
                told = None;
            }
            Err(error) => tell(&files, &error, by_signal, &mut told),
        }
    }
}

/// Says what is wrong once, and again whenever it was asked for.
fn tell(files: &TlsFiles, error: &TlsFilesError, by_signal: bool, told: &mut Option<String>) {
    let text = error.to_string();
    if by_signal || told.as_ref() != Some(&text) {
        let file = if error.is_of_key() {
            &files.key
        } else {
            &files.cert
        };
        tracing::warn!(
            file = %file.display(), %error,
            "TLS certificate not reloaded, the one in use stays"
        );
    }
    *told = Some(text);
}

#[cfg(test)]
mod tests {
    use host::Connect;
    use host::pipe::pipe;
    use host::tls::{Roots, TlsConnect};

    use super::*;

    fn write(files: &TlsFiles) -> String {
        let made = rcgen::generate_simple_self_signed(["a.test".to_owned()]).unwrap();
        std::fs::write(&files.key, made.signing_key.serialize_pem()).unwrap();
        std::fs::write(&files.cert, made.cert.pem()).unwrap();
        made.cert.pem()
    }

    #[tokio::test(start_paused = true)]
    async fn files_are_followed_and_a_bad_pair_changes_nothing() {
        let directory = tempfile::tempdir().unwrap();
        let files = TlsFiles {
            cert: directory.path().join("chain.pem"),
            key: directory.path().join("key.pem"),
        };
        assert!(!files.load().unwrap_err().is_of_key());
        let first = write(&files);
        let host = Host {
            blocking: host::blocking::Blocking::Inline,
            ..host::os::host()
        };
        let acceptor = Acceptor::new(files.load().unwrap(), Arc::clone(&host.clock));
        let (connector, mut listener) = pipe(4096);
        let accepting = acceptor.clone();
        tokio::spawn(async move {
            let mut open = Vec::new();
            while let Ok(stream) = host::Listener::accept(&mut listener).await {
                open.push(accepting.accept(stream).await.ok());
            }
        });
        let asked = Arc::new(Notify::new());
        let following = follow(files.clone(), acceptor, host.clone(), Arc::clone(&asked));
        tokio::spawn(following);
        let trusts = async |chain: &str| {
            let roots = Roots::from_pem(chain.as_bytes()).unwrap();
            let clock = Arc::clone(&host.clock);
            let connect = TlsConnect::new(Arc::new(connector.clone()), "a.test", &roots, clock);
            connect.unwrap().connect().await.is_ok()
        };
        assert!(trusts(&first).await);
        std::fs::write(&files.cert, "half").unwrap();
        tokio::time::sleep(LOOK_EVERY * 2).await;
        assert!(trusts(&first).await, "a bad pair changes nothing");
        let second = write(&files);
        tokio::time::sleep(LOOK_EVERY * 2).await;
        assert!(trusts(&second).await && !trusts(&first).await);
        let third = write(&files);
        asked.notify_one();
        tokio::time::sleep(Duration::from_millis(1)).await;
        assert!(trusts(&third).await, "a signal does not wait");
    }
}
