//! An administrator: topics, partitions, configs, records and groups. Asks again while that may
//! help.

mod operations;

use std::collections::BTreeSet;
use std::time::Duration;

use kafka_wire::ErrorCode;

use super::api::Api;
use super::cluster::Cluster;
use super::consumer::coordinator::{Coordinator, failure};
use super::profile::Purpose;
use super::{CallError, Client, Connection};
use crate::history::{Admin as What, Call, Name, Reply, TopicPartition};

pub use operations::{ConfigEntry, GroupState};

/// Why an administrator did not get what he asked for.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AdminError {
    /// It was refused, and nothing has changed.
    #[error("refused: {0:?}")]
    Refused(ErrorCode),
    /// The broker doesn't offer it to this client.
    #[error("not offered")]
    NotOffered,
    /// It may have happened, or not.
    #[error("given up in doubt: {0}")]
    Unknown(CallError),
}

/// Whom to ask.
#[derive(Clone, Debug)]
enum Whom {
    Any,
    Controller,
    Leader(TopicPartition),
    Coordinator(Name),
}

/// An administrator.
#[derive(Clone, Debug)]
pub struct Admin {
    client: Client,
    cluster: Cluster,
    timeout: Duration,
}

impl Admin {
    /// An administrator who gives up after `timeout` (`default.api.timeout.ms`).
    pub fn new(client: Client, timeout: Duration) -> Self {
        client.introduce(Vec::new());
        Self {
            cluster: Cluster::new(client.clone()),
            client,
            timeout,
        }
    }

    async fn connect(&self, whom: &Whom) -> Result<Connection, CallError> {
        let none = BTreeSet::new();
        match whom {
            Whom::Any => self.cluster.any().await,
            Whom::Controller => {
                if self.cluster.is_due(&none) {
                    self.cluster.refresh(&none, false).await?;
                }
                self.cluster.controller().await
            }
            Whom::Leader(at) => {
                let topics = BTreeSet::from([at.topic.clone()]);
                if self.cluster.is_due(&topics) {
                    self.cluster.refresh(&topics, false).await?;
                }
                let leader = self.cluster.leader(at);
                let unknown = CallError::Refused(ErrorCode::UnknownTopicOrPartition);
                let node = leader.ok_or(unknown)?.node;
                self.cluster.connection(node, Purpose::Control).await
            }
            Whom::Coordinator(group) => {
                let coordinator = Coordinator::new(self.cluster.clone(), group.clone());
                let node = coordinator.find().await?;
                self.cluster.connection(node, Purpose::Coordinator).await
            }
        }
    }

    /// Asks until it is answered for good, or the time is over. `already` is what a repetition is
    /// told when what it repeats has happened.
    async fn ask<R: Api, T: Default>(
        &self,
        what: What,
        whom: Whom,
        already: Option<ErrorCode>,
        request: impl Fn(i16) -> R + Send,
        read: impl Fn(&R::Response) -> Result<T, CallError> + Send,
    ) -> Result<T, AdminError> {
        let begun = self.client.now();
        let profile = self.client.profile;
        // The last try begins in time and is answered or given up in its own.
        let bound = self.timeout + (profile.request_timeout + profile.connect_timeout) * 3;
        let within_ms = u64::try_from(bound.as_millis()).unwrap_or(u64::MAX);
        let operation =
            self.client
                .recorder
                .begin(&self.client.id, Call::Admin(what), Some(within_ms));
        let mut doubtful = false;
        let mut tries = 0;
        loop {
            let answer = self.attempt(&whom, &request, &read).await;
            let error = match answer {
                Ok(found) => {
                    operation.ok(Reply::Done);
                    return Ok(found);
                }
                Err(error) => error,
            };
            if doubtful && error.code().is_some() && error.code() == already {
                operation.ok(Reply::Done);
                return Ok(T::default());
            }
            self.client.lament(&error);
            doubtful |= !error.has_no_effect();
            tries += 1;
            let helps = match &error {
                CallError::NotOffered(_) => false,
                error => error.code().is_none_or(ErrorCode::retriable),
            };
            let over = self.client.now().saturating_since(begun) >= self.timeout;
            if helps && !over {
                self.client.back_off(tries).await;
                continue;
            }
            if doubtful {
                operation.unknown(failure(&error));
                return Err(AdminError::Unknown(error));
            }
            operation.fail(failure(&error));
            return Err(match error {
                CallError::Refused(code) => AdminError::Refused(code),
                CallError::NotOffered(_) => AdminError::NotOffered,
                error => AdminError::Unknown(error),
            });
        }
    }

    async fn attempt<R: Api, T>(
        &self,
        whom: &Whom,
        request: &(impl Fn(i16) -> R + Send),
        read: &(impl Fn(&R::Response) -> Result<T, CallError> + Send),
    ) -> Result<T, CallError> {
        let key = kafka_wire::ApiKey(R::KEY);
        let connection = self.connect(whom).await?;
        let version = connection.version(key).ok_or(CallError::NotOffered(key))?;
        let asked = request(version);
        read(&connection.call(&asked).await?)
    }

    /// Ends its connections.
    pub async fn close(self) {
        self.cluster.close().await;
    }
}
