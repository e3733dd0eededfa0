//! The credentials that Queen answered 401 to, for whoever serves connections with them.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use host::Monotonic;

use super::Credential;

/// Rejections that are remembered. A connection looks whenever there is a new one, so few are
/// enough.
const MAX_REMEMBERED: usize = 256;

/// What was rejected lately. A look that finds nothing new costs one atomic load.
#[derive(Debug, Default)]
pub struct Rejections {
    count: AtomicU64,
    recent: Mutex<VecDeque<(Credential, Monotonic)>>,
}

impl Rejections {
    /// Counts every rejection: another number means that a look at [`Rejections::since`] pays.
    pub fn count(&self) -> u64 {
        self.count.load(Ordering::Acquire)
    }

    /// Whether `credential` was rejected at `since` or later.
    pub fn since(&self, credential: &Credential, since: Monotonic) -> bool {
        let recent = self.recent();
        let mut matching = recent.iter().filter(|(other, _)| other == credential);
        matching.any(|(_, at)| *at >= since)
    }

    /// Queen answered 401 to `credential`.
    pub(super) fn note(&self, credential: &Credential, now: Monotonic) {
        let mut recent = self.recent();
        recent.retain(|(other, _)| other != credential);
        if recent.len() == MAX_REMEMBERED {
            recent.pop_front();
        }
        recent.push_back((credential.clone(), now));
        self.count.fetch_add(1, Ordering::Release);
    }

    fn recent(&self) -> MutexGuard<'_, VecDeque<(Credential, Monotonic)>> {
        self.recent.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use host::Secret;

    use super::*;

    fn credential(bearer: &str) -> Credential {
        Credential {
            bearer: Some(Secret::new(bearer.to_owned())),
            host: None,
        }
    }

    #[test]
    fn one_is_remembered_from_its_last_rejection_on() {
        let at = |ms| Monotonic::default() + Duration::from_millis(ms);
        let rejections = Rejections::default();
        rejections.note(&credential("a"), at(5));
        assert_eq!(rejections.count(), 1);
        assert!(rejections.since(&credential("a"), at(5)));
        assert!(!rejections.since(&credential("a"), at(6)));
        assert!(!rejections.since(&credential("b"), at(0)));
        for n in 0..MAX_REMEMBERED {
            rejections.note(&credential(&n.to_string()), at(7));
        }
        assert!(!rejections.since(&credential("a"), at(0)), "bounded");
        assert!(rejections.since(&credential("0"), at(7)));
    }
}
