//! Sends the batches of a transaction until each of them is stored, or one can't be.

use std::collections::BTreeSet;
use std::time::Duration;

use kafka_wire::ErrorCode;
use tokio::time::sleep;

use super::trouble::{Asking, Trouble};
use super::{Answered, TransactionalProducer};
use crate::client::producer::core::{Event, Transmit, Verdict};
use crate::client::producer::request::{ceiling, request, told, written};
use crate::client::profile::Purpose;
use crate::client::{CallError, Connection};
use crate::history::{Batch, Call, Failure, Name, Reply, TopicPartition};

/// How soon a lost connection is noticed.
const LOOK_AGAIN: Duration = Duration::from_millis(100);

impl TransactionalProducer {
    /// Until nothing is left to be sent.
    pub(super) async fn drive(&mut self) -> Result<(), Trouble> {
        let mut failures = 0;
        self.core.flush(self.client.now());
        loop {
            self.report()?;
            if self.core.is_idle() {
                return Ok(());
            }
            if let Err(error) = self.prepare().await? {
                self.client.lament(&error);
                for topic in &self.topics {
                    self.cluster.is_wrong_about(topic);
                }
                failures += 1;
                self.client.back_off(failures).await;
                // What is in flight goes on meanwhile; what is overdue is given up.
                if self.work.is_empty() {
                    self.transmit()?;
                    continue;
                }
            } else {
                failures = 0;
            }
            self.transmit()?;
            let now = self.client.now();
            let deadline = self.core.next_deadline(now);
            let wait = deadline.map(|deadline| deadline.saturating_since(now));
            // With nothing in flight, what went out of reach meanwhile is looked for again.
            let wait = match wait {
                wait if self.work.is_empty() => Some(wait.unwrap_or(LOOK_AGAIN).min(LOOK_AGAIN)),
                wait => wait,
            };
            tokio::select! {
                biased;
                // Nobody aborts what is in flight.
                Some(Ok(answered)) = self.work.join_next() => self.take(answered),
                () = sleep(wait.unwrap_or_default()), if wait.is_some() => {}
            }
        }
    }

    /// Waits for everything in flight, whatever comes; what is left over is not sent any more.
    pub(super) async fn settle(&mut self) {
        while let Some(answered) = self.work.join_next().await {
            let Ok(answered) = answered else { continue };
            self.take(answered);
            // What it says is in `spoiled`, and the transaction is given up already.
            let _ = self.report();
        }
        for (_, operation) in std::mem::take(&mut self.operations) {
            operation.unknown(Failure::here("its transaction is given up"));
        }
        if let Some(identity) = self.identity
            && !self.core.is_idle()
        {
            // Nobody knows which sequences the broker has: the next ones are of another epoch.
            let spoiled = self.spoiled;
            self.take_identity(identity);
            self.spoiled = match spoiled {
                Some(Trouble::Abortable { code, .. }) => {
                    Some(Trouble::Abortable { code, bump: true })
                }
                None => Some(Trouble::Abortable {
                    code: None,
                    bump: true,
                }),
                other => other,
            };
        }
    }

    /// Leaders are known and connected, and partitions are part of the transaction.
    async fn prepare(&mut self) -> Result<Result<(), CallError>, Trouble> {
        if self.cluster.is_due(&self.topics)
            && let Err(error) = self.cluster.refresh(&self.topics, true).await
        {
            return Ok(Err(error));
        }
        let busy: Vec<TopicPartition> = self.core.partitions().cloned().collect();
        let new = busy.iter().filter(|at| !self.partitions.contains(at));
        let new: Vec<_> = new.cloned().collect();
        if !new.is_empty() {
            if self.is_implicit() {
                self.partitions.extend(new);
            } else {
                let added = self.add_partitions(new).await;
                added.map_err(|refusal| refusal.trouble)?;
            }
        }
        self.connected.retain(|_, connection| connection.is_open());
        let leaders = busy.iter().filter_map(|at| self.cluster.leader(at));
        let nodes: BTreeSet<i32> = leaders.map(|leader| leader.node).collect();
        if nodes.is_empty() {
            return Ok(Err(CallError::Refused(ErrorCode::LeaderNotAvailable)));
        }
        for node in nodes {
            if self.connected.contains_key(&node) {
                continue;
            }
            match self.cluster.connection(node, Purpose::Produce).await {
                Ok(connection) => {
                    self.connected.insert(node, connection);
                }
                Err(error) => return Ok(Err(error)),
            }
        }
        Ok(Ok(()))
    }

    fn transmit(&mut self) -> Result<(), Trouble> {
        loop {
            let (now, cluster, connected) = (self.client.now(), &self.cluster, &self.connected);
            let leader = |to: &TopicPartition| {
                let node = cluster.leader(to)?.node;
                connected.get(&node)?.is_open().then_some(node)
            };
            let next = self.core.poll_transmit(now, leader);
            // An epoch that the core made up is not for this transaction: nothing goes out.
            self.report()?;
            let Some(transmit) = next else {
                return Ok(());
            };
            self.send_out(transmit);
        }
    }

    fn send_out(&mut self, transmit: Transmit) {
        for sent in &transmit.batches {
            if let Some(operation) = self.operations.get(&sent.batch) {
                let (producer, sequence) = sent.sequence.unzip();
                operation.attempt(sent.attempt, producer, sequence);
            }
            self.client.note(format_args!(
                "  batch {} of {} to {} in transaction {}, attempt {}",
                sent.batch.0,
                sent.records.len(),
                sent.to,
                self.number,
                sent.attempt
            ));
        }
        let id = |topic: &Name| self.cluster.topic(topic).map(|topic| topic.id);
        let ids = transmit.batches.iter().map(|sent| id(&sent.to.topic));
        let ceiling = ceiling(ids.map(Option::unwrap_or_default)).min(self.ceilings().produce);
        let rules = &self.client.profile.producer;
        let request = request(rules, Some(&self.settings.id), &transmit, |topic| {
            id(topic).unwrap_or_default()
        });
        let connection: Option<Connection> = self.connected.get(&transmit.node).cloned();
        let (Some(connection), Ok(request)) = (connection, request) else {
            let now = self.client.now();
            self.core.handle_lost(now, transmit.id, false);
            return;
        };
        let timeout = self.client.profile.request_timeout;
        match connection.send_within(&request, timeout, ceiling) {
            Ok(mut ticket) => {
                self.work
                    .spawn(async move { (transmit, ticket.answer().await) });
            }
            Err(error) => {
                self.client.lament(&error);
                let now = self.client.now();
                self.core.handle_lost(now, transmit.id, false);
            }
        }
    }

    fn take(&mut self, (transmit, answer): Answered) {
        let now = self.client.now();
        let answer = answer.and_then(|response| {
            let cluster = &self.cluster;
            told(&response, |id| cluster.topic_of_id(id))
        });
        match answer {
            Ok(told) => {
                for told in told {
                    if told.code != ErrorCode::None {
                        let (to, code) = (&told.to, told.code);
                        self.client.note(format_args!("  {to} refused: {code:?}"));
                    }
                    let (id, code, base) = (transmit.id, told.code, told.base_offset);
                    self.core.handle_answer(now, id, &told.to, code, base);
                }
            }
            Err(error) => {
                self.client.lament(&error);
                let sent = !error.has_no_effect();
                self.core.handle_lost(now, transmit.id, sent);
            }
        }
        if self.core.is_in_flight(transmit.id) {
            let error = CallError::malformed("Produce answers for other partitions");
            self.client.lament(&error);
            self.core.handle_lost(now, transmit.id, true);
        }
    }

    /// Writes down what the core says happened.
    fn report(&mut self) -> Result<(), Trouble> {
        while let Some(event) = self.core.poll_event() {
            match event {
                Event::Sealed { batch, to, records } => {
                    let call = Call::Produce {
                        batch: Batch {
                            to,
                            records: records.iter().filter_map(written).collect(),
                        },
                        acks: self.client.profile.producer.acks,
                        transaction: Some(self.number),
                    };
                    let recorder = &self.client.recorder;
                    let operation = recorder.begin(&self.client.id, call, None);
                    self.operations.insert(batch, operation);
                }
                Event::Done { batch, verdict } => {
                    let Some(operation) = self.operations.remove(&batch) else {
                        continue;
                    };
                    let code = match verdict {
                        Verdict::Stored(base_offset) => {
                            operation.ok(Reply::Stored { base_offset });
                            continue;
                        }
                        Verdict::Refused(code) => {
                            operation.fail(Failure::code(code.code(), code.name()));
                            Some(code)
                        }
                        Verdict::GivenUp => {
                            operation.fail(Failure::here("given up before it was sent"));
                            None
                        }
                        Verdict::Unknown => {
                            operation.unknown(Failure::here("given up in doubt"));
                            None
                        }
                    };
                    let trouble = match code {
                        Some(code) => self.judge(Asking::Produce, code),
                        None => Trouble::Abortable { code, bump: true },
                    };
                    self.spoiled.get_or_insert(trouble);
                }
                Event::Stale { topic } => self.cluster.is_wrong_about(&topic),
                Event::NewEpoch(_) => {
                    let trouble = Trouble::Abortable {
                        code: None,
                        bump: true,
                    };
                    self.spoiled.get_or_insert(trouble);
                }
                Event::Fatal(code) => {
                    let trouble = self.judge(Asking::Produce, code);
                    self.spoiled.get_or_insert(trouble);
                }
            }
        }
        self.spoiled.map_or(Ok(()), Err)
    }
}
