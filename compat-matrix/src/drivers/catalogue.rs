//! Which clients there are, and whether this machine can run them.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt as _;
use serde::Deserialize;

use super::Driver;
use super::librdkafka::Librdkafka;
use super::process::{Launch, ProcessDriver};

/// The pinned clients.
const VERSIONS: &str = include_str!("../../drivers/versions.toml");
/// The folder of built drivers, when it is not [`default_home`].
const HOME_VARIABLE: &str = "KASTELLAN_DRIVERS";
/// The command line's word for every client.
pub const EVERY: &str = "all";
/// Drivers that are started at once to see whether they work.
const PROBED_AT_ONCE: usize = 4;

/// A client that checks run with.
#[derive(Clone, Debug)]
pub struct Client {
    /// Its id in check ids and on the command line: `java-4.4`.
    pub id: String,
    /// Name and version, as reports show them: `kafka-clients 4.4.0`.
    pub label: String,
    /// The driver, or why there is none here.
    pub driver: Result<Arc<dyn Driver>, String>,
}

impl Client {
    /// What starting it may cost a check.
    pub fn starts_within(&self) -> Duration {
        self.driver
            .as_ref()
            .map_or(Duration::ZERO, |driver| driver.starts_within())
    }
}

/// All clients that are known.
#[derive(Clone, Debug)]
pub struct Catalogue {
    home: PathBuf,
    entries: Vec<Entry>,
}

#[derive(Clone, Debug)]
enum Entry {
    /// librdkafka, linked into this program.
    InProcess,
    Pinned(Pinned),
}

/// One `[[client]]` of the file. How it is built is its builder's business.
#[derive(Clone, Debug, Deserialize)]
struct Pinned {
    id: String,
    client: String,
    version: String,
    /// Programs that must be on the PATH to build or run it.
    #[serde(default)]
    needs: Vec<String>,
}

#[derive(Debug, Default, Deserialize)]
struct File {
    #[serde(default)]
    client: Vec<Pinned>,
}

/// Why clients cannot be chosen.
#[derive(Debug, thiserror::Error)]
pub enum CatalogueError {
    /// The file of pinned clients is not one.
    #[error("drivers/versions.toml: {0}")]
    Versions(Box<toml::de::Error>),
    /// A name that is no client's.
    #[error("no client is called {name}; there are {known}")]
    Unknown {
        /// As given.
        name: String,
        /// The ids, with commas.
        known: String,
    },
}

/// The id of librdkafka in this process.
pub const LIBRDKAFKA: &str = "librdkafka";

impl Catalogue {
    /// The clients that this program was built for.
    ///
    /// # Errors
    ///
    /// A file of pinned clients that does not parse.
    pub fn built_in() -> Result<Self, CatalogueError> {
        let home = std::env::var_os(HOME_VARIABLE).map_or_else(default_home, PathBuf::from);
        Self::parse(VERSIONS, home)
    }

    fn parse(versions: &str, home: PathBuf) -> Result<Self, CatalogueError> {
        let file: File = toml::from_str(versions)
            .map_err(|source| CatalogueError::Versions(Box::new(source)))?;
        Ok(Self {
            home,
            entries: std::iter::once(Entry::InProcess)
                .chain(file.client.into_iter().map(Entry::Pinned))
                .collect(),
        })
    }

    /// The ids, in the order of the file.
    pub fn ids(&self) -> impl Iterator<Item = &str> {
        self.entries.iter().map(Entry::id)
    }

    /// The clients that `names` ask for: ids, `java` for every `java-…`, or `all`.
    ///
    /// # Errors
    ///
    /// A name that is no client's.
    pub fn choose(&self, names: &[&str]) -> Result<Self, CatalogueError> {
        let fits = |name: &str, id: &str| {
            name == EVERY
                || id
                    .strip_prefix(name)
                    .is_some_and(|rest| rest.is_empty() || rest.starts_with('-'))
        };
        if let Some(name) = names
            .iter()
            .find(|name| !self.ids().any(|id| fits(name, id)))
        {
            return Err(CatalogueError::Unknown {
                name: (*name).to_owned(),
                known: self.ids().collect::<Vec<_>>().join(", "),
            });
        }
        Ok(Self {
            home: self.home.clone(),
            entries: self
                .entries
                .iter()
                .filter(|entry| names.iter().any(|name| fits(name, entry.id())))
                .cloned()
                .collect(),
        })
    }

    /// Starts each driver once to see whether it works.
    pub async fn ready(&self) -> Vec<Client> {
        futures::stream::iter(&self.entries)
            .map(|entry| entry.ready(&self.home))
            .buffered(PROBED_AT_ONCE)
            .collect()
            .await
    }
}

/// `$XDG_CACHE_HOME/kastellan/drivers`, or in `~/.cache`: built once, used by every clone.
fn default_home() -> PathBuf {
    std::env::var_os("XDG_CACHE_HOME")
        .filter(|home| !home.is_empty())
        .map(PathBuf::from)
        .or_else(|| std::env::var_os("HOME").map(|home| PathBuf::from(home).join(".cache")))
        .unwrap_or_default()
        .join("kastellan")
        .join("drivers")
}

impl Entry {
    fn id(&self) -> &str {
        match self {
            Self::InProcess => LIBRDKAFKA,
            Self::Pinned(pinned) => &pinned.id,
        }
    }

    async fn ready(&self, home: &std::path::Path) -> Client {
        match self {
            Self::InProcess => {
                let driver = Librdkafka::new();
                Client {
                    id: LIBRDKAFKA.into(),
                    label: driver.label().to_owned(),
                    driver: Ok(Arc::new(driver)),
                }
            }
            Self::Pinned(pinned) => {
                let driver = pinned.start(home).await;
                Client {
                    id: pinned.id.clone(),
                    label: format!("{} {}", pinned.client, pinned.version),
                    driver: driver.map(|driver| Arc::new(driver) as Arc<dyn Driver>),
                }
            }
        }
    }
}

impl Pinned {
    /// The driver of the pinned client and no other.
    async fn start(&self, home: &std::path::Path) -> Result<ProcessDriver, String> {
        if let Some(absent) = self.needs.iter().find(|program| !on_path(program)) {
            return Err(format!("{absent} is not installed"));
        }
        let program = home.join(&self.id).join("run");
        if !program.is_file() {
            return Err(format!("not built: run ci/drivers {}", self.id));
        }
        let driver = ProcessDriver::start(Launch {
            program,
            arguments: Vec::new(),
        })
        .await?;
        let hello = driver.hello();
        if (&hello.client, &hello.version) != (&self.client, &self.version) {
            return Err(format!(
                "built with {} {}, but {} {} is pinned: run ci/drivers {}",
                hello.client, hello.version, self.client, self.version, self.id
            ));
        }
        Ok(driver)
    }
}

fn on_path(program: &str) -> bool {
    std::env::var_os("PATH").is_some_and(|path| {
        std::env::split_paths(&path).any(|folder| folder.join(program).is_file())
    })
}

#[cfg(test)]
mod tests {
    use super::{Catalogue, CatalogueError};

    const FILE: &str = r#"
        [[client]]
        id = "java-4.4"
        client = "kafka-clients"
        version = "4.4.0"
        needs = ["sh"]
        build = { any = "thing" }

        [[client]]
        id = "java-2.8"
        client = "kafka-clients"
        version = "2.8.2"
        needs = ["no-such-program-anywhere"]

        [[client]]
        id = "javascript"
        client = "kafkajs"
        version = "2.2.4"
    "#;

    fn ids(names: &[&str]) -> Vec<String> {
        let catalogue = Catalogue::parse(FILE, "/no/such/home".into()).unwrap();
        let chosen = catalogue.choose(names).unwrap();
        chosen.ids().map(String::from).collect()
    }

    #[test]
    fn names_are_ids_or_families_or_all() {
        assert_eq!(ids(&["java-4.4"]), ["java-4.4"]);
        assert_eq!(ids(&["java"]), ["java-4.4", "java-2.8"]);
        assert_eq!(
            ids(&["javascript", "librdkafka"]),
            ["librdkafka", "javascript"]
        );
        assert_eq!(ids(&["all"]).len(), 4);
        let catalogue = Catalogue::parse(FILE, "/".into()).unwrap();
        assert!(matches!(
            catalogue.choose(&["jav"]),
            Err(CatalogueError::Unknown { name, .. }) if name == "jav"
        ));
    }

    #[tokio::test]
    async fn who_cannot_run_here_says_why() {
        let catalogue = Catalogue::parse(FILE, "/no/such/home".into()).unwrap();
        let clients = catalogue.choose(&["java"]).unwrap().ready().await;
        let reasons: Vec<String> = clients
            .iter()
            .map(|client| client.driver.as_ref().err().cloned().unwrap())
            .collect();
        assert_eq!(
            reasons,
            [
                "not built: run ci/drivers java-4.4",
                "no-such-program-anywhere is not installed"
            ]
        );
        assert_eq!(clients[0].label, "kafka-clients 4.4.0");
    }

    #[test]
    fn the_pinned_clients_have_ids_of_their_own_that_fit_a_path() {
        let catalogue = Catalogue::built_in().unwrap();
        let ids: std::collections::BTreeSet<&str> = catalogue.ids().collect();
        assert_eq!(ids.len(), catalogue.ids().count());
        assert!(ids.iter().all(|id| {
            id.chars()
                .all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || ".-".contains(c))
        }));
    }
}
