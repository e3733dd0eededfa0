//! Popping: look, claim, read what was claimed; park until there is something. The claim is
//! durable before a record is read, so a crash in between redelivers and never loses.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use super::claim::{self, Claim, Claimed, Facts, Scope, Want};
use super::lease;
use super::rows::Start;
use crate::engine::Shared;
use crate::engine::park::Park;
use crate::engine::queue_options::QueueOptions;
use crate::engine::read::{self, UnknownLane};
use crate::engine::segment::Segment;
use crate::engine::writer::{Handle, WriteError};
use crate::ids::TenantId;
use crate::store::StoreError;

/// Bytes of records of one answer, as they were pushed. The segment that crosses it is the last.
const MAX_RAW_BYTES: usize = 16 << 20;
/// Stored bytes read at once.
const READ_BYTES: usize = 4 << 20;

/// What a pop hands out.
#[derive(Clone, Debug, Default)]
pub struct Popped {
    /// The lease and the group's policy.
    pub claim: Claim,
    /// The segments of each claimed lane; they may hold records outside of the claim.
    pub segments: Vec<Vec<Arc<Segment>>>,
}

/// Why nothing was handed out.
#[derive(Debug, thiserror::Error)]
pub enum PopError {
    /// The claim wasn't written.
    #[error(transparent)]
    Write(#[from] WriteError),
    /// What was claimed can't be read.
    #[error(transparent)]
    Read(#[from] StoreError),
}

/// Pops; waits at most `wait` for something to be there. Nothing is no error.
///
/// # Errors
/// See [`PopError`]. A lease that was taken before expires by itself.
pub async fn pop(
    shared: &Arc<Shared>,
    writer: &Handle,
    mut want: Want,
    wait: Duration,
) -> Result<Popped, PopError> {
    let started = Instant::now();
    let deadline = started + wait;
    want.begin(&shared.read());
    let gather_until = gathering(shared, &want).map(|patience| deadline.min(started + patience));
    let mut last_chance = wait.is_zero();
    loop {
        // Before the look, or what comes in between wakes nobody.
        let parked = match &want.scope {
            Scope::Queue(queue) | Scope::Lane(queue, _) => shared
                .pops
                .register(want.tenant, [Park::queue(queue)].into_iter()),
            Scope::Discover { .. } => shared
                .pops
                .register(want.tenant, [Park::ANY_QUEUE].into_iter()),
        };
        let now_ms = shared.host.clock.wall().epoch_ms();
        let (facts, facts_wake_ms) = facts(shared, &want, now_ms).await?;
        let look = claim::look(&shared.read(), &want, &facts, now_ms);
        let full = look.records >= want.batch as u64;
        // An under-full batch may be held back, an empty one is not there to be held.
        let hold = gather_until
            .filter(|until| look.records > 0 && !full && !last_chance && Instant::now() < *until);
        if look.first_contact && hold.is_some() {
            // What comes while it is held back counts for the group: it is registered now.
            let registering = Want {
                batch: 0,
                ..want.clone()
            };
            take(shared, writer, &registering, facts).await?;
            continue;
        }
        if (look.records > 0 && hold.is_none()) || look.first_contact {
            let popped = take(shared, writer, &want, facts).await?;
            if !popped.claim.lanes.is_empty() || last_chance {
                return Ok(popped);
            }
            if look.records > 0 {
                // Another took it between the look and the claim.
                continue;
            }
        } else if last_chance {
            return Ok(empty(shared, &want));
        }
        let wake_ms = [look.wake_at_ms, facts_wake_ms].into_iter().flatten().min();
        let wakes_at = wake_ms
            .map(|at_ms| Instant::now() + Duration::from_millis(at_ms.abs_diff(now_ms).max(1)))
            .into_iter()
            .chain(hold)
            .fold(deadline, Instant::min);
        tokio::select! {
            biased;
            () = parked.woken() => {}
            () = shared.stopping() => last_chance = true,
            () = tokio::time::sleep_until(wakes_at) => last_chance = Instant::now() >= deadline,
        }
    }
}

/// How long an under-full batch is held back; queue-wide pops only.
fn gathering(shared: &Shared, want: &Want) -> Option<Duration> {
    let Scope::Queue(queue) = &want.scope else {
        return None;
    };
    let state = shared.read();
    let ms = state
        .queue(want.tenant, queue)?
        .row
        .options
        .min_pop_wait_time;
    let ms = u64::try_from(ms).ok().filter(|ms| *ms > 0)?;
    (want.batch > 1).then_some(Duration::from_millis(ms))
}

/// An answer without records still tells the group's policy.
fn empty(shared: &Shared, want: &Want) -> Popped {
    let mut claim = Claim::default();
    let state = shared.read();
    if let Scope::Queue(queue) | Scope::Lane(queue, _) = &want.scope {
        let stored = state
            .queue(want.tenant, queue)
            .and_then(|queue| queue.consumers.subscriptions.get(&want.group))
            .is_some_and(|subscription| subscription.conflation);
        claim.conflation = stored;
        claim.conflict = want.conflation.is_some_and(|asked| asked != stored);
    } else {
        claim.conflation = want.conflation == Some(true);
    }
    Popped {
        claim,
        segments: Vec::new(),
    }
}

async fn take(
    shared: &Arc<Shared>,
    writer: &Handle,
    want: &Want,
    facts: Facts,
) -> Result<Popped, PopError> {
    let wanted = want.clone();
    let mut claim = writer
        .write(0, move |batch| claim::plan(batch, &wanted, &facts))
        .await?;
    let mut segments = Vec::with_capacity(claim.lanes.len());
    let mut left = MAX_RAW_BYTES;
    let mut cut = Vec::new();
    for lane in &mut claim.lanes {
        let (read, last) = deliver(shared, want.tenant, lane, &mut left).await?;
        if last < lane.last {
            cut.push((lane.at.clone(), lane.last, last));
            lane.last = last;
        }
        segments.push(read);
    }
    if !cut.is_empty() {
        lease::shorten(writer, want.group.clone(), cut).await?;
    }
    let mut popped = Popped::default();
    for (lane, read) in claim.lanes.drain(..).zip(segments) {
        if lane.first <= lane.last {
            popped.claim.lanes.push(lane);
            popped.segments.push(read);
        }
    }
    popped.claim.lease = claim.lease.filter(|_| !popped.claim.lanes.is_empty());
    popped.claim.conflation = claim.conflation;
    popped.claim.conflict = claim.conflict;
    Ok(popped)
}

/// Reads a claimed span within what is left of the answer, and where it ends then.
async fn deliver(
    shared: &Arc<Shared>,
    tenant: TenantId,
    lane: &Claimed,
    left: &mut usize,
) -> Result<(Vec<Arc<Segment>>, i64), StoreError> {
    let mut segments: Vec<Arc<Segment>> = Vec::new();
    let mut next = lane.first;
    while next <= lane.last && *left > 0 {
        let want = read::Want {
            queue: lane.at.key.queue.to_string(),
            lane: lane.at.key.lane.to_string(),
            offset: next,
            max_bytes: READ_BYTES,
        };
        let found = read::read(shared, tenant, &[want], READ_BYTES, UnknownLane::Empty).await?;
        let Some(found) = found.into_iter().next() else {
            break;
        };
        if found.error.is_some() && found.log_start > next {
            // Retention removed it between the claim and now.
            next = found.log_start;
            continue;
        }
        let before = next;
        for segment in found.segments {
            if *left == 0 || segment.base_offset > lane.last {
                break;
            }
            // What is outside of the claim costs nothing: it isn't in the answer.
            let count = u64::from(segment.packed.count.max(1));
            let taken = segment.end_offset().min(lane.last + 1).abs_diff(next);
            let cost = u64::from(segment.packed.raw_len) * taken.min(count) / count;
            *left = left.saturating_sub(usize::try_from(cost).unwrap_or(usize::MAX));
            next = segment.end_offset();
            segments.push(segment);
        }
        if next == before {
            // The lane is gone, or the queue was made anew.
            break;
        }
    }
    Ok((segments, (next - 1).min(lane.last)))
}

/// What a look needs beyond the rows, and when it will change by time alone.
async fn facts(
    shared: &Arc<Shared>,
    want: &Want,
    now_ms: i64,
) -> Result<(Facts, Option<i64>), StoreError> {
    let (delayed, unseeded) = {
        let state = shared.read();
        let delays = |options: &QueueOptions| options.delayed_processing > 0;
        let from_instant = matches!(want.start, Start::From(_));
        if !from_instant && !want.queues(&state).iter().any(|q| delays(&q.row.options)) {
            return Ok((Facts::default(), None));
        }
        let delayed: Vec<_> = want
            .lanes(&state)
            .filter(|(queue, ..)| delays(&queue.row.options))
            .map(|(queue, key, _)| (key, queue.row.options.delayed_processing))
            .collect();
        let unseeded: Vec<_> = want
            .lanes(&state)
            .filter(|(queue, _, lane)| {
                from_instant
                    && !queue.consumers.subscriptions.contains_key(&want.group)
                    && !lane.consumers.cursors.contains_key(&want.group)
            })
            .map(|(_, key, _)| key)
            .collect();
        (delayed, unseeded)
    };
    let mut facts = Facts::default();
    let mut wake_ms: Option<i64> = None;
    for (key, seconds) in delayed {
        let delay_ms = seconds.saturating_mul(1000);
        let old_enough_us = now_ms.saturating_sub(delay_ms).saturating_mul(1000);
        let (found, first) = read::first_since(
            shared,
            want.tenant,
            &key.queue,
            &key.lane,
            old_enough_us + 1,
            UnknownLane::Empty,
        )
        .await?;
        let end = first.map_or(found.high_watermark, |(offset, created_us)| {
            let at_ms = created_us / 1000 + delay_ms + 1;
            wake_ms = Some(wake_ms.map_or(at_ms, |known| known.min(at_ms)));
            offset
        });
        facts.visible_end.insert(key, end);
    }
    if let Start::From(since_ms) = want.start {
        for key in unseeded {
            let committed = super::admin::before_instant(shared, &key, since_ms).await?;
            facts.seeds.insert(key, committed);
        }
    }
    Ok((facts, wake_ms))
}
