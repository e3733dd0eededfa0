//! DescribeTopicPartitions.

use kafka_protocol::messages::{DescribeTopicPartitionsRequest, DescribeTopicPartitionsResponse};

use crate::context::Context;

/// Answers a DescribeTopicPartitions request.
pub async fn handle(_cx: &Context, _request: DescribeTopicPartitionsRequest) -> DescribeTopicPartitionsResponse {
    DescribeTopicPartitionsResponse::default()
}
