//! Who may connect: bounds on connections, on those that have not authenticated, and per address.
//! Counts only; no sockets, no clock.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::metrics::{Counter, Gauge, Registry};

/// The bounds of one listener.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GateLimits {
    /// Connections at once.
    pub max_connections: usize,
    /// Connections at once that have not authenticated.
    pub max_unauthenticated: usize,
    /// Connections at once from one address (one /64 of IPv6); `None` is no such bound.
    pub max_per_address: Option<usize>,
}

/// Whether a connection counts as authenticated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// Nothing is known about the peer yet.
    Unauthenticated,
    /// The peer has authenticated, or the listener asks nobody to.
    Authenticated,
}

/// Why a connection is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, thiserror::Error)]
pub enum Refused {
    /// The listener serves as many connections as it may.
    #[error("too many connections")]
    Connections,
    /// Too many connections have not authenticated.
    #[error("too many unauthenticated connections")]
    Unauthenticated,
    /// Too many connections come from this address.
    #[error("too many connections from one address")]
    Address,
}

impl Refused {
    const ALL: [Self; 3] = [Self::Connections, Self::Unauthenticated, Self::Address];

    /// The label of the refusal in metrics.
    pub const fn label(self) -> &'static str {
        match self {
            Self::Connections => "connections",
            Self::Unauthenticated => "unauthenticated",
            Self::Address => "address",
        }
    }
}

/// Admits connections. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Gate(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    limits: GateLimits,
    counts: Mutex<Counts>,
    metrics: GateMetrics,
}

#[derive(Debug, Default)]
struct Counts {
    connections: usize,
    unauthenticated: usize,
    per_address: BTreeMap<IpAddr, usize>,
}

/// What a gate counts.
#[derive(Clone, Debug, Default)]
pub struct GateMetrics {
    open: Gauge,
    unauthenticated: Gauge,
    accepted: Counter,
    refused: BTreeMap<Refused, Counter>,
}

impl GateMetrics {
    /// Registers the series.
    pub fn register(registry: &Registry) -> Self {
        let refused = |reason: Refused| {
            let labels = [("reason", reason.label())];
            let help = "Connections closed at once because a bound of the listener was reached.";
            (
                reason,
                registry.counter("connections_refused_total", help, &labels),
            )
        };
        Self {
            open: registry.gauge("connections", "Open connections.", &[]),
            unauthenticated: registry.gauge(
                "connections_unauthenticated",
                "Open connections that have not authenticated.",
                &[],
            ),
            accepted: registry.counter(
                "connections_accepted_total",
                "Connections that were served.",
                &[],
            ),
            refused: Refused::ALL.map(refused).into(),
        }
    }
}

impl Gate {
    /// A gate with nobody behind it.
    pub fn new(limits: GateLimits, metrics: GateMetrics) -> Self {
        Self(Arc::new(Inner {
            limits,
            counts: Mutex::default(),
            metrics,
        }))
    }

    /// Takes a place for a connection from `peer`.
    ///
    /// # Errors
    ///
    /// [`Refused`], and nothing is counted as open.
    pub fn admit(&self, peer: IpAddr, standing: Standing) -> Result<Slot, Refused> {
        let address = counted_as(peer);
        let admitted = self.counts().admit(&self.0.limits, address, standing);
        if let Err(reason) = admitted {
            if let Some(counter) = self.0.metrics.refused.get(&reason) {
                counter.inc();
            }
            return Err(reason);
        }
        self.0.metrics.accepted.inc();
        self.0.metrics.open.add(1);
        if standing == Standing::Unauthenticated {
            self.0.metrics.unauthenticated.add(1);
        }
        let stranger = Stranger::default();
        Ok(Slot {
            gate: self.clone(),
            address,
            stranger: (standing == Standing::Unauthenticated).then_some(stranger),
        })
    }

    /// Open connections.
    pub fn connections(&self) -> usize {
        self.counts().connections
    }

    fn counts(&self) -> MutexGuard<'_, Counts> {
        // Every change leaves the counts whole.
        self.0.counts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Counts {
    fn admit(
        &mut self,
        limits: &GateLimits,
        address: IpAddr,
        standing: Standing,
    ) -> Result<(), Refused> {
        let unauthenticated = standing == Standing::Unauthenticated;
        if self.connections >= limits.max_connections {
            return Err(Refused::Connections);
        }
        if unauthenticated && self.unauthenticated >= limits.max_unauthenticated {
            return Err(Refused::Unauthenticated);
        }
        let from_address = self.per_address.get(&address).copied().unwrap_or(0);
        if limits
            .max_per_address
            .is_some_and(|max| from_address >= max)
        {
            return Err(Refused::Address);
        }
        self.connections += 1;
        self.unauthenticated += usize::from(unauthenticated);
        if limits.max_per_address.is_some() {
            self.per_address.insert(address, from_address + 1);
        }
        Ok(())
    }
}

/// What connections of `peer` are counted under: IPv4 in IPv6 clothes is IPv4; an IPv6 subscriber owns
/// a /64.
pub fn counted_as(peer: IpAddr) -> IpAddr {
    match peer.to_canonical() {
        IpAddr::V6(v6) => Ipv6Addr::from_bits(v6.to_bits() & (u128::MAX << 64)).into(),
        v4 => v4,
    }
}

/// The place of one connection, free again when dropped.
#[derive(Debug)]
pub struct Slot {
    gate: Gate,
    address: IpAddr,
    /// `None` once the peer has authenticated.
    stranger: Option<Stranger>,
}

/// Tells from outside whether the peer of a [`Slot`] has authenticated.
#[derive(Clone, Debug, Default)]
pub struct Stranger(Arc<AtomicBool>);

impl Stranger {
    /// Whether it has.
    pub fn has_authenticated(&self) -> bool {
        self.0.load(Ordering::Acquire)
    }
}

impl Slot {
    /// The peer as long as it has not authenticated.
    pub fn stranger(&self) -> Option<Stranger> {
        self.stranger.clone()
    }

    /// The peer has authenticated: its place among the unauthenticated is free.
    pub fn authenticated(&mut self) {
        if let Some(stranger) = self.stranger.take() {
            stranger.0.store(true, Ordering::Release);
            self.gate.counts().unauthenticated -= 1;
            self.gate.0.metrics.unauthenticated.add(-1);
        }
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        self.authenticated();
        self.gate.0.metrics.open.add(-1);
        let mut counts = self.gate.counts();
        counts.connections -= 1;
        if let Some(from_address) = counts.per_address.get_mut(&self.address) {
            *from_address -= 1;
            if *from_address == 0 {
                counts.per_address.remove(&self.address);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    const A: &str = "192.0.2.1";

    fn gate(max_connections: usize, max_unauthenticated: usize, per: Option<usize>) -> Gate {
        let limits = GateLimits {
            max_connections,
            max_unauthenticated,
            max_per_address: per,
        };
        Gate::new(limits, GateMetrics::default())
    }

    fn ip(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    #[rstest]
    #[case::all(gate(1, 9, None), A, Standing::Authenticated, Refused::Connections)]
    #[case::unauthenticated(
        gate(9, 1, None),
        A,
        Standing::Unauthenticated,
        Refused::Unauthenticated
    )]
    #[case::address(gate(9, 9, Some(1)), A, Standing::Authenticated, Refused::Address)]
    fn a_full_gate_says_which_bound_and_opens_again(
        #[case] gate: Gate,
        #[case] peer: &str,
        #[case] standing: Standing,
        #[case] reason: Refused,
    ) {
        let slot = gate.admit(ip(peer), standing).unwrap();
        assert_eq!(gate.admit(ip(peer), standing).unwrap_err(), reason);
        drop(slot);
        assert_eq!(gate.connections(), 0);
        drop(gate.admit(ip(peer), standing).unwrap());
    }

    #[test]
    fn who_authenticates_makes_room_for_the_next_stranger() {
        let gate = gate(9, 1, None);
        let mut slot = gate.admit(ip(A), Standing::Unauthenticated).unwrap();
        slot.authenticated();
        slot.authenticated();
        let next = gate.admit(ip(A), Standing::Unauthenticated).unwrap();
        drop((slot, next));
        drop(gate.admit(ip(A), Standing::Unauthenticated).unwrap());
    }

    #[rstest]
    #[case("192.0.2.1", "::ffff:192.0.2.1", true)]
    #[case("2001:db8::1", "2001:db8::2", true)]
    #[case("2001:db8::1", "2001:db8:0:1::1", false)]
    #[case("192.0.2.1", "192.0.2.2", false)]
    fn addresses_of_one_owner_are_one(#[case] a: &str, #[case] b: &str, #[case] same: bool) {
        let gate = gate(9, 9, Some(1));
        let _slot = gate.admit(ip(a), Standing::Authenticated).unwrap();
        let second = gate.admit(ip(b), Standing::Authenticated);
        assert_eq!(second.is_err(), same);
    }
}
