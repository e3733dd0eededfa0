//! Who waits on the listener: connections that have asked nothing yet, or read nothing of their
//! answer. Past a bound, the one that has waited longest is ended, first of the address that has the
//! most; so nobody who only connects keeps a health check out.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use host::gate::counted_as;
use tokio::sync::Notify;

/// The connections that wait.
#[derive(Debug)]
pub(super) struct Crowd {
    max: usize,
    waiting: Mutex<Waiting>,
}

#[derive(Debug, Default)]
struct Waiting {
    next: u64,
    /// By their numbers, those that have waited longest first.
    of: BTreeMap<u64, (IpAddr, Arc<Notify>)>,
}

impl Crowd {
    /// Room for `max` that wait.
    pub(super) fn new(max: usize) -> Arc<Self> {
        Arc::new(Self {
            max,
            waiting: Mutex::default(),
        })
    }

    /// A connection from `peer`, that waits.
    pub(super) fn enter(self: &Arc<Self>, peer: IpAddr) -> Visitor {
        let visitor = Visitor {
            crowd: Arc::clone(self),
            address: counted_as(peer),
            ended: Arc::default(),
            number: Mutex::new(None),
        };
        visitor.waits();
        visitor
    }

    fn waiting(&self) -> MutexGuard<'_, Waiting> {
        // Every change leaves it whole.
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Waiting {
    fn put(&mut self, address: IpAddr, ended: &Arc<Notify>, max: usize) -> u64 {
        let number = self.next;
        self.next += 1;
        self.of.insert(number, (address, Arc::clone(ended)));
        if self.of.len() > max
            && let Some((_, ended)) = self.longest().and_then(|number| self.of.remove(&number))
        {
            ended.notify_one();
        }
        number
    }

    fn longest(&self) -> Option<u64> {
        let mut counts: BTreeMap<IpAddr, usize> = BTreeMap::new();
        for (address, _) in self.of.values() {
            *counts.entry(*address).or_default() += 1;
        }
        let most = counts.values().max()?;
        let of_most = |(_, (address, _)): &(&u64, &(IpAddr, _))| counts.get(address) == Some(most);
        self.of.iter().find(of_most).map(|(number, _)| *number)
    }
}

/// One connection. Dropped, it waits no more.
#[derive(Debug)]
pub(super) struct Visitor {
    crowd: Arc<Crowd>,
    address: IpAddr,
    ended: Arc<Notify>,
    /// While it waits.
    number: Mutex<Option<u64>>,
}

impl Visitor {
    /// Ends when the connection has to make room.
    pub(super) async fn ended(&self) {
        self.ended.notified().await;
    }

    /// It has done its part and does not wait while it is answered.
    pub(super) fn asked(&self) {
        if let Some(number) = self.number().take() {
            self.crowd.waiting().of.remove(&number);
        }
    }

    /// It is waited for again.
    pub(super) fn waits(&self) {
        let number = (self.crowd.waiting()).put(self.address, &self.ended, self.crowd.max);
        *self.number() = Some(number);
    }

    fn number(&self) -> MutexGuard<'_, Option<u64>> {
        self.number.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Visitor {
    fn drop(&mut self) {
        self.asked();
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;

    use super::*;

    fn is_ended(visitor: &Visitor) -> bool {
        visitor.ended().now_or_never().is_some()
    }

    #[test]
    fn who_has_waited_longest_makes_room_first_of_the_address_with_the_most() {
        let crowd = Crowd::new(4);
        let (one, other) = ([10, 0, 0, 1].into(), [10, 0, 0, 2].into());
        let quiet = crowd.enter(other);
        let flood: Vec<Visitor> = (0..10).map(|_| crowd.enter(one)).collect();
        let ended: Vec<bool> = flood.iter().map(is_ended).collect();
        let expected = [vec![true; 7], vec![false; 3]].concat();
        assert_eq!(ended, expected, "three of them are left");
        assert!(!is_ended(&quiet), "it came before all of them");
        drop((flood, quiet));
        assert!(crowd.waiting().of.is_empty());
    }

    #[test]
    fn who_is_answered_is_not_ended_and_waits_again_behind_the_others() {
        let crowd = Crowd::new(2);
        let address = [10, 0, 0, 1].into();
        let first = crowd.enter(address);
        first.asked();
        let others = [crowd.enter(address), crowd.enter(address)];
        assert!(!is_ended(&first));
        first.waits();
        assert!(is_ended(&others[0]) && !is_ended(&others[1]) && !is_ended(&first));
    }
}
