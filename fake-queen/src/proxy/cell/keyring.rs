//! A cell's keys: made, changed, ended, and recognised.

use std::time::Duration;

use host::Secret;

use super::{Caller, Cell, Inner, Slug, Unknown};
use crate::proxy::keys::{self, Digest, KeyId, Scopes};
use crate::proxy::refusal::Refusal;

#[derive(Clone, Debug)]
pub(super) struct Key {
    cluster: Slug,
    scopes: Scopes,
    expires_ms: Option<i64>,
}

/// A key whose secret the caller chose.
#[derive(Debug)]
pub(in crate::proxy) struct KeyRow {
    pub id: KeyId,
    pub cluster: Slug,
    pub scopes: Scopes,
    pub expires_ms: Option<i64>,
    pub secret: Secret<String>,
}

/// Whose secret it is, and until when it counts beside a newer one.
#[derive(Clone, Debug)]
pub(super) struct Owner {
    key: KeyId,
    until_ms: Option<i64>,
}

impl Cell {
    /// Makes a key with a secret of its own.
    ///
    /// # Errors
    /// [`Unknown`] cluster.
    pub fn issue(
        &self,
        cluster: impl Into<Slug>,
        scopes: Scopes,
    ) -> Result<(KeyId, Secret<String>), Unknown> {
        let secret = keys::new_secret(&*self.host.entropy, "test");
        let mut inner = self.lock();
        inner.issued += 1;
        let id = KeyId(format!("key-{}", inner.issued));
        inner.install(id.clone(), cluster.into(), scopes, None, &secret)?;
        Ok((id, secret))
    }

    /// Makes a key whose secret the caller chose. One of that id is replaced.
    ///
    /// # Errors
    /// [`Unknown`] cluster.
    pub fn install(
        &self,
        id: KeyId,
        cluster: impl Into<Slug>,
        scopes: Scopes,
        expires_ms: Option<i64>,
        secret: &Secret<String>,
    ) -> Result<(), Unknown> {
        self.lock()
            .install(id, cluster.into(), scopes, expires_ms, secret)
    }

    /// Ends a key at once.
    ///
    /// # Errors
    /// [`Unknown`].
    pub fn revoke(&self, id: &KeyId) -> Result<(), Unknown> {
        let mut inner = self.lock();
        inner.keys.remove(id).ok_or(Unknown)?;
        inner.secrets.retain(|_, owner| owner.key != *id);
        Ok(())
    }

    /// These keys and no others, in one step: who keeps a key notices nothing.
    pub(in crate::proxy) fn replace_keys(&self, rows: Vec<KeyRow>) -> Result<(), Unknown> {
        let mut inner = self.lock();
        inner.keys.clear();
        inner.secrets.clear();
        for row in rows {
            inner.install(row.id, row.cluster, row.scopes, row.expires_ms, &row.secret)?;
        }
        Ok(())
    }

    /// Ends a key at a time of the wall clock, in milliseconds of the Unix epoch; `None` never.
    ///
    /// # Errors
    /// [`Unknown`].
    pub fn expire_at(&self, id: &KeyId, at_ms: Option<i64>) -> Result<(), Unknown> {
        self.lock().keys.get_mut(id).ok_or(Unknown)?.expires_ms = at_ms;
        Ok(())
    }

    /// Gives a key other scopes.
    ///
    /// # Errors
    /// [`Unknown`].
    pub fn set_scopes(&self, id: &KeyId, scopes: Scopes) -> Result<(), Unknown> {
        self.lock().keys.get_mut(id).ok_or(Unknown)?.scopes = scopes;
        Ok(())
    }

    /// Gives a key another secret; the ones it had count for `overlap` still.
    ///
    /// # Errors
    /// [`Unknown`].
    pub fn rotate(&self, id: &KeyId, overlap: Duration) -> Result<Secret<String>, Unknown> {
        let secret = keys::new_secret(&*self.host.entropy, "test");
        let overlap_ms = i64::try_from(overlap.as_millis()).unwrap_or(i64::MAX);
        let until = self.now_ms().saturating_add(overlap_ms);
        let mut inner = self.lock();
        if !inner.keys.contains_key(id) {
            return Err(Unknown);
        }
        inner.secrets.retain(|_, owner| {
            if owner.key != *id {
                return true;
            }
            owner.until_ms = Some(owner.until_ms.map_or(until, |had| had.min(until)));
            !overlap.is_zero()
        });
        inner.prove(id.clone(), &secret);
        Ok(secret)
    }

    /// Who a bearer is.
    pub(in crate::proxy) fn authenticate(&self, bearer: &[u8]) -> Result<Caller, Refusal> {
        let now_ms = self.now_ms();
        let inner = self.lock();
        let owner = Digest::of(bearer).and_then(|digest| inner.secrets.get(&digest));
        let owner = owner.ok_or(Refusal::UnknownKey)?;
        let key = inner.keys.get(&owner.key).ok_or(Refusal::UnknownKey)?;
        if owner.until_ms.is_some_and(|until| until <= now_ms) {
            return Err(Refusal::UnknownKey);
        }
        if key.expires_ms.is_some_and(|expires| expires <= now_ms) {
            return Err(Refusal::ExpiredKey);
        }
        Ok(Caller {
            key: owner.key.clone(),
            cluster: key.cluster.clone(),
            scopes: key.scopes,
        })
    }
}

impl Inner {
    fn install(
        &mut self,
        id: KeyId,
        cluster: Slug,
        scopes: Scopes,
        expires_ms: Option<i64>,
        secret: &Secret<String>,
    ) -> Result<(), Unknown> {
        if !self.clusters.contains_key(&cluster) {
            return Err(Unknown);
        }
        self.secrets.retain(|_, owner| owner.key != id);
        let key = Key {
            cluster,
            scopes,
            expires_ms,
        };
        self.keys.insert(id.clone(), key);
        self.prove(id, secret);
        Ok(())
    }

    fn prove(&mut self, key: KeyId, secret: &Secret<String>) {
        if let Some(digest) = Digest::of(secret.expose().as_bytes()) {
            let owner = Owner {
                key,
                until_ms: None,
            };
            self.secrets.insert(digest, owner);
        }
    }
}
