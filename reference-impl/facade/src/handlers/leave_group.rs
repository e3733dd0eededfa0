//! LeaveGroup, versions 0 to 5.
//!
//! - Members leave by member id; static members also by instance id alone (an administrator).
//! - One verdict per member; the group rebalances once for all of them.
//!
//! Versions: 1 adds the throttle; 3 takes several members; 4 is flexible; 5 the reason (KIP-800).

use coordinator::classic::{InstanceId, LeavingMember, MemberId};
use kafka_protocol::messages::leave_group_request::MemberIdentity;
use kafka_protocol::messages::leave_group_response::MemberResponse;
use kafka_protocol::messages::{LeaveGroupRequest, LeaveGroupResponse};
use kafka_wire::ErrorCode;

use crate::context::Context;

/// The first version that takes several members.
const BATCHED: i16 = 3;

/// Answers a LeaveGroup request.
pub async fn handle(cx: &Context, request: LeaveGroupRequest) -> LeaveGroupResponse {
    let name = match cx.group(&request.group_id) {
        Ok(name) => name,
        Err(error) => return refused(error.error_code()),
    };
    let identities = if cx.version >= BATCHED {
        request.members
    } else {
        vec![MemberIdentity::default().with_member_id(request.member_id)]
    };
    let leaving = identities
        .iter()
        .map(|identity| LeavingMember {
            member_id: MemberId::new(&identity.member_id),
            instance_id: identity.group_instance_id.as_deref().map(InstanceId::new),
            reason: identity.reason.as_deref().map(str::to_owned),
        })
        .collect();
    let verdicts = match cx.node.groups.leave(&name, leaving).await {
        Ok(verdicts) => verdicts,
        Err(error) => return refused(error.error_code()),
    };
    let mut codes = verdicts.into_iter().map(|verdict| match verdict {
        Ok(()) => ErrorCode::None,
        Err(error) => error.error_code(),
    });
    if cx.version < BATCHED {
        // The one member's verdict is the whole answer.
        return refused(codes.next_back().unwrap_or(ErrorCode::UnknownMemberId));
    }
    let members = identities
        .into_iter()
        .zip(codes)
        .map(|(identity, code)| {
            MemberResponse::default()
                .with_member_id(identity.member_id)
                .with_group_instance_id(identity.group_instance_id)
                .with_error_code(code.code())
        })
        .collect();
    LeaveGroupResponse::default().with_members(members)
}

fn refused(error: ErrorCode) -> LeaveGroupResponse {
    LeaveGroupResponse::default().with_error_code(error.code())
}
