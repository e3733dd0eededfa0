//! What a cluster may do now: its status, its growth, its rates, its names, its places.

use std::collections::{BTreeMap, BTreeSet};

use super::{Block, Cell, Entry, Slug, Storm, Unknown};
use crate::bucket::Bucket;
use crate::proxy::plan::Rate;
use crate::proxy::produce::Pushed;
use crate::proxy::refusal::Refusal;
use crate::routes::push::MAX_QUEUE_NAME_CHARS;

impl Cell {
    /// The status gate.
    pub(in crate::proxy) fn admit_status(&self, slug: &Slug) -> Result<(), Refusal> {
        match self.lock().clusters.get(slug) {
            None => Err(Refusal::UnknownCluster),
            Some(entry) if entry.frozen => Err(Refusal::Suspended),
            Some(_) => Ok(()),
        }
    }

    /// What stops growth.
    pub(in crate::proxy) fn admit_growth(&self, slug: &Slug) -> Result<(), Refusal> {
        let block = self.with(slug, |entry| entry.block);
        match block.map_err(|Unknown| Refusal::UnknownCluster)? {
            None => Ok(()),
            Some(Block::Storage) => Err(Refusal::StorageBlock),
            Some(Block::Monthly) => Err(Refusal::MonthlyBlock),
            Some(Block::Push) => Err(Refusal::PushBlock),
        }
    }

    /// Whether a storm refuses everything.
    pub(in crate::proxy) fn admit_storm(&self, slug: &Slug) -> Result<(), Refusal> {
        let storm = self.with(slug, |entry| entry.storm);
        match storm.map_err(|Unknown| Refusal::UnknownCluster)? {
            Some(Storm { retry_after_s }) => Err(Refusal::RateLimited { retry_after_s }),
            None => Ok(()),
        }
    }

    /// Takes a token for a request.
    pub(in crate::proxy) fn admit_request(&self, slug: &Slug) -> Result<(), Refusal> {
        let now = self.host.clock.monotonic();
        self.with(slug, |entry| {
            take(&mut entry.requests, entry.cluster.plan.requests, 1, now)
        })
        .map_err(|Unknown| Refusal::UnknownCluster)?
    }

    /// Takes tokens for the items of a push.
    pub(in crate::proxy) fn admit_messages(
        &self,
        slug: &Slug,
        items: usize,
    ) -> Result<(), Refusal> {
        let now = self.host.clock.monotonic();
        self.with(slug, |entry| {
            take(&mut entry.messages, entry.cluster.plan.messages, items, now)
        })
        .map_err(|Unknown| Refusal::UnknownCluster)?
    }

    /// Whether the plan has room for what a push writes to. Calls that are under way at once are
    /// judged by what was there before all of them.
    pub(in crate::proxy) fn admit_names(
        &self,
        slug: &Slug,
        pushed: &[Pushed],
    ) -> Result<(), Refusal> {
        self.with(slug, |entry| entry.admit_names(pushed))
            .map_err(|Unknown| Refusal::UnknownCluster)?
    }

    /// Keeps what the broker took.
    pub(in crate::proxy) fn register(&self, slug: &Slug, pushed: &[Pushed]) {
        // A cluster can't be removed.
        let _ = self.with(slug, |entry| entry.register(pushed));
    }

    /// Takes a place for a pop that waits.
    pub(in crate::proxy) fn park(&self, slug: &Slug) -> Result<Parked, Refusal> {
        self.with(slug, |entry| {
            let max = entry.cluster.plan.max_parked;
            if max.is_some_and(|max| entry.metering.parked >= max) {
                return Err(Refusal::RateLimited {
                    retry_after_s: Some(PARKED_RETRY_S),
                });
            }
            entry.metering.parked += 1;
            Ok(())
        })
        .map_err(|Unknown| Refusal::UnknownCluster)??;
        Ok(Parked {
            cell: self.clone(),
            slug: slug.clone(),
        })
    }
}

/// Queues of one cluster whose names are kept, where a plan counts anything of them.
const MAX_QUEUES: usize = 100_000;

/// The longest name of a lane that is kept.
const MAX_LANE_BYTES: usize = 1024;

/// When a pop that found no place may come again.
const PARKED_RETRY_S: u64 = 5;

/// The place of a pop that waits, free again when dropped.
#[derive(Debug)]
pub(in crate::proxy) struct Parked {
    cell: Cell,
    slug: Slug,
}

impl Drop for Parked {
    fn drop(&mut self) {
        self.cell.meter(&self.slug, |metering| metering.parked -= 1);
    }
}

impl Entry {
    fn admit_names(&self, pushed: &[Pushed]) -> Result<(), Refusal> {
        let plan = &self.cluster.plan;
        if !plan.counts_names() {
            return Ok(());
        }
        let max_queues = plan.max_queues.unwrap_or(MAX_QUEUES).min(MAX_QUEUES);
        let mut new: BTreeSet<&str> = BTreeSet::new();
        let mut lanes: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
        for Pushed { queue, partition } in pushed {
            if !self.queues.contains_key(queue) {
                new.insert(queue);
            }
            let of_queue = lanes.entry(queue).or_insert_with(|| {
                let had = self.queues.get(queue).into_iter().flatten();
                had.map(String::as_str).collect()
            });
            of_queue.insert(partition);
            if partition.len() > MAX_LANE_BYTES {
                return Err(Refusal::Quota("max_partitions_per_queue"));
            }
            let full = |max: Option<usize>, len| max.is_some_and(|max| len > max);
            if self.queues.len() + new.len() > max_queues {
                return Err(Refusal::Quota("max_queues"));
            }
            if full(plan.max_partitions_per_queue, of_queue.len()) {
                return Err(Refusal::Quota("max_partitions_per_queue"));
            }
        }
        Ok(())
    }

    fn register(&mut self, pushed: &[Pushed]) {
        let plan = &self.cluster.plan;
        if !plan.counts_names() {
            // Nothing is kept that nothing bounds.
            return;
        }
        let counts_lanes = plan.max_partitions_per_queue.is_some();
        // The broker takes no longer name.
        let is_name = |queue: &str| queue.chars().count() <= MAX_QUEUE_NAME_CHARS;
        for Pushed { queue, partition } in pushed.iter().filter(|lane| is_name(&lane.queue)) {
            if self.queues.len() >= MAX_QUEUES && !self.queues.contains_key(queue) {
                continue;
            }
            let of_queue = self.queues.entry(queue.clone()).or_default();
            // Names that nothing bounds are not kept.
            if counts_lanes {
                of_queue.insert(partition.clone());
            }
        }
    }
}

/// Takes tokens. What is more than a bucket ever holds passes once the bucket is full.
fn take(
    bucket: &mut Option<Bucket>,
    rate: Option<Rate>,
    cost: usize,
    now: host::Monotonic,
) -> Result<(), Refusal> {
    let Some(Rate { per_second, burst }) = rate else {
        return Ok(());
    };
    let (rate, burst) = (f64::from(per_second), f64::from(burst));
    let held = bucket.unwrap_or(Bucket::full(burst, now));
    // Item counts are small. A bucket that holds nothing lets nothing pass.
    let cost = (cost as f64).min(burst.max(1.0));
    let taken = held.filled(rate, burst, now).take(cost, rate);
    *bucket = Some(taken.map_err(|seconds| Refusal::RateLimited {
        retry_after_s: Some(seconds),
    })?);
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use uuid::Uuid;

    use super::*;
    use crate::ids::TenantId;
    use crate::proxy::cell::Cluster;
    use crate::proxy::plan::Plan;

    #[test]
    fn a_bucket_that_holds_nothing_lets_nothing_pass() {
        let rate = |burst| {
            Some(Rate {
                per_second: 1,
                burst,
            })
        };
        let now = host::Monotonic::from_origin(Duration::ZERO);
        assert!(take(&mut None, rate(0), 1, now).is_err());
        assert!(take(&mut None, rate(1), 7, now).is_ok());
    }

    #[test]
    fn lanes_are_kept_only_where_a_plan_counts_them() {
        let kept = |max_partitions_per_queue| {
            let plan = Plan {
                max_queues: Some(1),
                max_partitions_per_queue,
                ..Plan::default()
            };
            let mut entry = Entry::new(Cluster {
                id: Uuid::nil(),
                slug: Slug::from("acme"),
                tenant: TenantId(Uuid::nil()),
                plan,
            });
            let lane = Pushed {
                queue: "q".into(),
                partition: "0".into(),
            };
            entry.admit_names(std::slice::from_ref(&lane)).unwrap();
            assert_eq!(entry.queues.len(), 0, "only asked");
            entry.register(&[lane]);
            entry.queues["q"].len()
        };
        assert_eq!((kept(None), kept(Some(1))), (0, 1));
    }
}
