//! What makes a node a cell's: a Queen of tenants behind its proxy, and the tenants' keys as passwords.

use std::path::{Path, PathBuf};

use host::Secret;
use host::entropy::Entropy as _;
use host::os::OsEntropy;
use serde_json::json;
use uuid::Uuid;

use super::queen::{QueenOptions, QueenProcess};
use crate::spec::Stop;
use crate::wire::{Credentials, Security};

/// What the facade calls the proxy, without its port: a host whose tenant the key tells.
const SHARED_HOST: &str = "127.0.0.1";
/// A cell asks for no user name.
const USERNAME: &str = "compat-matrix";

/// Which key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Key {
    /// May do everything for the tenant that checks work with.
    Owner,
    /// May only read of that tenant, and keep its place.
    Consumer,
    /// May only write to that tenant's topics.
    Producer,
    /// May do everything for another tenant of the same cell.
    Neighbour,
}

impl Key {
    const ALL: [Self; 4] = [Self::Owner, Self::Consumer, Self::Producer, Self::Neighbour];

    const fn scopes(self) -> &'static [&'static str] {
        match self {
            Self::Owner | Self::Neighbour => &["produce", "consume", "admin", "read"],
            Self::Consumer => &["consume", "read"],
            Self::Producer => &["produce", "read"],
        }
    }
}

/// The tenants of one target's cells, each cell with the same keys.
#[derive(Debug)]
pub struct Tenants {
    cell_file: PathBuf,
    tenants: [Uuid; 2],
    passwords: [Secret<String>; Key::ALL.len()],
}

fn failed(error: impl std::fmt::Display) -> Stop {
    Stop::fail(format!("no cell: {error}"))
}

impl Tenants {
    pub(super) fn new(folder: &Path) -> Result<Self, Stop> {
        let tenants = [Uuid::from_bytes(random()), Uuid::from_bytes(random())];
        let passwords = Key::ALL.map(|_| {
            let bytes: [u8; 24] = random();
            let text: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
            Secret::new(format!("qk_test_{text}"))
        });
        let row = |key: Key| {
            json!({
                "id": format!("{key:?}"),
                "key": passwords[key as usize].expose(),
                "scopes": key.scopes(),
            })
        };
        let [own, other] = tenants;
        let cell = json!({
            "shared_hosts": [SHARED_HOST],
            "clusters": [
                {"slug": "own", "tenant": own,
                 "keys": [row(Key::Owner), row(Key::Consumer), row(Key::Producer)]},
                {"slug": "other", "tenant": other, "keys": [row(Key::Neighbour)]},
            ],
        });
        let cell_file = folder.join("cell.json");
        std::fs::write(&cell_file, cell.to_string()).map_err(failed)?;
        Ok(Self {
            cell_file,
            tenants,
            passwords,
        })
    }

    /// Who shows this key.
    pub fn credentials(&self, key: Key) -> Credentials {
        Credentials {
            username: USERNAME.into(),
            password: self.passwords[key as usize].clone(),
        }
    }

    /// What clients need.
    pub(super) fn security(&self) -> Security {
        Security {
            tls: None,
            sasl: Some(self.credentials(Key::Owner)),
        }
    }

    /// What nobody may ever print.
    pub(super) fn secrets(&self) -> Vec<Secret<String>> {
        self.passwords.to_vec()
    }

    /// A cell that stores in `folder`, and the settings of a node over it.
    pub(super) async fn equip(
        &self,
        folder: &Path,
    ) -> Result<(QueenProcess, Vec<(String, String)>), Stop> {
        let asked = QueenOptions {
            dir: Some(folder.join("data")),
            cell: Some(self.cell_file.clone()),
            kv_grant: self.tenants.to_vec(),
            ..QueenOptions::default()
        };
        let queen = QueenProcess::start(&asked, Some(&folder.join("queen.log"))).await?;
        let settings = [
            ("QUEEN_URL", format!("http://{}", queen.addr)),
            ("QUEEN_KAFKA_SASL", "plain".into()),
        ];
        let settings = settings.map(|(name, value)| (name.to_owned(), value));
        Ok((queen, settings.into()))
    }
}

fn random<const N: usize>() -> [u8; N] {
    let mut bytes = [0; N];
    OsEntropy.fill(&mut bytes);
    bytes
}

#[cfg(test)]
mod tests {
    use fake_queen::proxy::CellFile;

    use super::{Key, Tenants};

    #[test]
    fn the_file_is_a_cell_and_no_key_is_shown() {
        let folder = tempfile::tempdir().unwrap();
        let tenants = Tenants::new(folder.path()).unwrap();
        CellFile::parse(&std::fs::read(&tenants.cell_file).unwrap()).unwrap();
        let shown = format!("{tenants:?}");
        for key in Key::ALL {
            let secret = tenants.credentials(key).password;
            assert!(!shown.contains(secret.expose()), "{key:?}");
        }
        assert_ne!(tenants.tenants[0], tenants.tenants[1]);
        assert_ne!(
            tenants.credentials(Key::Owner),
            tenants.credentials(Key::Neighbour)
        );
    }
}
