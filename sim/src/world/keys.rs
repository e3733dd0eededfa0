//! The API keys of a cell: what the proxy knows of them, what clients hold, and how both change when
//! a schedule strikes. The directory outlives the proxy's process, as its database does.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use facade::fetch::surplus;
use fake_queen::ids::TenantId;
use fake_queen::proxy::{Cell, KeyId, Plan, Scopes};
use host::{Host, Secret};
use uuid::Uuid;

use crate::client::access::{Credentials, Held};
use crate::history::{Mark, Name};
use crate::machine::EPOCH_MS;
use crate::schedule::{Key, Scope};
use crate::trace::Node;

/// What clients do that moves something, the scope that it takes, and for how long it is served once
/// that is gone. The proxy looks at a key on every call, so what needs a call of its own ends at
/// once; a Fetch may still bring what was read ahead before.
const MOVES: [(&str, Scope, Duration); 5] = [
    ("Produce", Scope::Produce, Duration::ZERO),
    ("EndTxn", Scope::Produce, Duration::ZERO),
    ("OffsetCommit", Scope::Consume, Duration::ZERO),
    ("Fetch", Scope::Consume, surplus::MAX_AGE),
    ("CreateTopics", Scope::Admin, Duration::ZERO),
];

/// Whether the proxy asks for keys.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Tenancy {
    /// There is no proxy.
    #[default]
    None,
    /// It does.
    Enforced,
    /// It does, and takes each key for what it was in the beginning: a planted fault.
    Cached,
}

impl Tenancy {
    /// The keys that are there.
    pub const fn keys(self) -> &'static [Key] {
        match self {
            Self::None => &[],
            Self::Enforced | Self::Cached => &Key::ALL,
        }
    }
}

/// Whose a key is.
pub const fn tenant(key: Key) -> &'static str {
    match key {
        Key::Victim | Key::Neighbour => "acme",
        Key::Other => "other",
    }
}

/// What Queen knows the tenant of `key` by.
pub const fn tenant_id(key: Key) -> TenantId {
    TenantId(Uuid::from_u128(match key {
        Key::Victim | Key::Neighbour => 0xa,
        Key::Other => 0xb,
    }))
}

/// The directory of a cell, and what its clients hold. Clones are the same.
#[derive(Clone, Debug)]
pub struct Keyring(Arc<Mutex<Inner>>);

#[derive(Debug)]
struct Inner {
    seed: u64,
    cached: bool,
    rings: BTreeMap<Key, Ring>,
    /// Of the proxy that runs.
    cell: Option<Cell>,
}

/// One key through its rotations; the last row is the one that clients hold.
#[derive(Debug)]
struct Ring {
    credentials: Credentials,
    rows: Vec<Row>,
}

#[derive(Clone, Debug)]
struct Row {
    id: KeyId,
    secret: Secret<String>,
    scopes: Scopes,
    expires_ms: Option<i64>,
    revoked: bool,
}

impl Row {
    /// The `nth` secret of `key`, which may do everything.
    fn new(key: Key, nth: usize, seed: u64) -> Self {
        let id = match nth {
            0 => key.to_string(),
            nth => format!("{key}-{}", nth + 1),
        };
        Self {
            secret: Secret::new(format!("qk_sim_{id}_{seed:016x}")),
            id: KeyId(id),
            scopes: Scopes::ALL,
            expires_ms: None,
            revoked: false,
        }
    }

    fn principal(&self) -> Name {
        self.id.0.as_str().into()
    }

    fn held(&self, key: Key) -> Held {
        Held {
            principal: self.principal(),
            tenant: tenant(key).into(),
            secret: self.secret.clone(),
        }
    }

    fn ends_at(&mut self, at_ms: i64) {
        self.expires_ms = Some(self.expires_ms.map_or(at_ms, |had| had.min(at_ms)));
    }

    /// What it may do no longer in `within`, as far as `of` says.
    fn loses(&self, within: Duration, of: impl Fn(Scope) -> bool) -> Vec<Mark> {
        let lost = MOVES.iter().filter(|(_, scope, _)| of(*scope));
        lost.map(|(action, _, lag)| Mark::Revoke {
            principal: self.principal(),
            within_ms: millis(within + *lag),
            actions: vec![(*action).into()],
        })
        .collect()
    }
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

/// The wall clock of every machine at `now`, and so much later.
fn wall_ms(now: Duration, in_ms: u64) -> i64 {
    let at = millis(now).saturating_add(in_ms);
    EPOCH_MS.saturating_add(i64::try_from(at).unwrap_or(i64::MAX))
}

impl Keyring {
    /// Keys that are good, of a world with `seed`.
    pub fn new(seed: u64, tenancy: Tenancy) -> Self {
        let ring = |key: Key| {
            let row = Row::new(key, 0, seed);
            let credentials = Credentials::new(row.held(key));
            let rows = vec![row];
            (key, Ring { credentials, rows })
        };
        Self(Arc::new(Mutex::new(Inner {
            seed,
            cached: tenancy == Tenancy::Cached,
            rings: tenancy.keys().iter().copied().map(ring).collect(),
            cell: None,
        })))
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What clients of `key` hold, now and after each rotation.
    pub fn credentials(&self, key: Key) -> Option<Credentials> {
        let inner = self.lock();
        Some(inner.rings.get(&key)?.credentials.clone())
    }

    /// The directory as a proxy that starts reads it.
    pub(super) fn open(&self, host: Host) -> Cell {
        let cell = Cell::new(host);
        cell.share_host(Node::Proxy.name());
        let mut inner = self.lock();
        for (key, ring) in &inner.rings {
            cell.add_cluster(tenant(*key), tenant_id(*key), Plan::default());
            for row in ring.rows.iter().filter(|row| !row.revoked) {
                install(&cell, *key, row);
            }
        }
        inner.cell = Some(cell.clone());
        cell
    }

    /// `key` ends at once.
    pub(super) fn revoke(&self, key: Key) -> Vec<Mark> {
        self.change(key, |ring, cell| {
            for row in &mut ring.rows {
                row.revoked = true;
                if let Some(cell) = cell {
                    // One that is gone is.
                    let _ = cell.revoke(&row.id);
                }
            }
            let rows = ring.rows.iter();
            rows.flat_map(|row| row.loses(Duration::ZERO, |_| true))
                .collect()
        })
    }

    /// `key` ends `in_ms` after `now`.
    pub(super) fn expire(&self, key: Key, now: Duration, in_ms: u64) -> Vec<Mark> {
        self.change(key, |ring, cell| {
            let Some(row) = ring.rows.last_mut() else {
                return Vec::new();
            };
            row.ends_at(wall_ms(now, in_ms));
            if let Some(cell) = cell {
                // One that is gone has no end to come.
                let _ = cell.expire_at(&row.id, row.expires_ms);
            }
            row.loses(Duration::from_millis(in_ms), |_| true)
        })
    }

    /// `key` loses `scope`.
    pub(super) fn narrow(&self, key: Key, scope: Scope) -> Vec<Mark> {
        self.change(key, |ring, cell| {
            let Some(row) = ring.rows.last_mut() else {
                return Vec::new();
            };
            match scope {
                Scope::Produce => row.scopes.produce = false,
                Scope::Consume => row.scopes.consume = false,
                Scope::Admin => row.scopes.admin = false,
                Scope::Read => row.scopes.read = false,
            }
            if let Some(cell) = cell {
                // One that is gone may do nothing.
                let _ = cell.set_scopes(&row.id, row.scopes);
            }
            row.loses(Duration::ZERO, |of| of == scope)
        })
    }

    /// `key` gets another secret, which may do everything and which its clients hold from `now` on;
    /// the old one counts for `overlap_ms`.
    pub(super) fn rotate(&self, key: Key, now: Duration, overlap_ms: u64) -> Vec<Mark> {
        let seed = self.lock().seed;
        self.change(key, |ring, cell| {
            let next = Row::new(key, ring.rows.len(), seed);
            let mut marks = Vec::new();
            if let Some(old) = ring.rows.last_mut() {
                old.ends_at(wall_ms(now, overlap_ms));
                if let Some(cell) = cell {
                    // One that is gone has no end to come.
                    let _ = cell.expire_at(&old.id, old.expires_ms);
                }
                marks = old.loses(Duration::from_millis(overlap_ms), |_| true);
            }
            if let Some(cell) = cell {
                install(cell, key, &next);
            }
            ring.credentials.hold(next.held(key));
            marks.push(Mark::Grant {
                principal: next.principal(),
            });
            ring.rows.push(next);
            marks
        })
    }

    /// What clients hold is good again, for everything.
    pub(super) fn mend(&self) -> Vec<Mark> {
        let mut marks = Vec::new();
        for key in Key::ALL {
            marks.extend(self.change(key, |ring, cell| {
                let Some(row) = ring.rows.last_mut() else {
                    return Vec::new();
                };
                (row.revoked, row.scopes, row.expires_ms) = (false, Scopes::ALL, None);
                if let Some(cell) = cell {
                    install(cell, key, row);
                }
                vec![Mark::Grant {
                    principal: row.principal(),
                }]
            }));
        }
        marks
    }

    fn change(
        &self,
        key: Key,
        change: impl FnOnce(&mut Ring, Option<&Cell>) -> Vec<Mark>,
    ) -> Vec<Mark> {
        let mut inner = self.lock();
        let cell = inner.cell.clone().filter(|_| !inner.cached);
        match inner.rings.get_mut(&key) {
            Some(ring) => change(ring, cell.as_ref()),
            None => Vec::new(),
        }
    }
}

fn install(cell: &Cell, key: Key, row: &Row) {
    let Row {
        id,
        secret,
        scopes,
        expires_ms,
        revoked: _,
    } = row;
    let installed = cell.install(id.clone(), tenant(key), *scopes, *expires_ms, secret);
    installed.expect("the cell has the clusters of every key");
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ends(marks: &[Mark]) -> Vec<(&str, &str, u64)> {
        let revoked = marks.iter().filter_map(|mark| match mark {
            Mark::Revoke {
                principal,
                within_ms,
                actions,
            } => Some((principal.as_str(), actions[0].as_str(), *within_ms)),
            _ => None,
        });
        revoked.collect()
    }

    #[test]
    fn each_end_says_what_is_over_and_when() {
        let keys = Keyring::new(1, Tenancy::Enforced);
        let lost = keys.narrow(Key::Victim, Scope::Consume);
        let lag = millis(surplus::MAX_AGE);
        assert_eq!(
            ends(&lost),
            [("victim", "OffsetCommit", 0), ("victim", "Fetch", lag)]
        );
        let now = Duration::from_secs(3);
        let rotated = keys.rotate(Key::Victim, now, 200);
        assert_eq!(ends(&rotated)[0], ("victim", "Produce", 200));
        let held = keys.credentials(Key::Victim).unwrap().held();
        assert_eq!(held.principal.as_str(), "victim-2");
        let good = Mark::Grant {
            principal: held.principal,
        };
        assert_eq!(rotated.last(), Some(&good));
        assert_eq!(ends(&keys.expire(Key::Victim, now, 70))[0].2, 70);
        let revoked = keys.revoke(Key::Victim);
        assert!(ends(&revoked).contains(&("victim-2", "EndTxn", 0)));
        assert!(keys.mend().contains(&good));
        let nobody = Keyring::new(1, Tenancy::None);
        assert!(nobody.revoke(Key::Victim).is_empty());
    }
}
