//! Random pops, acks, extensions and power cuts against a model of plain cursors: every answer is
//! the model's, so nothing is handed out twice under a lease, skipped, or forgotten.

use std::collections::BTreeMap;

use fake_queen::{Options, Storage};
use proptest::prelude::*;
use serde_json::{Value, json};

use super::pop;
use crate::client::Client;
use crate::disk::Disk;
use crate::world::{self, World, unlimited};

const LANES: [&str; 3] = ["a", "b", "c"];
const GROUPS: [&str; 2] = ["g", "h"];
const RETRY_LIMIT: u32 = 2;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Status {
    Silent,
    Completed,
    Failed,
    Retry,
    DeadLetter,
}

impl Status {
    fn text(self) -> &'static str {
        match self {
            Self::Silent => unreachable!("nothing is sent"),
            Self::Completed => "completed",
            Self::Failed => "failed",
            Self::Retry => "retry",
            Self::DeadLetter => "dlq",
        }
    }
}

#[derive(Clone, Debug)]
enum Step {
    Push {
        lane: u8,
        count: u8,
    },
    Pop {
        group: u8,
        batch: u8,
        lanes: u8,
        auto_ack: bool,
    },
    Ack {
        batch: u8,
        statuses: Vec<Status>,
        shows_lease: bool,
    },
    Extend {
        batch: u8,
        seconds: u8,
    },
    Sleep(u8),
    PowerCut(u64),
}

fn status() -> impl Strategy<Value = Status> {
    prop_oneof![
        3 => Just(Status::Silent),
        6 => Just(Status::Completed),
        2 => Just(Status::Failed),
        1 => Just(Status::Retry),
        1 => Just(Status::DeadLetter),
    ]
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => (0..3_u8, 1..4_u8).prop_map(|(lane, count)| Step::Push { lane, count }),
        6 => (0..2_u8, 1..6_u8, 0..4_u8, prop::bool::weighted(0.15)).prop_map(
            |(group, batch, lanes, auto_ack)| Step::Pop { group, batch, lanes, auto_ack }
        ),
        6 => (any::<u8>(), proptest::collection::vec(status(), 6), prop::bool::weighted(0.85)).prop_map(
            |(batch, statuses, shows_lease)| Step::Ack { batch, statuses, shows_lease }
        ),
        1 => (any::<u8>(), 1..40_u8).prop_map(|(batch, seconds)| Step::Extend { batch, seconds }),
        2 => (1..40_u8).prop_map(Step::Sleep),
        1 => any::<u64>().prop_map(Step::PowerCut),
    ]
}

#[derive(Clone, Debug)]
struct Lease {
    id: String,
    expires_s: u64,
    end: i64,
}

#[derive(Clone, Debug, Default)]
struct Cursor {
    next: i64,
    lease: Option<Lease>,
    retries: u32,
    claimed_ms: u64,
}

#[derive(Default)]
struct Model {
    now_ms: u64,
    /// Records by lane.
    logs: BTreeMap<&'static str, i64>,
    cursors: BTreeMap<(&'static str, &'static str), Cursor>,
    dead: Vec<(&'static str, &'static str, i64)>,
    /// What was handed out: group and answer.
    batches: Vec<(&'static str, Value)>,
}

impl Model {
    fn claim(
        &mut self,
        group: &'static str,
        batch: i64,
        lanes: usize,
        auto_ack: bool,
    ) -> Vec<(&'static str, i64)> {
        let now_s = self.now_ms / 1000;
        let mut free: Vec<&'static str> = self
            .logs
            .iter()
            .filter(|(lane, high)| {
                let cursor = self.cursors.entry((group, **lane)).or_default();
                let held = cursor
                    .lease
                    .as_ref()
                    .is_some_and(|lease| lease.expires_s > now_s);
                !held && cursor.next < **high
            })
            .map(|(lane, _)| *lane)
            .collect();
        free.sort_by_key(|lane| self.cursors[&(group, *lane)].claimed_ms);
        let (mut left, mut taken) = (batch, Vec::new());
        for lane in free
            .into_iter()
            .take(if lanes == 0 { usize::MAX } else { lanes })
        {
            if left == 0 {
                break;
            }
            let high = self.logs[lane];
            let cursor = self.cursors.get_mut(&(group, lane)).unwrap();
            let end = high.min(cursor.next + left);
            left -= end - cursor.next;
            taken.extend((cursor.next..end).map(|offset| (lane, offset)));
            cursor.claimed_ms = self.now_ms;
            cursor.lease = None;
            if auto_ack {
                cursor.next = end;
            } else {
                cursor.lease = Some(Lease {
                    id: String::new(),
                    expires_s: now_s + 20,
                    end: end - 1,
                });
            }
        }
        taken
    }

    fn lend(&mut self, group: &'static str, taken: &[(&'static str, i64)], id: &str) {
        for (lane, _) in taken {
            let cursor = self.cursors.get_mut(&(group, *lane)).unwrap();
            if let Some(lease) = &mut cursor.lease {
                lease.id = id.to_owned();
            }
        }
    }

    /// Expected `(success, noop, dlq)` of each ack of one lane.
    fn ack(
        &mut self,
        group: &'static str,
        lane: &'static str,
        shown: Option<&str>,
        acks: &[(i64, Status)],
    ) -> Vec<(bool, bool, bool)> {
        let now_s = self.now_ms / 1000;
        let cursor = self.cursors.get_mut(&(group, lane)).unwrap();
        let live = cursor
            .lease
            .as_ref()
            .filter(|lease| lease.expires_s > now_s);
        if shown.is_some_and(|shown| live.is_none_or(|lease| lease.id != shown)) {
            return vec![(false, false, false); acks.len()];
        }
        let end = cursor.lease.as_ref().map(|lease| lease.end);
        let counts = |offset: i64| offset >= cursor.next && end.is_none_or(|end| offset <= end);
        let mut verdicts: Vec<(bool, bool, bool)> = acks
            .iter()
            .map(|(offset, status)| {
                let noop = *offset < cursor.next && *status == Status::Completed;
                (noop || counts(*offset), noop, false)
            })
            .collect();
        let signal = acks
            .iter()
            .position(|(offset, status)| *status != Status::Completed && counts(*offset));
        let limit = signal.map_or(i64::MAX, |at| acks[at].0);
        let done = acks
            .iter()
            .filter(|(offset, status)| *status == Status::Completed && counts(*offset))
            .map(|(offset, _)| *offset)
            .filter(|offset| *offset < limit)
            .max();
        if let Some(done) = done {
            cursor.next = done + 1;
        }
        let Some(end) = end else { return verdicts };
        match signal {
            Some(at) => {
                let (offset, status) = acks[at];
                let exhausted = cursor.retries >= RETRY_LIMIT;
                if status == Status::DeadLetter || (status == Status::Failed && exhausted) {
                    verdicts[at].2 = true;
                    self.dead.push((group, lane, offset));
                    cursor.next = offset + 1;
                    cursor.retries = 0;
                } else if status == Status::Failed {
                    cursor.retries += 1;
                }
                cursor.lease = None;
            }
            None if done.is_some() && cursor.next > end => {
                cursor.retries = 0;
                cursor.lease = None;
            }
            None => {}
        }
        verdicts
    }
}

fn place(message: &Value) -> (&'static str, i64) {
    let lane = LANES
        .iter()
        .find(|lane| message["partition"] == **lane)
        .unwrap();
    assert_eq!(message["data"]["lane"], **lane);
    (lane, message["data"]["offset"].as_i64().unwrap())
}

async fn act(client: &Client, model: &mut Model, step: &Step) {
    match step {
        Step::Push { lane, count } => {
            let lane = LANES[usize::from(*lane)];
            let high = model.logs.entry(lane).or_default();
            let items: Vec<Value> = (*high..*high + i64::from(*count))
                .map(|offset| {
                    json!({"queue": "q", "partition": lane, "payload": {"lane": lane, "offset": offset}})
                })
                .collect();
            *high += i64::from(*count);
            client.post("push", 201, json!({ "items": items })).await;
        }
        Step::Pop {
            group,
            batch,
            lanes,
            auto_ack,
        } => {
            let group = GROUPS[usize::from(*group)];
            let expected = model.claim(group, i64::from(*batch), usize::from(*lanes), *auto_ack);
            let path = format!(
                "queue/q?consumerGroup={group}&batch={batch}&partitions={lanes}&autoAck={auto_ack}\
                &leaseSeconds=20&subscriptionMode=all"
            );
            let popped = pop(client, &path)
                .await
                .unwrap_or_else(|| json!({"messages": []}));
            let messages = popped["messages"].as_array().unwrap();
            let got: Vec<_> = messages.iter().map(place).collect();
            assert_eq!(got, expected);
            model.lend(
                group,
                &expected,
                popped["leaseId"].as_str().unwrap_or_default(),
            );
            if !messages.is_empty() {
                model.batches.push((group, popped));
            }
        }
        Step::Ack {
            batch,
            statuses,
            shows_lease,
        } => {
            if model.batches.is_empty() {
                return;
            }
            let at = usize::from(*batch) % model.batches.len();
            let (group, popped) = model.batches[at].clone();
            let messages = popped["messages"].as_array().unwrap();
            let chosen: Vec<(&Value, Status)> = messages
                .iter()
                .zip(statuses.iter().cycle().copied())
                .filter(|(_, status)| *status != Status::Silent)
                .collect();
            let lease = popped["leaseId"].as_str().unwrap();
            let shown = Some(lease).filter(|lease| *shows_lease && !lease.is_empty());
            let acks: Vec<Value> = chosen
                .iter()
                .map(|(message, status)| {
                    json!({"transactionId": message["transactionId"], "status": status.text(),
                        "partitionId": message["partitionId"], "leaseId": shown})
                })
                .collect();
            let body = json!({"consumerGroup": group, "acknowledgments": acks});
            let results = client.post("ack/batch", 200, body).await;
            let mut index = 0;
            // A batch names each lane once, in a run.
            for run in chosen.chunk_by(|(a, _), (b, _)| a["partition"] == b["partition"]) {
                let lane = place(run[0].0).0;
                let acks: Vec<(i64, Status)> = run
                    .iter()
                    .map(|(message, status)| (place(message).1, *status))
                    .collect();
                for expected in model.ack(group, lane, shown, &acks) {
                    let result = &results[index];
                    let got = (
                        result["success"].as_bool().unwrap(),
                        result["noop"].as_bool().unwrap(),
                        result["dlq"].as_bool().unwrap(),
                    );
                    assert_eq!(got, expected, "{result}");
                    index += 1;
                }
            }
        }
        Step::Extend { batch, seconds } => {
            if model.batches.is_empty() {
                return;
            }
            let at = usize::from(*batch) % model.batches.len();
            let (group, popped) = model.batches[at].clone();
            let id = popped["leaseId"].as_str().unwrap();
            if id.is_empty() {
                return;
            }
            let now_s = model.now_ms / 1000;
            let mut renewed = 0;
            for ((owner, _), cursor) in &mut model.cursors {
                if let Some(lease) = &mut cursor.lease
                    && *owner == group
                    && lease.id == id
                    && lease.expires_s > now_s
                {
                    lease.expires_s = lease.expires_s.max(now_s + u64::from(*seconds));
                    renewed += 1;
                }
            }
            let body = json!({"seconds": seconds});
            let answer = client.post(&format!("lease/{id}/extend"), 200, body).await;
            assert_eq!(answer["renewed"], renewed);
        }
        Step::Sleep(seconds) => {
            tokio::time::sleep(std::time::Duration::from_secs(u64::from(*seconds))).await;
            model.now_ms += u64::from(*seconds) * 1000;
        }
        Step::PowerCut(_) => {}
    }
}

/// Views show the model.
async fn check(client: &Client, model: &Model) {
    for group in GROUPS {
        let view = client.get(&format!("consumer-groups/{group}")).await;
        let shown: BTreeMap<String, u64> = view["q"]["partitions"]
            .as_array()
            .into_iter()
            .flatten()
            .map(|row| {
                let lane = row["partition"].as_str().unwrap().to_owned();
                (lane, row["offsetLag"].as_u64().unwrap())
            })
            .collect();
        for (lane, lag) in shown {
            let known = LANES.iter().find(|known| **known == lane).unwrap();
            let next = model
                .cursors
                .get(&(group, known))
                .map_or(0, |cursor| cursor.next);
            assert_eq!(lag, (model.logs[known] - next).unsigned_abs());
        }
    }
    let letters = client.get("dlq?limit=1000").await;
    let mut shown: Vec<(String, String, i64)> = letters["messages"]
        .as_array()
        .unwrap()
        .iter()
        .map(|row| {
            let text = |field: &str| row[field].as_str().unwrap().to_owned();
            (
                text("consumerGroup"),
                text("partition"),
                row["data"]["offset"].as_i64().unwrap(),
            )
        })
        .collect();
    shown.sort();
    let mut expected: Vec<_> = model
        .dead
        .iter()
        .map(|(group, lane, offset)| ((*group).to_owned(), (*lane).to_owned(), *offset))
        .collect();
    expected.sort();
    assert_eq!(shown, expected);
}

async fn run(steps: Vec<Step>, durable: bool) {
    let host = world::host();
    let mut disk = Disk::default();
    let options = |disk: &Disk| Options {
        storage: if durable {
            Storage::Backend(Box::new(disk.clone()))
        } else {
            Storage::Memory
        },
        segment_cache_bytes: 60,
        ..unlimited()
    };
    let mut world = World::on(host.clone(), options(&disk)).await;
    let configure = json!({"queue": "q", "retryLimit": RETRY_LIMIT});
    world.client.post("configure", 200, configure).await;
    let mut model = Model {
        now_ms: 1_000_000,
        ..Model::default()
    };
    for step in steps {
        if let Step::PowerCut(keep) = step
            && durable
        {
            disk = disk.after_power_cut(|nth| keep >> (nth % 64) & 1 == 1);
            world = World::on(host.clone(), options(&disk)).await;
        }
        let client = world.client.clone();
        act(&client, &mut model, &step).await;
        check(&client, &model).await;
    }
}

fn simulate(steps: Vec<Step>, durable: bool) {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .start_paused(true)
        .build()
        .unwrap()
        .block_on(run(steps, durable));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    #[test]
    fn consumers_in_memory_are_the_model(steps in proptest::collection::vec(step(), 1..60)) {
        simulate(steps, false);
    }

    #[test]
    fn consumers_over_a_disk_that_loses_power_are_the_model(
        steps in proptest::collection::vec(step(), 1..40),
    ) {
        simulate(steps, true);
    }
}
