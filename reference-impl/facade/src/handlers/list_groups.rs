//! ListGroups, versions 0 to 5.
//!
//! - Live groups, and groups that have only committed offsets (`Empty`), in order of their ids.
//! - When the latter can't be read the answer is an error, not a shorter list.
//! - Filters compare without regard to case, as in Kafka 4. The type of a group that has only committed
//!   offsets is not kept: it counts as `classic`.
//!
//! Versions: 1 adds the throttle; 3 is flexible; 4 the state and its filter (KIP-518); 5 the type
//! and its filter (KIP-848).

use std::collections::BTreeMap;

use coordinator::classic::GroupState;
use kafka_protocol::messages::list_groups_response::ListedGroup;
use kafka_protocol::messages::{GroupId, ListGroupsRequest, ListGroupsResponse};
use kafka_protocol::protocol::StrBytes;

use crate::context::Context;
use crate::groups::{GroupType, Overview};
use crate::handlers::group_topics::offsets_tenant;
use crate::offsets::IndexRow;
use crate::upstream_errors::{self, Api};

/// Answers a ListGroups request.
pub async fn handle(cx: &Context, request: ListGroupsRequest) -> ListGroupsResponse {
    let response = ListGroupsResponse::default();
    let wanted = |filter: &[StrBytes], value: &str| {
        filter.is_empty() || filter.iter().any(|one| one.eq_ignore_ascii_case(value))
    };
    // A live group wins over its index row.
    let mut groups: BTreeMap<String, Listed> = BTreeMap::new();
    if wanted(&request.types_filter, GroupType::Classic.name())
        && wanted(&request.states_filter, GroupState::Empty.name())
    {
        match cx.node.offsets.list_groups(&offsets_tenant(cx)).await {
            Ok(index) => {
                if index.cut {
                    tracing::warn!("there are more groups than ListGroups reads");
                }
                let listed = index.groups.into_iter();
                groups.extend(listed.map(|(id, row)| (id, Listed::stored(row))));
            }
            Err(error) => {
                let code = upstream_errors::answer(Api::Group, cx.version, &error).code;
                return response.with_error_code(code.code());
            }
        }
    }
    for (id, overview) in cx.node.groups.list(&cx.session.scope) {
        groups.insert(id.as_ref().to_owned(), Listed::live(overview));
    }
    let listed = groups
        .into_iter()
        .filter(|(_, group)| {
            wanted(&request.states_filter, group.state)
                && wanted(&request.types_filter, group.group_type.name())
        })
        .map(|(id, group)| {
            ListedGroup::default()
                .with_group_id(GroupId(StrBytes::from_string(id)))
                .with_protocol_type(StrBytes::from_string(group.protocol_type))
                .with_group_state(StrBytes::from_static_str(group.state))
                .with_group_type(StrBytes::from_static_str(group.group_type.name()))
        });
    response.with_groups(listed.collect())
}

/// A line of the list.
struct Listed {
    group_type: GroupType,
    state: &'static str,
    protocol_type: String,
}

impl Listed {
    /// A group that has only committed offsets.
    fn stored(row: IndexRow) -> Self {
        Self {
            group_type: GroupType::Classic,
            state: GroupState::Empty.name(),
            protocol_type: row.pt,
        }
    }

    fn live(overview: Overview) -> Self {
        Self {
            group_type: overview.group_type,
            state: overview.state,
            protocol_type: overview
                .protocol_type
                .as_deref()
                .unwrap_or_default()
                .to_owned(),
        }
    }
}
