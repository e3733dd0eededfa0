//! The deduplication window of one lane: which `transactionId`s were appended lately, and where.
//! Exact. Holds runs, so its size is that of the batches in the window, not of their records.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use indexmap::IndexMap;

use super::id_run::{Name, Scheme};
use crate::ids::MessageId;

/// Where a record was appended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Appended {
    /// Its offset.
    pub offset: i64,
    /// Its id.
    pub message_id: MessageId,
}

impl Appended {
    /// The record `count` places behind.
    pub fn plus(self, count: u64) -> Self {
        Self {
            offset: self.offset.saturating_add_unsigned(count),
            message_id: self.message_id.plus(count),
        }
    }
}

#[derive(Clone, Copy, Debug)]
struct Run {
    count: u64,
    first: Appended,
    created_us: i64,
}

/// Where a run begins among those of its prefix.
type Start = (Scheme, u64);

/// The runs of one prefix. Nearly always one: a map for each would be most of the window's size.
#[derive(Clone, Debug)]
enum Runs {
    One(Start, Run),
    Many(BTreeMap<Start, Run>),
}

impl Runs {
    /// The last run that begins at or before `start`, in the same scheme.
    fn at_or_before(&self, start: Start) -> Option<(u64, Run)> {
        let (known, run) = match self {
            Self::One(known, run) => (known, run),
            Self::Many(runs) => runs.range(..=start).next_back()?,
        };
        (known.0 == start.0 && known.1 <= start.1).then_some((known.1, *run))
    }

    fn insert(&mut self, start: Start, run: Run) {
        match self {
            Self::Many(runs) => {
                runs.insert(start, run);
            }
            Self::One(known, _) if *known == start => *self = Self::One(start, run),
            Self::One(known, known_run) => {
                *self = Self::Many(BTreeMap::from([(*known, *known_run), (start, run)]));
            }
        }
    }

    /// Removes a run; true when none is left.
    fn remove(&mut self, start: Start) -> bool {
        match self {
            Self::One(known, _) => *known == start,
            Self::Many(runs) => {
                runs.remove(&start);
                runs.is_empty()
            }
        }
    }
}

/// A window of ids.
#[derive(Clone, Debug, Default)]
pub struct Dedup {
    by_prefix: IndexMap<Arc<str>, Runs>,
    /// Oldest first.
    by_age: VecDeque<(i64, Arc<str>, Start)>,
}

impl Dedup {
    /// The record appended with `id` at or after `since_us`.
    pub fn find(&self, id: &str, since_us: i64) -> Option<Appended> {
        let name = Name::of(id);
        let runs = self.by_prefix.get(name.prefix)?;
        let (first, run) = runs.at_or_before((name.scheme, name.number))?;
        let distance = name.number - first;
        (distance < run.count && run.created_us >= since_us).then(|| run.first.plus(distance))
    }

    /// Any of `count` ids from `first` on was appended at or after `since_us`.
    pub fn overlaps(&self, first: &str, count: u64, since_us: i64) -> bool {
        let name = Name::of(first);
        let Some(runs) = self.by_prefix.get(name.prefix) else {
            return false;
        };
        // Runs don't overlap each other, but one that is too old may hide one that isn't: walk.
        let mut last = name.number.saturating_add(count.max(1) - 1);
        while let Some((first, run)) = runs.at_or_before((name.scheme, last)) {
            if first.saturating_add(run.count) <= name.number {
                return false;
            }
            if run.created_us >= since_us {
                return true;
            }
            match first.checked_sub(1) {
                Some(before) => last = before,
                None => return false,
            }
        }
        false
    }

    /// Remembers where a run of ids was appended. Times must not fall, and ids of the window must
    /// not repeat: [`Dedup::expire`] first, with the bound that was looked up with.
    pub fn insert(&mut self, first: &str, count: u64, at: Appended, created_us: i64) {
        let name = Name::of(first);
        let run = Run {
            count,
            first: at,
            created_us,
        };
        let prefix = match self.by_prefix.get_key_value(name.prefix) {
            Some((prefix, _)) => Arc::clone(prefix),
            None => name.prefix.into(),
        };
        self.put(prefix, (name.scheme, name.number), run);
    }

    fn put(&mut self, prefix: Arc<str>, start: Start, run: Run) {
        self.by_age
            .push_back((run.created_us, Arc::clone(&prefix), start));
        match self.by_prefix.get_mut(&prefix) {
            Some(runs) => runs.insert(start, run),
            None => {
                self.by_prefix.insert(prefix, Runs::One(start, run));
            }
        }
    }

    /// Moves in all of `newer`, whose ids and times follow what is here.
    pub fn absorb(&mut self, newer: Self) {
        if self.by_age.is_empty() {
            *self = newer;
            return;
        }
        for (_, prefix, start) in newer.by_age {
            let runs = newer.by_prefix.get(&prefix);
            if let Some((first, run)) = runs.and_then(|runs| runs.at_or_before(start)) {
                debug_assert_eq!(first, start.1);
                self.put(prefix, start, run);
            }
        }
    }

    /// Forgets what was appended before `since_us`.
    pub fn expire(&mut self, since_us: i64) {
        while let Some((created_us, prefix, start)) = self.by_age.front() {
            if *created_us >= since_us {
                break;
            }
            if self
                .by_prefix
                .get_mut(prefix)
                .is_some_and(|runs| runs.remove(*start))
            {
                self.by_prefix.swap_remove(prefix);
            }
            self.by_age.pop_front();
        }
    }

    /// Runs held: what memory is proportional to.
    pub fn runs(&self) -> usize {
        self.by_age.len()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn appended(offset: i64) -> Appended {
        Appended {
            offset,
            message_id: MessageId(offset.unsigned_abs().into()).plus(100),
        }
    }

    proptest! {
        /// Against a plain list of what was appended.
        #[test]
        fn finds_what_a_list_finds(
            runs in proptest::collection::vec(("[ab]?-", 0..20_u64, 1..5_u64), 1..60),
            window in 1_i64..30,
        ) {
            let mut dedup = Dedup::default();
            let mut list: Vec<(String, i64, i64)> = Vec::new();
            for (at, (prefix, first, count)) in runs.iter().enumerate() {
                let now = at as i64 / 3;
                let since = now - window;
                let ids: Vec<String> = (*first..first + count).map(|n| format!("{prefix}{n}")).collect();
                let known = |id: &String| {
                    list.iter()
                        .rev()
                        .find(|(known, _, created)| known == id && *created >= since)
                        .map(|(_, offset, _)| appended(*offset))
                };
                for id in &ids {
                    prop_assert_eq!(dedup.find(id, since), known(id));
                }
                let any = ids.iter().any(|id| known(id).is_some());
                prop_assert_eq!(dedup.overlaps(&ids[0], *count, since), any);
                if !any {
                    let offset = list.len() as i64;
                    dedup.expire(since);
                    if at % 2 == 0 {
                        dedup.insert(&ids[0], *count, appended(offset), now);
                    } else {
                        let mut newer = Dedup::default();
                        newer.insert(&ids[0], *count, appended(offset), now);
                        dedup.absorb(newer);
                    }
                    list.extend(ids.into_iter().zip(offset..).map(|(id, offset)| (id, offset, now)));
                }
            }
        }
    }

    #[test]
    fn nothing_is_left_of_what_expired() {
        let mut dedup = Dedup::default();
        dedup.insert("7:0:0", 1000, appended(0), 5);
        dedup.insert("8:0:0", 1000, appended(1000), 6);
        dedup.insert("8:0:2000", 1000, appended(2000), 6);
        assert_eq!((dedup.runs(), dedup.by_prefix.len()), (3, 2));
        assert_eq!(dedup.find("8:0:2999", 0), Some(appended(2999)));
        dedup.expire(6);
        assert_eq!((dedup.runs(), dedup.by_prefix.len()), (2, 1));
        dedup.expire(7);
        assert_eq!((dedup.runs(), dedup.by_prefix.len()), (0, 0));
    }
}
