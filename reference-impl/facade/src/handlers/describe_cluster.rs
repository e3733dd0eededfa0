//! DescribeCluster (key 60), versions 0–2.
//!
//! * One broker, this node, which is the controller too; it is never fenced.
//! * Makes no call to Queen.
//! * Asked for controllers (`endpoint_type` 2): `MISMATCHED_ENDPOINT_TYPE`, as a broker says;
//!   any other type: `UNSUPPORTED_ENDPOINT_TYPE`.
//! * Authorized operations are not known here, so they are left out.
//!
//! v1: endpoint type. v2: fenced brokers on request.

use kafka_protocol::messages::describe_cluster_response::DescribeClusterBroker;
use kafka_protocol::messages::{BrokerId, DescribeClusterRequest, DescribeClusterResponse};
use kafka_protocol::protocol::StrBytes;
use kafka_wire::error_code::ErrorCode;

use crate::context::Context;

const BROKERS: i8 = 1;
const CONTROLLERS: i8 = 2;

/// Answers a DescribeCluster request.
#[expect(clippy::unused_async, reason = "the one signature of all handlers")]
pub async fn handle(cx: &Context, request: DescribeClusterRequest) -> DescribeClusterResponse {
    let answer = DescribeClusterResponse::default();
    match request.endpoint_type {
        BROKERS => {}
        CONTROLLERS => {
            return answer
                .with_error_code(ErrorCode::MismatchedEndpointType.code())
                .with_error_message(Some(StrBytes::from_static_str(
                    "This listener serves clients of brokers, not of controllers.",
                )));
        }
        _ => {
            return answer
                .with_error_code(ErrorCode::UnsupportedEndpointType.code())
                .with_error_message(Some(StrBytes::from_static_str(
                    "There is no such endpoint type.",
                )));
        }
    }
    let view = cx.node.view();
    let brokers = view.brokers().into_iter().map(|broker| {
        DescribeClusterBroker::default()
            .with_broker_id(BrokerId(broker.id.0))
            .with_host(StrBytes::from_string(broker.host.to_string()))
            .with_port(i32::from(broker.port))
    });
    answer
        .with_endpoint_type(BROKERS)
        .with_cluster_id(StrBytes::from_string(cx.node.cluster_id().to_owned()))
        .with_controller_id(BrokerId(view.controller().0))
        .with_brokers(brokers.collect())
}
