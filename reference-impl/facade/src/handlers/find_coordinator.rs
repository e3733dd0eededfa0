//! FindCoordinator, versions 0 to 6.
//!
//! - A group is coordinated by who owns it among the live nodes, alone by this one; so is every
//!   transactional id. An empty transactional id is INVALID_REQUEST. In cluster mode a transactional
//!   id is refused: transactions are not served there, and a code that clients retry would keep
//!   `initTransactions()` waiting for nothing.
//! - Share groups (key type 2) are not served: INVALID_REQUEST, as for any unknown key type.
//!
//! Versions: 1 adds the key type, the message and the throttle; 3 is flexible; 4 asks for several
//! keys at once; 5 and 6 change no field.

use coordinator::cluster::rendezvous::Item;
use kafka_protocol::messages::find_coordinator_response::Coordinator;
use kafka_protocol::messages::{FindCoordinatorRequest, FindCoordinatorResponse};
use kafka_protocol::protocol::StrBytes;
use kafka_wire::ErrorCode;

use crate::context::{Context, Node};
use crate::groups::GroupName;
use crate::queen::Scope;

/// `key_type` of a group.
const GROUP: i8 = 0;
/// `key_type` of a transactional id.
const TRANSACTION: i8 = 1;
/// The first version that asks for several keys.
const BATCHED: i16 = 4;

/// Answers a FindCoordinator request.
pub async fn handle(cx: &Context, request: FindCoordinatorRequest) -> FindCoordinatorResponse {
    let scope = &cx.session.scope;
    let mut response = FindCoordinatorResponse::default();
    if cx.version >= BATCHED {
        response.coordinators = request
            .coordinator_keys
            .into_iter()
            .map(|key| coordinator(&cx.node, scope, request.key_type, key))
            .collect();
    } else {
        let found = coordinator(&cx.node, scope, request.key_type, request.key);
        response.error_code = found.error_code;
        response.error_message = found.error_message;
        response.node_id = found.node_id;
        response.host = found.host;
        response.port = found.port;
    }
    response
}

fn serves_transactions(node: &Node) -> bool {
    node.cluster
        .as_ref()
        .is_none_or(|cluster| cluster.serves_transactions())
}

fn coordinator(node: &Node, scope: &Scope, key_type: i8, key: StrBytes) -> Coordinator {
    let refusal = match key_type {
        GROUP => GroupName::new(scope, &key)
            .err()
            .map(|error| (ErrorCode::InvalidGroupId, error.to_string())),
        TRANSACTION if !serves_transactions(node) => Some((
            ErrorCode::TransactionalIdAuthorizationFailed,
            "A node of the cluster does not serve transactions".to_owned(),
        )),
        TRANSACTION => key.is_empty().then(|| {
            (
                ErrorCode::InvalidRequest,
                "The transactional id is empty".to_owned(),
            )
        }),
        _ => Some((
            ErrorCode::InvalidRequest,
            format!("No coordinators of key type {key_type}"),
        )),
    };
    let owner = match key_type {
        TRANSACTION => node.view().owner(Item::Transaction(&key)),
        _ => node.view().owner(Item::Group(&key)),
    };
    let found = Coordinator::default().with_key(key);
    match refusal {
        Some((code, message)) => found
            .with_error_code(code.code())
            .with_error_message(Some(StrBytes::from_string(message)))
            .with_node_id((-1).into())
            .with_port(-1),
        None => found
            .with_node_id(owner.id.0.into())
            .with_host(StrBytes::from_string(owner.host.to_string()))
            .with_port(owner.port.into()),
    }
}
