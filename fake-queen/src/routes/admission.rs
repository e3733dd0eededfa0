//! Who may call the KV store now: kill switch, grant, rate (contract sections 7.6, 7.7).
//! Token buckets per tenant and one for all, refilled by the monotonic clock.

use host::Monotonic;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::bucket::Bucket;
use crate::http::error::ApiError;
use crate::ids::TenantId;
use crate::options::KvRates;

/// What a KV call does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Only reads.
    Read,
    /// Any write.
    Write,
}

/// The gate in front of the KV store.
#[derive(Debug)]
pub struct Admission {
    rates: Option<KvRates>,
    require_grant: bool,
    gate: Mutex<Gate>,
}

#[derive(Debug)]
struct Gate {
    enabled: bool,
    granted: BTreeSet<TenantId>,
    cell: Option<Bucket>,
    tenants: BTreeMap<TenantId, (Bucket, Bucket)>,
}

impl Admission {
    /// A gate that is open.
    pub fn new(rates: Option<KvRates>, require_grant: bool) -> Self {
        Self {
            rates,
            require_grant,
            gate: Mutex::new(Gate {
                enabled: true,
                granted: BTreeSet::new(),
                cell: None,
                tenants: BTreeMap::new(),
            }),
        }
    }

    /// The kill switch.
    pub fn set_enabled(&self, enabled: bool) {
        self.lock().enabled = enabled;
    }

    /// Whether the kill switch leaves it on.
    pub fn is_enabled(&self) -> bool {
        self.lock().enabled
    }

    /// Gives or takes a tenant's grant.
    pub fn set_granted(&self, tenant: TenantId, granted: bool) {
        let mut gate = self.lock();
        if granted {
            gate.granted.insert(tenant);
        } else {
            gate.granted.remove(&tenant);
        }
    }

    /// Takes a token for a call.
    ///
    /// # Errors
    /// [`ApiError::KvDisabled`], [`ApiError::FeatureGated`] (writes only) or
    /// [`ApiError::RateLimited`], in this order.
    pub fn admit(&self, tenant: TenantId, kind: Kind, now: Monotonic) -> Result<(), ApiError> {
        let mut gate = self.lock();
        if !gate.enabled {
            return Err(ApiError::KvDisabled);
        }
        if self.require_grant && kind == Kind::Write && !gate.granted.contains(&tenant) {
            return Err(ApiError::FeatureGated);
        }
        let Some(rates) = self.rates else {
            return Ok(());
        };
        let cell_rate = f64::from(rates.cell_per_second);
        let cell = *gate.cell.get_or_insert(Bucket::full(cell_rate, now));
        let cell = cell.filled(cell_rate, cell_rate, now);
        let (read, write) = gate.tenants.entry(tenant).or_insert_with(|| {
            (
                Bucket::full(f64::from(rates.read_burst), now),
                Bucket::full(f64::from(rates.write_burst), now),
            )
        });
        let (bucket, rate, burst) = match kind {
            Kind::Read => (read, rates.reads_per_second, rates.read_burst),
            Kind::Write => (write, rates.writes_per_second, rates.write_burst),
        };
        let filled = bucket.filled(f64::from(rate), f64::from(burst), now);
        let limited = |retry_after_s| ApiError::RateLimited { retry_after_s };
        *bucket = filled.take(1.0, f64::from(rate)).map_err(limited)?;
        gate.cell = Some(cell.take(1.0, cell_rate).map_err(limited)?);
        Ok(())
    }

    fn lock(&self) -> MutexGuard<'_, Gate> {
        // Every change under the lock is complete in itself.
        self.gate.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn at(ms: u64) -> Monotonic {
        Monotonic::from_origin(Duration::from_millis(ms))
    }

    #[test]
    fn a_burst_is_taken_at_once_and_refills_at_the_rate() {
        let admission = Admission::new(Some(KvRates::default()), false);
        let admit = |kind, ms| admission.admit(TenantId::DEFAULT, kind, at(ms)).is_ok();
        assert_eq!((0..300).filter(|_| admit(Kind::Write, 0)).count(), 200);
        assert_eq!((0..100).filter(|_| admit(Kind::Write, 500)).count(), 50);
        assert_eq!((0..500).filter(|_| admit(Kind::Read, 500)).count(), 400);
        assert!(matches!(
            admission.admit(TenantId::DEFAULT, Kind::Write, at(500)),
            Err(ApiError::RateLimited { retry_after_s: 1 })
        ));
    }

    #[test]
    fn the_switch_comes_before_the_grant_and_reads_need_none() {
        let admission = Admission::new(None, true);
        let tenant = TenantId::DEFAULT;
        assert!(admission.admit(tenant, Kind::Read, at(0)).is_ok());
        assert!(matches!(
            admission.admit(tenant, Kind::Write, at(0)),
            Err(ApiError::FeatureGated)
        ));
        admission.set_granted(tenant, true);
        assert!(admission.admit(tenant, Kind::Write, at(0)).is_ok());
        admission.set_enabled(false);
        admission.set_granted(tenant, false);
        assert!(matches!(
            admission.admit(tenant, Kind::Write, at(0)),
            Err(ApiError::KvDisabled)
        ));
    }
}
