//! A cell as a file describes it: clusters, plans, keys. JSON.

use host::Secret;
use host::text::cut;
use serde::{Deserialize, Deserializer};
use uuid::Uuid;

use super::cell::{self, Cell, Slug, Unknown};
use super::keys::{KeyId, Scope, Scopes};
use super::plan::Plan;
use crate::ids::TenantId;

/// What a cell holds.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CellFile {
    #[serde(default)]
    shared_hosts: Vec<String>,
    clusters: Vec<ClusterRow>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct ClusterRow {
    slug: String,
    tenant: Uuid,
    #[serde(default)]
    plan: Plan,
    #[serde(default)]
    frozen: bool,
    #[serde(default)]
    keys: Vec<KeyRow>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct KeyRow {
    id: KeyId,
    #[serde(deserialize_with = "secret")]
    key: Secret<String>,
    scopes: Vec<Scope>,
    #[serde(default)]
    expires_at_ms: Option<i64>,
}

fn secret<'de, D: Deserializer<'de>>(from: D) -> Result<Secret<String>, D::Error> {
    String::deserialize(from).map(Secret::new)
}

/// The file isn't a cell.
#[derive(Debug, thiserror::Error)]
pub enum FileError {
    /// Not read as JSON of that shape. The text names the place, not what stands there.
    #[error("not a cell, at line {line}, column {column}")]
    Shape {
        /// From 1.
        line: usize,
        /// From 1.
        column: usize,
    },
    /// It can't be the first label of a host.
    #[error("a cluster's slug has 1 to 63 of a-z, 0-9 and '-'; {0:?} is none")]
    Slug(String),
    /// Two clusters are reached by one host, so one of them would get the other's data.
    #[error("cluster {0} is there twice; case doesn't count")]
    ClusterTwice(String),
    /// Two keys have one id, or one secret would be two keys'.
    #[error("key {0} is there twice")]
    Twice(String),
}

impl CellFile {
    /// Reads a file.
    ///
    /// # Errors
    /// [`FileError`].
    pub fn parse(text: &[u8]) -> Result<Self, FileError> {
        let file: Self = serde_json::from_slice(text).map_err(|error| FileError::Shape {
            line: error.line(),
            column: error.column(),
        })?;
        let mut slugs = std::collections::BTreeSet::new();
        for ClusterRow { slug, .. } in &file.clusters {
            let in_labels = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-';
            if slug.is_empty() || slug.len() > 63 || !slug.bytes().all(in_labels) {
                return Err(FileError::Slug(cut(slug, 63).into_owned()));
            }
            if !slugs.insert(Slug::from(slug.as_str())) {
                return Err(FileError::ClusterTwice(slug.clone()));
            }
        }
        let mut seen = std::collections::BTreeSet::new();
        let mut secrets = std::collections::BTreeSet::new();
        for row in file.clusters.iter().flat_map(|cluster| &cluster.keys) {
            if !seen.insert(&row.id) || !secrets.insert(row.key.expose()) {
                return Err(FileError::Twice(cut(&row.id.0, 64).into_owned()));
            }
        }
        Ok(file)
    }

    /// Makes `cell` what the file says: keys that it doesn't name are revoked, clusters stay with
    /// their counts.
    ///
    /// # Errors
    /// None in a file that was parsed.
    pub fn apply(self, cell: &Cell) -> Result<(), Unknown> {
        for host in &self.shared_hosts {
            cell.share_host(host);
        }
        let mut keys = Vec::new();
        for cluster in self.clusters {
            let slug = Slug::from(cluster.slug.as_str());
            cell.add_cluster(slug.clone(), TenantId(cluster.tenant), cluster.plan);
            cell.freeze(slug.clone(), cluster.frozen)?;
            keys.extend(cluster.keys.into_iter().map(|row| cell::KeyRow {
                id: row.id,
                cluster: slug.clone(),
                scopes: Scopes::of(&row.scopes),
                expires_ms: row.expires_at_ms,
                secret: row.key,
            }));
        }
        cell.replace_keys(keys)
    }
}
