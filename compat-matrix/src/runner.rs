//! Runs checks: several at once where their lanes allow it, each under its time-out, and with its
//! panics kept to itself.

use std::any::Any;
use std::panic::AssertUnwindSafe;
use std::time::Duration;

use futures::{FutureExt, StreamExt};
use reports::{ApiUse, Check, Outcome};
use tokio::time::{Instant, timeout};

use crate::cx::{Cx, api_name};
use crate::expectations::Expectations;
use crate::spec::{Lane, Spec, Stop, Verdict};
use crate::suite;

/// Checks with nodes of their own that run at once.
const OWN_NODES_AT_ONCE: usize = 2;

/// Runs `specs` and tells `done` of each check as it ends. The order of the result is that of `specs`.
pub async fn run(
    cx: &Cx,
    specs: &[Spec],
    expectations: &Expectations,
    done: &(dyn Fn(&Check) + Sync),
) -> Vec<Check> {
    let lane = |lane: Lane| {
        specs
            .iter()
            .enumerate()
            .filter(move |(_, spec)| spec.lane == lane)
    };
    let one = |(at, spec): (usize, &Spec)| {
        let (spec, cx) = (spec.clone(), cx.for_check());
        async move {
            let check = run_one(&spec, cx, expectations).await;
            done(&check);
            (at, check)
        }
    };
    let shared =
        futures::stream::iter(lane(Lane::Shared).map(one)).buffer_unordered(cx.target.at_once());
    let own =
        futures::stream::iter(lane(Lane::OwnNode).map(one)).buffer_unordered(OWN_NODES_AT_ONCE);
    let mut checks: Vec<(usize, Check)> = futures::stream::select(shared, own).collect().await;
    for alone in lane(Lane::Alone) {
        checks.push(one(alone).await);
    }
    checks.sort_by_key(|(at, _)| *at);
    checks.into_iter().map(|(_, check)| check).collect()
}

async fn run_one(spec: &Spec, cx: Cx, expectations: &Expectations) -> Check {
    let began = Instant::now();
    let record = cx.record.clone();
    let target = cx.target.kind().name().to_owned();
    let time_out = spec.time_out * cx.target.patience();
    let verdict = guarded(spec, cx, time_out).await;
    if let Err(Stop::Fail(failure)) = &verdict
        && let Some(difference) = &failure.difference
    {
        record.difference(difference.clone());
    }
    let judgement = expectations.judge(&spec.id, &verdict);
    if judgement.outcome == Outcome::Fail {
        record.note_logs();
    }
    let (evidence, seen) = record.take();
    let apis = if seen.is_empty() {
        spec.apis
            .iter()
            .map(|key| ApiUse {
                key: key.0,
                name: api_name(*key),
                versions: Vec::new(),
            })
            .collect()
    } else {
        seen
    };
    Check {
        id: spec.id.clone(),
        title: spec.title.clone(),
        target,
        client: spec.client.clone(),
        apis,
        kips: spec.kips.clone(),
        observed: suite::observed(&spec.id),
        outcome: judgement.outcome,
        reason: judgement.reason,
        expected: judgement.expected,
        evidence,
        duration_ms: u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX),
    }
}

/// Runs the check in a task of its own, so that neither a panic nor a loop without waits stops others.
pub(crate) async fn guarded(spec: &Spec, cx: Cx, time_out: Duration) -> Verdict {
    let running = tokio::spawn(AssertUnwindSafe(spec.start(cx)).catch_unwind());
    let abort = running.abort_handle();
    match timeout(time_out, running).await {
        Ok(Ok(Ok(verdict))) => verdict,
        Ok(Ok(Err(panic))) => Err(Stop::fail(panic_words(panic.as_ref()))),
        Ok(Err(error)) => Err(Stop::fail(format!("the check was lost: {error}"))),
        Err(_) => {
            abort.abort();
            Err(Stop::fail(format!("not done within {}", seconds(time_out))))
        }
    }
}

fn seconds(time_out: Duration) -> String {
    format!("{} s", time_out.as_secs_f32())
}

fn panic_words(panic: &(dyn Any + Send)) -> String {
    let words = panic
        .downcast_ref::<&str>()
        .map(|text| (*text).to_owned())
        .or_else(|| panic.downcast_ref::<String>().cloned())
        .unwrap_or_else(|| "without words".to_owned());
    format!("the check panicked: {words}")
}

#[cfg(test)]
mod tests;
