//! What an administrator can ask, one function for each.

use kafka_protocol::messages::alter_configs_request::{
    AlterConfigsResource, AlterableConfig as WholeConfig,
};
use kafka_protocol::messages::create_partitions_request::CreatePartitionsTopic;
use kafka_protocol::messages::create_topics_request::{CreatableTopic, CreatableTopicConfig};
use kafka_protocol::messages::delete_records_request::{
    DeleteRecordsPartition, DeleteRecordsTopic,
};
use kafka_protocol::messages::delete_topics_request::DeleteTopicState;
use kafka_protocol::messages::describe_configs_request::DescribeConfigsResource;
use kafka_protocol::messages::incremental_alter_configs_request::{
    AlterConfigsResource as ChangedResource, AlterableConfig as ChangedConfig,
};
use kafka_protocol::messages::{
    AlterConfigsRequest, CreatePartitionsRequest, CreateTopicsRequest, DeleteGroupsRequest,
    DeleteRecordsRequest, DeleteTopicsRequest, DescribeConfigsRequest, DescribeGroupsRequest,
    IncrementalAlterConfigsRequest, ListGroupsRequest,
};
use kafka_protocol::protocol::StrBytes;
use kafka_wire::ErrorCode;

use super::{Admin, AdminError, Whom};
use crate::client::{CallError, group_id, millis, name, refused, text, topic_name};
use crate::history::{Admin as What, Name, TopicPartition};

/// The resource type of a topic in the configs' APIs.
const TOPIC_RESOURCE: i8 = 2;
/// IncrementalAlterConfigs' operation that sets a value.
const SET: i8 = 0;
/// The first version of DeleteTopics that names topics one by one, by name or by id.
const DELETE_BY_STATE: i16 = 6;

/// A config and its value; `None` for one that is not told.
pub type ConfigEntry = (String, Option<String>);

/// A group as it is listed or described.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GroupState {
    /// Its name.
    pub group: Name,
    /// `Stable`, `Empty` and so on; empty where the version doesn't tell.
    pub state: String,
    /// Its members' ids, where it is described.
    pub members: Vec<Name>,
}

/// The one result of a request for one thing.
fn only<T>(results: &[T]) -> Result<&T, CallError> {
    match results {
        [only] => Ok(only),
        _ => Err(CallError::malformed(format!(
            "{} results for one thing",
            results.len()
        ))),
    }
}

fn wire(text: &str) -> StrBytes {
    StrBytes::from_string(text.to_owned())
}

impl Admin {
    fn timeout_ms(&self) -> i32 {
        millis(self.client.profile.request_timeout)
    }

    /// CreateTopics.
    ///
    /// # Errors
    ///
    /// [`AdminError`].
    pub async fn create_topic(
        &self,
        topic: &Name,
        partitions: i32,
        configs: &[(&str, &str)],
    ) -> Result<(), AdminError> {
        let what = What::CreateTopic {
            topic: topic.clone(),
            partitions,
        };
        let configs = configs.iter().map(|(config, value)| {
            CreatableTopicConfig::default()
                .with_name(wire(config))
                .with_value(Some(wire(value)))
        });
        let wanted = CreatableTopic::default()
            .with_name(topic_name(topic))
            .with_num_partitions(partitions)
            .with_replication_factor(1)
            .with_configs(configs.collect());
        let request = |_| {
            CreateTopicsRequest::default()
                .with_topics(vec![wanted.clone()])
                .with_timeout_ms(self.timeout_ms())
        };
        let already = Some(ErrorCode::TopicAlreadyExists);
        self.ask(what, Whom::Controller, already, request, |response| {
            refused(only(&response.topics)?.error_code)
        })
        .await
    }

    /// DeleteTopics.
    ///
    /// # Errors
    ///
    /// [`AdminError`].
    pub async fn delete_topic(&self, topic: &Name) -> Result<(), AdminError> {
        let what = What::DeleteTopic {
            topic: topic.clone(),
        };
        let request = |version| {
            let request = DeleteTopicsRequest::default().with_timeout_ms(self.timeout_ms());
            if version < DELETE_BY_STATE {
                return request.with_topic_names(vec![topic_name(topic)]);
            }
            request.with_topics(vec![
                DeleteTopicState::default().with_name(Some(topic_name(topic))),
            ])
        };
        let already = Some(ErrorCode::UnknownTopicOrPartition);
        self.ask(what, Whom::Controller, already, request, |response| {
            refused(only(&response.responses)?.error_code)
        })
        .await
    }

    /// CreatePartitions: `topic` is to have `count`.
    ///
    /// # Errors
    ///
    /// [`AdminError`].
    pub async fn create_partitions(&self, topic: &Name, count: i32) -> Result<(), AdminError> {
        let what = What::CreatePartitions {
            topic: topic.clone(),
            partitions: count,
        };
        let request = |_| {
            let topic = CreatePartitionsTopic::default()
                .with_name(topic_name(topic))
                .with_count(count)
                .with_assignments(None);
            CreatePartitionsRequest::default()
                .with_topics(vec![topic])
                .with_timeout_ms(self.timeout_ms())
        };
        // It has as many already.
        let already = Some(ErrorCode::InvalidPartitions);
        self.ask(what, Whom::Controller, already, request, |response| {
            refused(only(&response.results)?.error_code)
        })
        .await
    }

    /// DescribeConfigs of a topic.
    ///
    /// # Errors
    ///
    /// [`AdminError`].
    pub async fn describe_topic_configs(
        &self,
        topic: &Name,
    ) -> Result<Vec<ConfigEntry>, AdminError> {
        let what = What::Look {
            api: "DescribeConfigs".into(),
        };
        let request = |_| {
            DescribeConfigsRequest::default().with_resources(vec![
                DescribeConfigsResource::default()
                    .with_resource_type(TOPIC_RESOURCE)
                    .with_resource_name(text(topic))
                    .with_configuration_keys(None),
            ])
        };
        self.ask(what, Whom::Any, None, request, |response| {
            let described = only(&response.results)?;
            refused(described.error_code)?;
            let entries = described.configs.iter().map(|config| {
                let value = config.value.as_ref().map(ToString::to_string);
                (config.name.to_string(), value)
            });
            Ok(entries.collect())
        })
        .await
    }

    /// AlterConfigs of a topic: it has these and the defaults of all others.
    ///
    /// # Errors
    ///
    /// [`AdminError`].
    pub async fn replace_topic_configs(
        &self,
        topic: &Name,
        configs: &[(&str, &str)],
    ) -> Result<(), AdminError> {
        let what = What::AlterConfigs {
            resource: topic.clone(),
        };
        let request = |_| {
            let configs = configs.iter().map(|(config, value)| {
                WholeConfig::default()
                    .with_name(wire(config))
                    .with_value(Some(wire(value)))
            });
            AlterConfigsRequest::default().with_resources(vec![
                AlterConfigsResource::default()
                    .with_resource_type(TOPIC_RESOURCE)
                    .with_resource_name(text(topic))
                    .with_configs(configs.collect()),
            ])
        };
        self.ask(what, Whom::Any, None, request, |response| {
            refused(only(&response.responses)?.error_code)
        })
        .await
    }

    /// IncrementalAlterConfigs of a topic: sets these and leaves the others alone.
    ///
    /// # Errors
    ///
    /// [`AdminError`].
    pub async fn set_topic_configs(
        &self,
        topic: &Name,
        configs: &[(&str, &str)],
    ) -> Result<(), AdminError> {
        let what = What::AlterConfigs {
            resource: topic.clone(),
        };
        let request = |_| {
            let configs = configs.iter().map(|(config, value)| {
                ChangedConfig::default()
                    .with_name(wire(config))
                    .with_config_operation(SET)
                    .with_value(Some(wire(value)))
            });
            IncrementalAlterConfigsRequest::default().with_resources(vec![
                ChangedResource::default()
                    .with_resource_type(TOPIC_RESOURCE)
                    .with_resource_name(text(topic))
                    .with_configs(configs.collect()),
            ])
        };
        self.ask(what, Whom::Any, None, request, |response| {
            refused(only(&response.responses)?.error_code)
        })
        .await
    }

    /// DeleteRecords of `at` before an offset. Gives the first offset that the log keeps.
    ///
    /// # Errors
    ///
    /// [`AdminError`].
    pub async fn delete_records(
        &self,
        at: &TopicPartition,
        before: i64,
    ) -> Result<i64, AdminError> {
        let what = What::DeleteRecords {
            at: at.clone(),
            before,
        };
        let request = |_| {
            let partition = DeleteRecordsPartition::default()
                .with_partition_index(at.partition)
                .with_offset(before);
            let topic = DeleteRecordsTopic::default()
                .with_name(topic_name(&at.topic))
                .with_partitions(vec![partition]);
            DeleteRecordsRequest::default()
                .with_topics(vec![topic])
                .with_timeout_ms(self.timeout_ms())
        };
        let leader = Whom::Leader(at.clone());
        self.ask(what, leader, None, request, |response| {
            let deleted = only(&only(&response.topics)?.partitions)?;
            refused(deleted.error_code)?;
            Ok(deleted.low_watermark)
        })
        .await
    }

    /// ListGroups of one broker.
    ///
    /// # Errors
    ///
    /// [`AdminError`].
    pub async fn list_groups(&self) -> Result<Vec<GroupState>, AdminError> {
        let what = What::Look {
            api: "ListGroups".into(),
        };
        let request = |_| ListGroupsRequest::default();
        self.ask(what, Whom::Any, None, request, |response| {
            refused(response.error_code)?;
            let groups = response.groups.iter().map(|listed| GroupState {
                group: name(&listed.group_id.0),
                state: listed.group_state.to_string(),
                members: Vec::new(),
            });
            Ok(groups.collect())
        })
        .await
    }

    /// DescribeGroups of one group.
    ///
    /// # Errors
    ///
    /// [`AdminError`].
    pub async fn describe_group(&self, group: &Name) -> Result<GroupState, AdminError> {
        let what = What::Look {
            api: "DescribeGroups".into(),
        };
        let request = |_| DescribeGroupsRequest::default().with_groups(vec![group_id(group)]);
        let coordinator = Whom::Coordinator(group.clone());
        self.ask(what, coordinator, None, request, |response| {
            let described = only(&response.groups)?;
            refused(described.error_code)?;
            let members = described.members.iter();
            Ok(GroupState {
                group: name(&described.group_id.0),
                state: described.group_state.to_string(),
                members: members.map(|member| name(&member.member_id)).collect(),
            })
        })
        .await
    }

    /// DeleteGroups of one group.
    ///
    /// # Errors
    ///
    /// [`AdminError`].
    pub async fn delete_group(&self, group: &Name) -> Result<(), AdminError> {
        let what = What::DeleteGroup {
            group: group.clone(),
        };
        let request = |_| DeleteGroupsRequest::default().with_groups_names(vec![group_id(group)]);
        let (coordinator, already) = (
            Whom::Coordinator(group.clone()),
            Some(ErrorCode::GroupIdNotFound),
        );
        self.ask(what, coordinator, already, request, |response| {
            refused(only(&response.results)?.error_code)
        })
        .await
    }
}
