//! SyncGroup, versions 0 to 5.
//!
//! - Waits until the leader of the generation has assigned; a leader that doesn't is evicted after
//!   the rebalance timeout.
//! - Members that the leader leaves out get an empty assignment.
//!
//! Versions: 1 adds the throttle; 3 static members; 4 is flexible; 5 the protocol type and name in
//! both directions, which must be there and be the group's (KIP-559), whoever asks.

use std::sync::Arc;

use coordinator::classic::{GenerationId, InstanceId, MemberId, MemberRef, SyncRequest};
use kafka_protocol::messages::{SyncGroupRequest, SyncGroupResponse};
use kafka_protocol::protocol::StrBytes;
use kafka_wire::ErrorCode;

use crate::context::Context;

/// The first version in which a member names the protocol.
const WITH_PROTOCOL: i16 = 5;

/// Answers a SyncGroup request.
pub async fn handle(cx: &Context, request: SyncGroupRequest) -> SyncGroupResponse {
    let name = match cx.group(&request.group_id) {
        Ok(name) => name,
        Err(error) => return refused(error.error_code()),
    };
    let names_protocol = request.protocol_type.is_some() && request.protocol_name.is_some();
    if cx.version >= WITH_PROTOCOL && !names_protocol {
        return refused(ErrorCode::InconsistentGroupProtocol);
    }
    let optional = |text: Option<StrBytes>| text.map(|text| Arc::<str>::from(&*text));
    let request = SyncRequest {
        member: MemberRef {
            member_id: MemberId::new(&request.member_id),
            instance_id: request.group_instance_id.as_deref().map(InstanceId::new),
            generation_id: GenerationId(request.generation_id),
        },
        protocol_type: optional(request.protocol_type),
        protocol_name: optional(request.protocol_name),
        assignments: request
            .assignments
            .into_iter()
            .map(|entry| (MemberId::new(&entry.member_id), entry.assignment))
            .collect(),
    };
    match cx.node.groups.sync(&name, request).await {
        Ok(synced) => {
            let optional = |text: Option<Arc<str>>| {
                text.map(|text| StrBytes::from_string(text.as_ref().to_owned()))
            };
            SyncGroupResponse::default()
                .with_protocol_type(optional(synced.protocol_type))
                .with_protocol_name(optional(synced.protocol_name))
                .with_assignment(synced.assignment)
        }
        Err(error) => refused(error.error_code()),
    }
}

fn refused(error: ErrorCode) -> SyncGroupResponse {
    SyncGroupResponse::default().with_error_code(error.code())
}
