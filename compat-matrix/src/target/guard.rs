//! What makes nodes secure: certificates of an authority of their own, SASL/PLAIN, and a Queen that
//! asks for tokens.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use fake_queen::auth::Key;
use host::Secret;
use host::entropy::Entropy as _;
use host::os::OsEntropy;
use serde_json::json;

use super::authority::{Authority, Issued};
use super::queen::{QueenOptions, QueenProcess};
use crate::spec::Stop;
use crate::wire::{Access, Credentials, Security, Trust};

/// Who the clients of checks are.
const USERNAME: &str = "compat-matrix";
/// How long their tokens last: far longer than a run.
const TOKEN_LASTS: Duration = Duration::from_secs(24 * 3600);

/// The secrets of one target.
#[derive(Debug)]
pub struct Guard {
    authority: Arc<Authority>,
    key: Key,
    secret: Secret<String>,
    secret_file: PathBuf,
    token: Secret<String>,
    /// Tokens that were given out.
    given: Mutex<Vec<Secret<String>>>,
}

/// The files of a node's certificate.
#[derive(Clone, Debug)]
struct Certificate {
    folder: PathBuf,
}

fn failed(error: impl std::fmt::Display) -> Stop {
    Stop::fail(format!("no secure node: {error}"))
}

impl Guard {
    pub(super) fn new(authority: Arc<Authority>, folder: &Path) -> Result<Self, Stop> {
        let mut random = [0; 24];
        OsEntropy.fill(&mut random);
        let secret: String = random.iter().map(|byte| format!("{byte:02x}")).collect();
        let secret_file = folder.join("jwt-secret");
        std::fs::write(&secret_file, &secret).map_err(failed)?;
        let key = Key::new(secret.as_bytes());
        let token = sign(&key, "admin", Some(TOKEN_LASTS));
        Ok(Self {
            authority,
            key,
            secret: Secret::new(secret),
            secret_file,
            token,
            given: Mutex::default(),
        })
    }

    /// What clients need.
    pub fn security(&self) -> Result<Security, Stop> {
        Ok(Security {
            tls: Some(Trust::of_file(self.authority.file()).map_err(failed)?),
            sasl: Some(self.credentials()),
        })
    }

    /// Somebody who may do everything.
    pub fn credentials(&self) -> Credentials {
        self.with_token(self.token.clone())
    }

    /// Somebody with the rights of `role`, for so long.
    pub fn somebody(&self, role: &str, lasts: Option<Duration>) -> Credentials {
        self.with_token(sign(&self.key, role, lasts))
    }

    /// Somebody whose token Queen does not know.
    pub fn nobody(&self) -> Credentials {
        self.with_token(sign(&Key::new(b"of another Queen"), "admin", None))
    }

    fn with_token(&self, password: Secret<String>) -> Credentials {
        let mut given = self.given.lock().unwrap_or_else(PoisonError::into_inner);
        if !given.contains(&password) {
            given.push(password.clone());
        }
        Credentials {
            username: USERNAME.into(),
            password,
        }
    }

    /// What nobody may ever print.
    pub fn secrets(&self) -> Vec<Secret<String>> {
        // Tokens are pushed whole.
        let given = self.given.lock().unwrap_or_else(PoisonError::into_inner);
        let own = [&self.secret, &self.token];
        own.into_iter().chain(given.iter()).cloned().collect()
    }

    /// A Queen that asks for tokens, storing in `folder`, and the settings of a node over it.
    pub(super) async fn equip(
        &self,
        folder: &Path,
    ) -> Result<(QueenProcess, Vec<(String, String)>), Stop> {
        let asked = QueenOptions {
            dir: Some(folder.join("data")),
            jwt_secret_file: Some(self.secret_file.clone()),
            ..QueenOptions::default()
        };
        let queen = QueenProcess::start(&asked, Some(&folder.join("queen.log"))).await?;
        let certificate = Certificate::in_folder(folder);
        certificate.write(&self.authority.issue()?)?;
        let path = |file: PathBuf| file.display().to_string();
        let settings = [
            ("QUEEN_URL", format!("http://{}", queen.addr)),
            ("QUEEN_KAFKA_TLS_CERT", path(certificate.chain())),
            ("QUEEN_KAFKA_TLS_KEY", path(certificate.key())),
            ("QUEEN_KAFKA_SASL", "plain".into()),
        ];
        let settings = settings.map(|(name, value)| (name.to_owned(), value));
        Ok((queen, settings.into()))
    }

    /// Replaces a node's certificate by one of a new authority; answers how the node is spoken to by who
    /// trusts that one.
    ///
    /// # Errors
    ///
    /// Files that cannot be written.
    pub fn renew_by_another(&self, folder: &Path, node: &Access) -> Result<Access, Stop> {
        let another = folder.join("another");
        std::fs::create_dir_all(&another).map_err(failed)?;
        let another = Authority::new(&another)?;
        Certificate::in_folder(folder).write(&another.issue()?)?;
        let security = Security {
            tls: Some(Trust::of_file(another.file()).map_err(failed)?),
            sasl: node.security().sasl.clone(),
        };
        Ok(Access::new(node.address(), security))
    }
}

impl Certificate {
    fn in_folder(folder: &Path) -> Self {
        Self {
            folder: folder.to_path_buf(),
        }
    }

    fn chain(&self) -> PathBuf {
        self.folder.join("chain.pem")
    }

    fn key(&self) -> PathBuf {
        self.folder.join("key.pem")
    }

    fn write(&self, issued: &Issued) -> Result<(), Stop> {
        std::fs::write(self.chain(), &issued.chain).map_err(failed)?;
        std::fs::write(self.key(), issued.key.expose()).map_err(failed)
    }
}

fn sign(key: &Key, role: &str, lasts: Option<Duration>) -> Secret<String> {
    let mut claims = json!({"role": role, "sub": USERNAME});
    if let Some(lasts) = lasts {
        let now = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .unwrap_or_default();
        claims["exp"] = json!((now + lasts).as_secs_f64());
    }
    Secret::new(key.sign(&claims))
}
