//! Heartbeat, versions 0 to 4.
//!
//! - Never waits for Queen in a classic group: members stay alive while Queen is away.
//! - While the group waits for its assignment a heartbeat is a normal one.
//!
//! Versions: 1 adds the throttle; 3 static members; 4 is flexible.

use coordinator::classic::{GenerationId, InstanceId, MemberId, MemberRef};
use kafka_protocol::messages::{HeartbeatRequest, HeartbeatResponse};
use kafka_wire::ErrorCode;

use crate::context::Context;
use crate::handlers::group_topics::topics_of_group;

/// Answers a Heartbeat request.
pub async fn handle(cx: &Context, request: HeartbeatRequest) -> HeartbeatResponse {
    let code = match cx.group(&request.group_id) {
        Err(refused) => refused.error_code(),
        Ok(name) => {
            let member = MemberRef {
                member_id: MemberId::new(&request.member_id),
                instance_id: request.group_instance_id.as_deref().map(InstanceId::new),
                generation_id: GenerationId(request.generation_id),
            };
            let topics = topics_of_group(cx, &name).await;
            match cx.node.groups.heartbeat(&name, member, topics).await {
                Ok(()) => ErrorCode::None,
                Err(error) => error.error_code(),
            }
        }
    };
    HeartbeatResponse::default().with_error_code(code.code())
}
