//! DescribeGroups, versions 0 to 6.
//!
//! - A live group with its members; metadata only while it is stable, and assignments of the last
//!   generation until there are new ones, as in Kafka.
//! - A group of the consumer protocol is answered as if nobody knew it: ConsumerGroupDescribe shows it.
//! - A group that has only committed offsets is `Empty`. A group nobody knows is `Dead`, from
//!   version 6 on with GROUP_ID_NOT_FOUND and a message.
//! - A group that is named twice is described once: its members may be many.
//! - Authorized operations are never computed: there is no authorization model.
//!
//! Versions: 1 adds the throttle; 3 the authorized operations; 4 the instance ids; 5 is flexible; 6
//! the message and GROUP_ID_NOT_FOUND.

use coordinator::classic::{Description, GroupState, MemberDescription};
use indexmap::IndexSet;
use kafka_protocol::messages::describe_groups_response::{DescribedGroup, DescribedGroupMember};
use kafka_protocol::messages::{DescribeGroupsRequest, DescribeGroupsResponse, GroupId};
use kafka_protocol::protocol::StrBytes;
use kafka_wire::ErrorCode;

use crate::context::Context;
use crate::groups;
use crate::handlers::group_topics::offsets_tenant;
use crate::offsets::IndexRow;
use crate::upstream_errors::{self, Api};

/// The first version that tells an unknown group from a dead one.
const NOT_FOUND: i16 = 6;

/// Answers a DescribeGroups request.
pub async fn handle(cx: &Context, request: DescribeGroupsRequest) -> DescribeGroupsResponse {
    let groups: IndexSet<GroupId> = request.groups.into_iter().collect();
    let mut described = Vec::with_capacity(groups.len());
    // Places and ids of the groups that aren't live here.
    let mut absent: Vec<(usize, GroupId)> = Vec::new();
    for id in groups {
        let name = match cx.group(&id) {
            Ok(name) => name,
            Err(error) => {
                described.push(refused(cx.version, id, error.error_code(), None));
                continue;
            }
        };
        match cx.node.groups.describe(&name).await {
            Some(groups::Description::Classic(group)) => described.push(live(id, group)),
            Some(groups::Description::Consumer(_)) => {
                let message = format!("Group {} is not a classic group.", &*id);
                described.push(not_found(cx.version, id, message));
            }
            None => {
                absent.push((described.len(), id));
                described.push(DescribedGroup::default());
            }
        }
    }
    let ids: Vec<&str> = absent.iter().map(|(_, id)| &***id).collect();
    let indexes = cx
        .node
        .offsets
        .group_indexes(&offsets_tenant(cx), &ids)
        .await;
    match indexes {
        Ok(indexes) => {
            for ((place, id), index) in absent.into_iter().zip(indexes) {
                described[place] = not_live(cx.version, id, index);
            }
        }
        Err(error) => {
            let answer = upstream_errors::answer(Api::Group, cx.version, &error);
            for (place, id) in absent {
                described[place] =
                    refused(cx.version, id, answer.code, Some(answer.message.clone()));
            }
        }
    }
    DescribeGroupsResponse::default().with_groups(described)
}

fn live(id: GroupId, description: Description) -> DescribedGroup {
    let optional =
        |text: Option<std::sync::Arc<str>>| text.map_or_else(StrBytes::default, |t| self::text(&t));
    DescribedGroup::default()
        .with_group_id(id)
        .with_group_state(StrBytes::from_static_str(description.state.name()))
        .with_protocol_type(optional(description.protocol_type))
        .with_protocol_data(optional(description.protocol_name))
        .with_members(description.members.into_iter().map(member).collect())
}

fn member(member: MemberDescription) -> DescribedGroupMember {
    DescribedGroupMember::default()
        .with_member_id(text(member.member_id.as_str()))
        .with_group_instance_id(member.instance_id.map(|id| text(id.as_str())))
        .with_client_id(text(&member.client_id))
        .with_client_host(text(&member.client_host))
        .with_member_metadata(member.metadata)
        .with_member_assignment(member.assignment)
}

fn not_live(version: i16, id: GroupId, index: Option<IndexRow>) -> DescribedGroup {
    let state = |state: GroupState| StrBytes::from_static_str(state.name());
    match index {
        Some(row) => DescribedGroup::default()
            .with_group_id(id)
            .with_group_state(state(GroupState::Empty))
            .with_protocol_type(StrBytes::from_string(row.pt)),
        None => {
            let message = format!("Group {} not found.", &*id);
            not_found(version, id, message)
        }
    }
}

fn not_found(version: i16, id: GroupId, message: String) -> DescribedGroup {
    let code = match version >= NOT_FOUND {
        true => ErrorCode::GroupIdNotFound,
        false => ErrorCode::None,
    };
    refused(version, id, code, Some(message))
        .with_group_state(StrBytes::from_static_str(GroupState::Dead.name()))
}

/// The message exists from version 6 on.
fn refused(version: i16, id: GroupId, code: ErrorCode, message: Option<String>) -> DescribedGroup {
    let message = message.filter(|_| version >= NOT_FOUND);
    DescribedGroup::default()
        .with_group_id(id)
        .with_error_code(code.code())
        .with_error_message(message.map(StrBytes::from_string))
}

fn text(text: &str) -> StrBytes {
    StrBytes::from_string(text.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_fits_its_version() {
        for version in 0..=6 {
            let message = Some("Queen is gone".to_owned());
            let group = refused(
                version,
                GroupId::default(),
                ErrorCode::NotCoordinator,
                message,
            );
            assert_eq!(
                group.error_message.is_some(),
                version >= 6,
                "version {version}"
            );
        }
    }
}
