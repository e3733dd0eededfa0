//! JoinGroup, versions 0 to 9.
//!
//! - Kafka's classic group protocol; the rules are `coordinator::classic`'s. In a live consumer group
//!   (KIP-848) they are `coordinator::consumer`'s, and nothing waits.
//! - Waits, up to the group's rebalance timeout, until the generation is formed.
//! - A member brings at most 1 MiB of protocols (GROUP_MAX_SIZE_REACHED), all members of a group
//!   32 MiB (the same), those of all groups 128 MiB (COORDINATOR_NOT_AVAILABLE, which is retried).
//! - A group exists from its first join on; an unknown member of an unknown group is told so.
//!
//! Versions: 1 adds the rebalance timeout (0: the session timeout counts); 2 the throttle; 4 gives a
//! new member its id first (KIP-394); 5 static members (KIP-345); 6 is flexible; 7 the protocol type
//! in the answer; 8 the reason (KIP-800); 9 tells a static leader to skip the assignment (KIP-814).

use std::sync::Arc;
use std::time::Duration;

use coordinator::classic::{
    GenerationId, InstanceId, JoinRequest, Joined, MemberId, Protocols, RosterEntry,
};
use kafka_protocol::messages::join_group_response::JoinGroupResponseMember;
use kafka_protocol::messages::{JoinGroupRequest, JoinGroupResponse};
use kafka_protocol::protocol::StrBytes;
use kafka_wire::ErrorCode;

use crate::context::Context;
use crate::groups::MAX_MEMBER_BYTES;
use crate::handlers::group_topics::topics_of_group;

/// The first version that gives a new member its id before it joins.
const KNOWN_MEMBER_ID: i16 = 4;
/// The first version whose answer may lack a protocol.
const NULLABLE_PROTOCOL: i16 = 7;
/// The first version that can skip the assignment.
const SKIP_ASSIGNMENT: i16 = 9;

/// Answers a JoinGroup request.
pub async fn handle(cx: &Context, request: JoinGroupRequest) -> JoinGroupResponse {
    let name = match cx.group(&request.group_id) {
        Ok(name) => name,
        Err(error) => return refused(cx.version, error.error_code(), request.member_id),
    };
    let offered = request.protocols.iter();
    let offered = offered.map(|protocol| protocol.name.len() + protocol.metadata.len());
    // Before it's copied.
    if offered.sum::<usize>() > MAX_MEMBER_BYTES {
        let code = ErrorCode::GroupMaxSizeReached;
        return refused(cx.version, code, request.member_id);
    }
    let identities = &cx.node.identities;
    identities.joins(&cx.session.scope, &request.group_id);
    let topics = topics_of_group(cx, &name).await;
    let join = read(cx, &request);
    // The wait is long, and the frame may be.
    drop(request);
    cx.room.release_request();
    match cx.node.groups.join(&name, join, topics).await {
        Ok(joined) => accepted(joined),
        Err(refusal) => {
            let member_id = text(refusal.member_id.as_str());
            refused(cx.version, refusal.error.error_code(), member_id)
        }
    }
}

fn read(cx: &Context, request: &JoinGroupRequest) -> JoinRequest {
    let session_timeout = millis(request.session_timeout_ms);
    JoinRequest {
        member_id: MemberId::new(&request.member_id),
        instance_id: request.group_instance_id.as_deref().map(InstanceId::new),
        client_id: cx.client_id.as_deref().unwrap_or_default().into(),
        client_host: format!("/{}", cx.session.peer.ip()).into(),
        session_timeout,
        rebalance_timeout: match cx.version {
            0 => session_timeout,
            _ => millis(request.rebalance_timeout_ms),
        },
        protocol_type: (&*request.protocol_type).into(),
        protocols: Protocols::copy_of(
            request
                .protocols
                .iter()
                .map(|protocol| (&*protocol.name, &*protocol.metadata)),
        ),
        require_known_member_id: cx.version >= KNOWN_MEMBER_ID,
        supports_skip_assignment: cx.version >= SKIP_ASSIGNMENT,
        reason: request.reason.as_deref().map(str::to_owned),
        random: cx.node.host.entropy.uuid_v4(),
    }
}

/// Negative times become zero, which the group refuses or lengthens.
fn millis(ms: i32) -> Duration {
    Duration::from_millis(u64::try_from(ms).unwrap_or(0))
}

fn accepted(joined: Joined) -> JoinGroupResponse {
    let optional = |text: Option<Arc<str>>| text.map(|text| self::text(&text));
    JoinGroupResponse::default()
        .with_generation_id(joined.generation_id.0)
        .with_protocol_type(optional(joined.protocol_type))
        .with_protocol_name(optional(joined.protocol_name))
        .with_leader(text(joined.leader.as_str()))
        .with_skip_assignment(joined.skip_assignment)
        .with_member_id(text(joined.member_id.as_str()))
        .with_members(joined.members.into_iter().map(roster_member).collect())
}

fn roster_member(entry: RosterEntry) -> JoinGroupResponseMember {
    JoinGroupResponseMember::default()
        .with_member_id(text(entry.member_id.as_str()))
        .with_group_instance_id(entry.instance_id.map(|id| text(id.as_str())))
        .with_metadata(entry.metadata)
}

fn refused(version: i16, error: ErrorCode, member_id: StrBytes) -> JoinGroupResponse {
    let no_protocol = (version < NULLABLE_PROTOCOL).then(StrBytes::default);
    JoinGroupResponse::default()
        .with_error_code(error.code())
        .with_generation_id(GenerationId::NONE.0)
        .with_protocol_name(no_protocol)
        .with_member_id(member_id)
}

fn text(text: &str) -> StrBytes {
    StrBytes::from_string(text.to_owned())
}
