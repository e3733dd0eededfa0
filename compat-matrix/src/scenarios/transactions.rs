//! Transactions as applications use them: all or nothing, once, and for one instance.

use kafka_wire::ApiKey;

use super::client::{Client, from_start, number};
use super::{Env, Scenario};
use crate::drivers::Refusal;
use crate::drivers::protocol::{Isolation, Op, Place, ProducerIdentity, Setting};
use crate::relay::{Act, Rule, Side};
use crate::spec::{Stop, Verdict, ensure, expect_eq};
use crate::target::Node;

const APIS: &[ApiKey] = &[
    ApiKey::INIT_PRODUCER_ID,
    ApiKey::ADD_PARTITIONS_TO_TXN,
    ApiKey::PRODUCE,
    ApiKey::END_TXN,
    ApiKey::FETCH,
];

pub(super) fn scenarios() -> Vec<Scenario> {
    vec![
        Scenario::new(
            "transaction-commit-and-abort",
            "What was committed is read once, what was aborted or is open never",
            APIS,
            commit_and_abort,
        )
        .kips(&[98]),
        Scenario::new(
            "transaction-consume-transform-produce",
            "A loop that reads, writes and commits in transactions does each once, over an abort",
            &[
                ApiKey::ADD_OFFSETS_TO_TXN,
                ApiKey::TXN_OFFSET_COMMIT,
                ApiKey::END_TXN,
                ApiKey::OFFSET_FETCH,
            ],
            consume_transform_produce,
        )
        .within(60)
        .kips(&[98, 447]),
        Scenario::new(
            "transaction-fenced-zombie",
            "An instance that was replaced commits nothing",
            APIS,
            fenced_zombie,
        )
        .kips(&[98]),
        Scenario::new(
            "transaction-over-restart",
            "A transaction goes on after its server was killed in the middle",
            APIS,
            over_restart,
        )
        .on_its_own_node()
        .within(90),
        Scenario::new(
            "transaction-resumed",
            "A transaction is committed by another producer that takes on its id and epoch, as Flink does after a failure",
            APIS,
            resumed,
        )
        .within(40),
        Scenario::new(
            "transaction-resumed-over-a-kill",
            "The same after a kill of the server, where transactions are staged in Queen",
            APIS,
            resumed_over_a_kill,
        )
        .on_its_own_node()
        .within(90),
    ]
}

async fn op(client: &mut Client, op: Op) -> Result<(), Refusal> {
    let _: serde_json::Map<String, serde_json::Value> = client.call(&op).await?;
    Ok(())
}

async fn transactional(client: &mut Client, id: &str) -> Verdict {
    client
        .producer(&[Setting::TransactionalId(id.to_owned())])
        .await?;
    Ok(op(client, Op::InitTransactions).await?)
}

/// The numbers that a consumer of committed records sees in a topic of one partition.
async fn committed(client: &mut Client, topic: &str, count: usize) -> Result<Vec<u64>, Stop> {
    client
        .reader_with(
            from_start(topic, 1),
            &[Setting::Isolation(Isolation::ReadCommitted)],
        )
        .await?;
    let records = client.read_exactly(count).await?;
    records.iter().map(number).collect()
}

async fn commit_and_abort(env: Env) -> Verdict {
    let (mut client, topic) = env.topic(1).await?;
    let id = env.cx.unique("txn");
    transactional(&mut client, &id).await?;
    op(&mut client, Op::BeginTransaction).await?;
    client.produce_numbers(&topic, Some(0), 0, 10).await?;
    op(&mut client, Op::CommitTransaction).await?;
    op(&mut client, Op::BeginTransaction).await?;
    client.produce_numbers(&topic, Some(0), 100, 10).await?;
    op(&mut client, Op::AbortTransaction).await?;
    op(&mut client, Op::BeginTransaction).await?;
    client.produce_numbers(&topic, Some(0), 10, 10).await?;
    op(&mut client, Op::CommitTransaction).await?;
    op(&mut client, Op::BeginTransaction).await?;
    client.produce_numbers(&topic, Some(0), 200, 5).await?;
    let mut reader = env.eyes(env.cx.bootstrap()).await?;
    let seen = committed(&mut reader, &topic, 20).await?;
    expect_eq("the numbers", &(0..20).collect::<Vec<u64>>(), &seen)?;
    op(&mut client, Op::AbortTransaction).await?;
    Ok(())
}

async fn consume_transform_produce(env: Env) -> Verdict {
    const COUNT: u64 = 60;
    let (mut source, input) = env.topic(1).await?;
    let (mut client, output) = env.topic(1).await?;
    source.producer(&[]).await?;
    source.produce_numbers(&input, Some(0), 0, COUNT).await?;
    let (group, id) = (env.cx.unique("group"), env.cx.unique("txn"));
    client
        .member(
            &group,
            &[&input],
            &[Setting::Isolation(Isolation::ReadCommitted)],
        )
        .await?;
    transactional(&mut client, &id).await?;
    let mut next = 0;
    let mut round = 0;
    let mut backlog: Vec<u64> = Vec::new();
    while next < COUNT {
        if backlog.is_empty() {
            client.pump(2_000, 20).await?;
            let records = client.take_records();
            ensure(!records.is_empty(), || format!("nothing came after {next}"))?;
            for record in &records {
                backlog.push(number(record)?);
            }
        }
        let (first, count) = (backlog[0], backlog.len() as u64);
        expect_eq("the next number", &next, &first)?;
        op(&mut client, Op::BeginTransaction).await?;
        client
            .produce_numbers(&output, Some(0), first, count)
            .await?;
        let offset = i64::try_from(first + count).unwrap_or(i64::MAX);
        let offsets = vec![Place::new(&input, 0, offset)];
        op(&mut client, Op::SendOffsets { offsets }).await?;
        round += 1;
        // Every other one is given up, and done again.
        if round % 2 == 1 {
            op(&mut client, Op::AbortTransaction).await?;
        } else {
            op(&mut client, Op::CommitTransaction).await?;
            next += count;
            backlog.clear();
        }
    }
    let found = client.committed(vec![Place::new(&input, 0, 0)]).await?;
    expect_eq("the committed offset", &(COUNT as i64), &found[0].offset)?;
    let mut reader = env.eyes(env.cx.bootstrap()).await?;
    let seen = committed(&mut reader, &output, COUNT as usize).await?;
    expect_eq("the numbers", &(0..COUNT).collect::<Vec<u64>>(), &seen)
}

async fn fenced_zombie(env: Env) -> Verdict {
    let (mut zombie, topic) = env.topic(1).await?;
    let id = env.cx.unique("txn");
    transactional(&mut zombie, &id).await?;
    op(&mut zombie, Op::BeginTransaction).await?;
    zombie.produce_numbers(&topic, Some(0), 100, 5).await?;
    let mut heir = env.client().await?;
    transactional(&mut heir, &id).await?;
    let refused = op(&mut zombie, Op::CommitTransaction).await;
    ensure(refused.is_err(), || "a replaced instance committed".into())?;
    op(&mut heir, Op::BeginTransaction).await?;
    heir.produce_numbers(&topic, Some(0), 0, 5).await?;
    op(&mut heir, Op::CommitTransaction).await?;
    let mut reader = env.eyes(env.cx.bootstrap()).await?;
    let seen = committed(&mut reader, &topic, 5).await?;
    expect_eq("the numbers", &(0..5).collect::<Vec<u64>>(), &seen)
}

async fn over_restart(env: Env) -> Verdict {
    let node: Node = env
        .cx
        .own_node(&[("QUEEN_KAFKA_TXN_STAGE", "queen")])
        .await?;
    let mut client = env.client_of(&node).await?;
    client.create_topic("kept", 1, &[]).await?;
    transactional(&mut client, "over-restart").await?;
    op(&mut client, Op::BeginTransaction).await?;
    client.produce_numbers("kept", Some(0), 0, 10).await?;
    node.kill().await?;
    node.start().await?;
    client.produce_numbers("kept", Some(0), 10, 10).await?;
    op(&mut client, Op::CommitTransaction).await?;
    let mut reader = env.eyes(node.bootstrap()).await?;
    let seen = committed(&mut reader, "kept", 20).await?;
    expect_eq("the numbers", &(0..20).collect::<Vec<u64>>(), &seen)
}

/// A producer that has sent ten numbers in a transaction, which is left open.
async fn prepared(client: &mut Client, topic: &str, id: &str) -> Result<ProducerIdentity, Stop> {
    client.require("resume_transaction")?;
    transactional(client, id).await?;
    op(client, Op::BeginTransaction).await?;
    client.produce_numbers(topic, Some(0), 0, 10).await?;
    Ok(client.call(&Op::TransactionIdentity).await?)
}

/// Ends a client as a crash does: a driver that ends would abort what is open.
fn lose(client: Client) {
    let nothing = Act::Cut { after_bytes: 0 };
    let rule = Rule::new(Side::Request, ApiKey::END_TXN, nothing).times(u32::MAX);
    client.relay().add(rule);
    drop(client);
}

/// Commits as a producer that never asked for an id.
async fn resume(client: &mut Client, id: &str, who: ProducerIdentity) -> Verdict {
    client
        .producer(&[Setting::TransactionalId(id.to_owned())])
        .await?;
    op(
        client,
        Op::ResumeTransaction {
            producer_id: who.producer_id,
            epoch: who.epoch,
        },
    )
    .await?;
    op(client, Op::CommitTransaction).await?;
    Ok(())
}

async fn resumed(env: Env) -> Verdict {
    let (mut lost, topic) = env.topic(1).await?;
    let id = env.cx.unique("txn");
    let who = prepared(&mut lost, &topic, &id).await?;
    lose(lost);
    let mut heir = env.client().await?;
    resume(&mut heir, &id, who).await?;
    let mut reader = env.eyes(env.cx.bootstrap()).await?;
    let seen = committed(&mut reader, &topic, 10).await?;
    expect_eq("the numbers", &(0..10).collect::<Vec<u64>>(), &seen)?;
    // The next one that asks for an id goes on.
    transactional(&mut heir, &id).await?;
    op(&mut heir, Op::BeginTransaction).await?;
    heir.produce_numbers(&topic, Some(0), 10, 10).await?;
    op(&mut heir, Op::CommitTransaction).await?;
    let mut reader = env.eyes(env.cx.bootstrap()).await?;
    let seen = committed(&mut reader, &topic, 20).await?;
    expect_eq("the numbers", &(0..20).collect::<Vec<u64>>(), &seen)
}

async fn resumed_over_a_kill(env: Env) -> Verdict {
    let node = env
        .cx
        .own_node(&[("QUEEN_KAFKA_TXN_STAGE", "queen")])
        .await?;
    let mut lost = env.client_of(&node).await?;
    lost.create_topic("kept", 1, &[]).await?;
    let who = prepared(&mut lost, "kept", "resumed").await?;
    lose(lost);
    node.kill().await?;
    node.start().await?;
    let mut heir = env.client_of(&node).await?;
    resume(&mut heir, "resumed", who).await?;
    let mut reader = env.eyes(node.bootstrap()).await?;
    let seen = committed(&mut reader, "kept", 10).await?;
    expect_eq("the numbers", &(0..10).collect::<Vec<u64>>(), &seen)
}
