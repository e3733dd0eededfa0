//! The deduplication window of one lane: which `transactionId`s were appended lately, and where.
//! Exact. Ids that differ only in a decimal that counts up with the offset (what an idempotent
//! producer's batch looks like) share one entry, so a batch costs as much as a record.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use crate::ids::MessageId;

/// More digits than this don't fit in a `u64`.
const MAX_DIGITS: usize = 18;

#[derive(Clone, Copy, Debug)]
struct Run {
    count: u64,
    first: Appended,
    created_us: i64,
}

/// Where a record was appended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Appended {
    /// Its offset.
    pub offset: i64,
    /// Its id.
    pub message_id: MessageId,
}

impl Appended {
    fn plus(self, count: u64) -> Option<Self> {
        Some(Self {
            offset: self.offset.checked_add_unsigned(count)?,
            message_id: self.message_id.plus(count),
        })
    }
}

/// A window of ids.
#[derive(Clone, Debug, Default)]
pub struct Dedup {
    /// By prefix, then by the number of the run's first id. Ids without a trailing number are
    /// under their whole text and `None`.
    runs: BTreeMap<Arc<str>, BTreeMap<Option<u64>, Run>>,
    /// Oldest first.
    by_age: VecDeque<(i64, Arc<str>, Option<u64>)>,
}

impl Dedup {
    /// The record appended with `id` at or after `since_us`.
    pub fn find(&self, id: &str, since_us: i64) -> Option<Appended> {
        let (prefix, number) = split(id);
        let runs = self.runs.get(prefix)?;
        let (first, run) = match number {
            None => (0, runs.get(&None)?),
            Some(number) => {
                let (first, run) = runs.range(Some(0)..=Some(number)).next_back()?;
                (number - first.unwrap_or(0), run)
            }
        };
        (first < run.count && run.created_us >= since_us)
            .then(|| run.first.plus(first))
            .flatten()
    }

    /// Remembers where `id` was appended. Times must not fall, and ids of the window
    /// must not repeat: [`Dedup::expire`] first, with the bound that [`Dedup::find`] was asked with.
    pub fn insert(&mut self, id: &str, at: Appended, created_us: i64) {
        let (prefix, number) = split(id);
        if let Some(number) = number
            && let Some((_, last_prefix, Some(first))) = self.by_age.back()
            && **last_prefix == *prefix
            && let Some(run) = self
                .runs
                .get_mut(prefix)
                .and_then(|runs| runs.get_mut(&Some(*first)))
            && run.created_us == created_us
            && first.checked_add(run.count) == Some(number)
            && run.first.plus(run.count) == Some(at)
        {
            run.count += 1;
            return;
        }
        let prefix: Arc<str> = match self.runs.get_key_value(prefix) {
            Some((prefix, _)) => prefix.clone(),
            None => prefix.into(),
        };
        let run = Run {
            count: 1,
            first: at,
            created_us,
        };
        self.runs
            .entry(prefix.clone())
            .or_default()
            .insert(number, run);
        self.by_age.push_back((created_us, prefix, number));
    }

    /// Moves in all of `newer`, whose ids and times follow what is here.
    pub fn absorb(&mut self, newer: Self) {
        if self.runs.is_empty() {
            *self = newer;
            return;
        }
        for (prefix, runs) in newer.runs {
            match self.runs.get_mut(&prefix) {
                Some(known) => known.extend(runs),
                None => {
                    self.runs.insert(prefix, runs);
                }
            }
        }
        self.by_age.extend(newer.by_age);
    }

    /// Forgets what was appended before `since_us`.
    pub fn expire(&mut self, since_us: i64) {
        while let Some((created_us, prefix, first)) = self.by_age.front() {
            if *created_us >= since_us {
                break;
            }
            if let Some(runs) = self.runs.get_mut(prefix) {
                runs.remove(first);
                if runs.is_empty() {
                    self.runs.remove(prefix);
                }
            }
            self.by_age.pop_front();
        }
    }

    /// Entries held: what memory is proportional to.
    pub fn entries(&self) -> usize {
        self.by_age.len()
    }
}

/// An id as a prefix and the longest trailing decimal without leading zeros. Distinct ids give
/// distinct pairs, and `prefix + decimal` is the id again.
fn split(id: &str) -> (&str, Option<u64>) {
    let digits = id
        .bytes()
        .rev()
        .take(MAX_DIGITS)
        .take_while(u8::is_ascii_digit)
        .count();
    let tail = &id[id.len() - digits..];
    let number = tail.trim_start_matches('0');
    let number = if number.is_empty() && !tail.is_empty() {
        &tail[tail.len() - 1..]
    } else {
        number
    };
    match number.parse() {
        Ok(value) => (&id[..id.len() - number.len()], Some(value)),
        Err(_) => (id, None),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn splitting_loses_nothing(id in "[a-c0]{0,3}[0-9]{0,25}") {
            let (prefix, number) = split(&id);
            let joined = number.map_or(prefix.to_owned(), |n| format!("{prefix}{n}"));
            prop_assert_eq!(joined, id);
        }

        /// Against a plain list of what was appended.
        #[test]
        fn finds_what_a_list_finds(
            ids in proptest::collection::vec("[ab]?[0-1]?[0-9]", 1..60),
            window in 1_i64..30,
        ) {
            let mut dedup = Dedup::default();
            let mut list: Vec<(String, i64, i64)> = Vec::new();
            for (at, id) in ids.iter().enumerate() {
                let now = at as i64 / 3;
                let since = now - window;
                let expected = list
                    .iter()
                    .rev()
                    .find(|(known, _, created)| known == id && *created >= since)
                    .map(|(_, offset, _)| appended(*offset));
                prop_assert_eq!(dedup.find(id, since), expected);
                if expected.is_none() {
                    let offset = list.len() as i64;
                    dedup.expire(since);
                    if at % 2 == 0 {
                        dedup.insert(id, appended(offset), now);
                    } else {
                        let mut newer = Dedup::default();
                        newer.insert(id, appended(offset), now);
                        dedup.absorb(newer);
                    }
                    list.push((id.clone(), offset, now));
                }
            }
        }
    }

    fn appended(offset: i64) -> Appended {
        Appended {
            offset,
            message_id: MessageId(offset as u128 + 100),
        }
    }

    #[test]
    fn a_batch_with_counting_ids_is_one_entry() {
        let mut dedup = Dedup::default();
        for n in 0..1000 {
            dedup.insert(&format!("7:0:{n}"), appended(n), 5);
        }
        assert_eq!(dedup.entries(), 1);
        assert_eq!(dedup.find("7:0:999", 0), Some(appended(999)));
        assert_eq!(dedup.find("7:0:1000", 0), None);
        dedup.expire(6);
        assert_eq!((dedup.entries(), dedup.find("7:0:1", 0)), (0, None));
    }
}
