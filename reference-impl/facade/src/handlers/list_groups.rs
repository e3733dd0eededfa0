//! ListGroups, versions 0 to 5.
//!
//! - Live groups, and groups that have only committed offsets (`Empty`), in order of their ids.
//! - When the latter can't be read the answer is an error, not a shorter list.
//! - Filters compare without regard to case, as in Kafka 4; every group here is of type `classic`.
//!
//! Versions: 1 adds the throttle; 3 is flexible; 4 the state and its filter (KIP-518); 5 the type
//! and its filter (KIP-848).

use std::collections::BTreeMap;

use coordinator::classic::GroupState;
use kafka_protocol::messages::list_groups_response::ListedGroup;
use kafka_protocol::messages::{GroupId, ListGroupsRequest, ListGroupsResponse};
use kafka_protocol::protocol::StrBytes;

use crate::context::Context;
use crate::handlers::group_topics::offsets_tenant;
use crate::upstream_errors::{self, Api};

/// The type of every group here.
const CLASSIC: &str = "classic";

/// Answers a ListGroups request.
pub async fn handle(cx: &Context, request: ListGroupsRequest) -> ListGroupsResponse {
    let response = ListGroupsResponse::default();
    let wanted = |filter: &[StrBytes], value: &str| {
        filter.is_empty() || filter.iter().any(|one| one.eq_ignore_ascii_case(value))
    };
    if !wanted(&request.types_filter, CLASSIC) {
        return response;
    }
    // Group id to state and protocol type; a live group wins over its index row.
    let mut groups: BTreeMap<String, (GroupState, String)> = BTreeMap::new();
    if wanted(&request.states_filter, GroupState::Empty.name()) {
        match cx.node.offsets.list_groups(&offsets_tenant(cx)).await {
            Ok(index) => {
                if index.cut {
                    tracing::warn!("there are more groups than ListGroups reads");
                }
                let listed = index.groups.into_iter();
                groups.extend(listed.map(|(id, row)| (id, (GroupState::Empty, row.pt))));
            }
            Err(error) => {
                let code = upstream_errors::answer(Api::Group, cx.version, &error).code;
                return response.with_error_code(code.code());
            }
        }
    }
    for (id, overview) in cx.node.groups.list(&cx.session.scope) {
        let protocol_type = overview.protocol_type.as_deref().unwrap_or_default();
        groups.insert(
            id.as_ref().to_owned(),
            (overview.state, protocol_type.to_owned()),
        );
    }
    let listed = groups
        .into_iter()
        .filter(|(_, (state, _))| wanted(&request.states_filter, state.name()))
        .map(|(id, (state, protocol_type))| {
            ListedGroup::default()
                .with_group_id(GroupId(StrBytes::from_string(id)))
                .with_protocol_type(StrBytes::from_string(protocol_type))
                .with_group_state(StrBytes::from_static_str(state.name()))
                .with_group_type(StrBytes::from_static_str(CLASSIC))
        });
    response.with_groups(listed.collect())
}
