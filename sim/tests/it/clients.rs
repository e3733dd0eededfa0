//! Whole clients against the shipped facade, without a fault: they do what an application asks.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use futures::FutureExt;
use futures::future::BoxFuture;
use kafka_wire::ErrorCode;
use sim::client::admin::{Admin, AdminError};
use sim::client::consumer::{Consumer, Settings, Start};
use sim::client::producer::{Plan, Producer, Record, Writer};
use sim::client::profile::HURRIED;
use sim::client::{Access, Client, Profile};
use sim::history::{Entry, Event, Name, Promise, Recorder, Reply, TopicPartition, Value, check};
use sim::schedule::Step;
use sim::seed::Numbers;
use sim::trace::{Node, Trace};
use sim::world::{Clients, Description, Ending, KAFKA_PORT, World};

use crate::scenarios::everything;

const PARTITIONS: i32 = 4;
const TOPIC: &str = "orders";

/// A healthy world.
#[derive(Clone)]
pub struct Stage {
    clients: Clients,
    recorder: Recorder,
    profile: &'static Profile,
}

impl Stage {
    pub fn client(&self, id: &str) -> Client {
        Client {
            host: self.clients.host(id),
            profile: self.profile,
            id: id.into(),
            bootstrap: (Node::Facade.name().to_owned(), KAFKA_PORT),
            recorder: self.recorder.clone(),
            access: Access::default(),
        }
    }

    async fn write(&self, batches: u64) {
        let plan = Plan {
            producer: 7,
            topic: TOPIC.into(),
            partition: None,
            batches,
            records: 4,
            every: Duration::from_millis(50),
            promises: &[Promise::Once, Promise::Ordered, Promise::NeverRefused],
        };
        let pace = Numbers::new(1, "pace");
        Writer::new(self.client("writer"), plan, pace).run().await;
    }

    fn member(&self, id: &str, settings: Settings) -> Consumer {
        let settings = Settings {
            group: Some("g".into()),
            promises: vec![Promise::NeverRefused],
            ..settings
        };
        Consumer::subscribed(self.client(id), settings, [Name::from(TOPIC)])
    }
}

/// Runs `play` to its end; nothing in the history may be wrong.
pub fn run(
    profile: &'static Profile,
    play: impl FnOnce(Stage) -> BoxFuture<'static, ()> + 'static,
) -> Vec<Entry> {
    run_under(&[], profile, play)
}

/// The same under `schedule`.
fn run_under(
    schedule: &[Step],
    profile: &'static Profile,
    play: impl FnOnce(Stage) -> BoxFuture<'static, ()> + 'static,
) -> Vec<Entry> {
    let trace = Trace::default();
    let recorder = Recorder::new(trace.clone());
    let description = Description {
        seed: 1,
        partitions: PARTITIONS,
        ..Description::default()
    };
    let workload = {
        let recorder = recorder.clone();
        Box::new(move |clients, _| {
            play(Stage {
                clients,
                recorder,
                profile,
            })
        })
    };
    let mut world = World::new(
        &description,
        trace.clone(),
        recorder.clone(),
        workload,
        None,
    )
    .expect("a world that can be");
    let (heal_at, patience) = (Duration::from_secs(8), Duration::from_secs(120));
    let ending = world.run(schedule, heal_at, patience);
    drop(world);
    let history = recorder.entries();
    let tail = |lines: usize| {
        let all = trace.lines();
        all[all.len().saturating_sub(lines)..].join("\n")
    };
    assert_eq!(ending, Ending::Finished, "{}:\n{}", profile.name, tail(80));
    let verdicts = check(&history);
    assert!(verdicts.is_empty(), "{}: {verdicts:#?}", profile.name);
    history
}

/// Values that were read, each with its place.
#[derive(Clone, Default)]
struct Seen(Arc<Mutex<Vec<(TopicPartition, i64, Value)>>>);

impl Seen {
    fn lock(&self) -> MutexGuard<'_, Vec<(TopicPartition, i64, Value)>> {
        self.0.lock().expect("no test panics while it holds this")
    }

    async fn poll(&self, consumer: &Consumer) {
        let polled = consumer.poll(Duration::from_millis(200)).await;
        for one in polled.expect("a consumer that is of use") {
            for record in one.records {
                let place = (one.at.clone(), record.offset, record.value);
                self.lock().push(place);
            }
        }
    }

    /// How many different records.
    fn len(&self) -> usize {
        self.lock().iter().collect::<BTreeSet<_>>().len()
    }
}

fn count(history: &[Entry], is: impl Fn(&Event) -> bool) -> usize {
    history.iter().filter(|entry| is(&entry.event)).count()
}

#[test]
fn a_group_shares_a_topic_and_reads_all_of_it() {
    for profile in HURRIED {
        let history = run(profile, |stage| {
            async move {
                let seen = Seen::default();
                let auto = Settings {
                    auto_commit: true,
                    create_topics: true,
                    ..Settings::default()
                };
                let first = stage.member("a", auto.clone());
                let writing = {
                    let stage = stage.clone();
                    tokio::spawn(async move { stage.write(160).await })
                };
                while seen.len() < 20 {
                    seen.poll(&first).await;
                }
                let second = stage.member("b", auto);
                // One application polls both in turn: a rebalance needs both.
                while seen.len() < 640 || !second.is_stable() || !first.is_stable() {
                    tokio::join!(seen.poll(&first), seen.poll(&second));
                }
                writing.await.expect("the writer ends");
                let shares = [first.assignment(), second.assignment()];
                assert_eq!(shares.each_ref().map(BTreeSet::len), [2, 2], "{shares:?}");
                assert!(shares[0].is_disjoint(&shares[1]));
                first.close().await;
                second.close().await;
            }
            .boxed()
        });
        let commits = |event: &Event| matches!(event, Event::Ok { reply: Reply::Committed { refused }, .. } if refused.is_empty());
        assert!(count(&history, commits) > 2, "{}", profile.name);
        let revoked = |event: &Event| matches!(event, Event::Revoked { .. });
        assert!(count(&history, revoked) >= 3, "{}", profile.name);
    }
}

#[test]
fn a_static_member_comes_back_to_what_it_had() {
    for profile in HURRIED {
        run(profile, |stage| {
            async move {
                let settings = Settings {
                    instance: Some("i".into()),
                    create_topics: true,
                    ..Settings::default()
                };
                let seen = Seen::default();
                stage.write(10).await;
                let member = stage.member("a", settings.clone());
                while seen.len() < 40 {
                    seen.poll(&member).await;
                }
                member.commit().await.expect("committed");
                let before = member.assignment();
                member.close().await;
                let again = stage.member("a", settings);
                while again.assignment() != before {
                    seen.poll(&again).await;
                }
                stage.write_more().await;
                while seen.len() < 44 {
                    seen.poll(&again).await;
                }
                let all = seen.lock().len();
                assert_eq!(all, 44, "nothing that was committed is read again");
            }
            .boxed()
        });
    }
}

impl Stage {
    /// Four records of another writer.
    async fn write_more(&self) {
        let client = self.client("another writer");
        client.introduce(Vec::new());
        let producer = Producer::start(client);
        let deliveries: Vec<_> = (0..4)
            .map(|number| {
                producer.send(Record {
                    topic: TOPIC.into(),
                    partition: Some(i32::try_from(number).unwrap_or_default()),
                    key: None,
                    value: Value {
                        producer: 8,
                        number,
                    },
                })
            })
            .collect();
        producer.flush().await;
        for (delivery, partition) in deliveries.into_iter().zip(0..) {
            let delivered = delivery.result().await.expect("stored");
            assert_eq!(delivered.partition, partition);
            assert!(delivered.offset.is_some());
        }
    }
}

#[test]
fn an_assigned_consumer_goes_where_it_is_sent() {
    for profile in HURRIED {
        run(profile, |stage| {
            async move {
                stage.write_more().await;
                let at = TopicPartition::new(TOPIC, 2);
                let settings = Settings::default();
                let consumer =
                    Consumer::assigned(stage.client("a"), settings, [at.clone()], Start::Reset);
                let seen = Seen::default();
                while seen.len() < 1 {
                    seen.poll(&consumer).await;
                }
                assert_eq!(consumer.position(&at), Some(1));
                consumer.pause(&at);
                consumer.seek(&at, 0);
                seen.poll(&consumer).await;
                assert_eq!(seen.lock().len(), 1, "it rests");
                consumer.resume(&at);
                while seen.lock().len() < 2 {
                    seen.poll(&consumer).await;
                }
                // Beyond the log: back to its beginning.
                consumer.seek(&at, 99);
                while seen.lock().len() < 3 {
                    seen.poll(&consumer).await;
                }
                assert_eq!(seen.len(), 1);
            }
            .boxed()
        });
    }
}

#[test]
fn an_administrator_does_everything_once() {
    for profile in HURRIED {
        run(profile, |stage| administer(stage).boxed());
    }
}

async fn administer(stage: Stage) {
    let admin = Admin::new(stage.client("admin"), Duration::from_secs(10));
    let topic = Name::from(TOPIC);
    let retention = [("retention.ms", "86400000")];
    admin
        .create_topic(&topic, 2, &retention)
        .await
        .expect("created");
    let again = admin.create_topic(&topic, 2, &[]).await;
    let exists = AdminError::Refused(ErrorCode::TopicAlreadyExists);
    assert_eq!(again, Err(exists));
    admin
        .create_partitions(&topic, PARTITIONS)
        .await
        .expect("more partitions");
    let value = async |config: &str| {
        let all = admin.describe_topic_configs(&topic).await.expect("told");
        let mut all = all.into_iter();
        all.find(|(name, _)| name == config)
            .and_then(|(_, value)| value)
    };
    assert_eq!(value("retention.ms").await.as_deref(), Some("86400000"));
    let hour = [("retention.ms", "3600000")];
    admin.set_topic_configs(&topic, &hour).await.expect("set");
    assert_eq!(value("retention.ms").await.as_deref(), Some("3600000"));
    admin
        .replace_topic_configs(&topic, &[("max.message.bytes", "2000000")])
        .await
        .expect("replaced");
    assert_ne!(value("retention.ms").await.as_deref(), Some("3600000"));

    stage.write_more().await;
    let at = TopicPartition::new(TOPIC, 1);
    assert_eq!(admin.delete_records(&at, 1).await, Ok(1));

    let (group, seen) = (Name::from("g"), Seen::default());
    let member = stage.member("a", Settings::default());
    while seen.len() < 3 {
        seen.poll(&member).await;
    }
    let described = admin.describe_group(&group).await.expect("described");
    assert_eq!(
        (described.state.as_str(), described.members.len()),
        ("Stable", 1)
    );
    let kept = admin.delete_group(&group).await;
    assert_eq!(kept, Err(AdminError::Refused(ErrorCode::NonEmptyGroup)));
    member.commit().await.expect("committed");
    member.close().await;
    let listed = admin.list_groups().await.expect("listed");
    assert!(listed.iter().any(|one| one.group == group), "{listed:?}");
    admin.delete_group(&group).await.expect("deleted");
    admin.delete_topic(&topic).await.expect("deleted");
    let gone = admin.delete_topic(&topic).await;
    let unknown = AdminError::Refused(ErrorCode::UnknownTopicOrPartition);
    assert!(gone == Err(unknown), "{gone:?}");
    admin.close().await;
}

#[test]
fn a_group_outlives_every_fault_and_reads_everything() {
    for profile in HURRIED {
        let history = run_under(&everything(), profile, |stage| {
            async move {
                let seen = Seen::default();
                let settings = Settings {
                    auto_commit: true,
                    create_topics: true,
                    ..Settings::default()
                };
                let writing = {
                    let stage = stage.clone();
                    tokio::spawn(async move { stage.write(120).await })
                };
                let members = ["a", "b", "c"].map(|id| stage.member(id, settings.clone()));
                let [a, b, c] = &members;
                let settled = || members.iter().all(Consumer::is_stable);
                while seen.len() < 480 || !settled() || !writing.is_finished() {
                    tokio::join!(seen.poll(a), seen.poll(b), seen.poll(c));
                }
                let shares: Vec<_> = members.iter().map(Consumer::assignment).collect();
                let owned: BTreeSet<_> = shares.iter().flatten().collect();
                let shared: usize = shares.iter().map(BTreeSet::len).sum();
                assert_eq!((owned.len(), shared), (4, 4), "{shares:?}");
            }
            .boxed()
        });
        // The faults were felt: calls failed, and some in doubt.
        let failed = |event: &Event| matches!(event, Event::Unknown { .. } | Event::Fail { .. });
        assert!(count(&history, failed) > 10, "{}", profile.name);
    }
}
