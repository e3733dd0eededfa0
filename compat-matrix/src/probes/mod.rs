//! Wire probes: every advertised API in every advertised version, asked without a client library.
//!
//! One file per API, named after it, holds a table of cases. To add a case, add a row; to add an API,
//! add a file and name it in [`apis`]. What every API must survive (cuts, lies about lengths, unknown
//! tags, versions outside the window) is asked of each by itself: see [`malformed`].
//!
//! A case is written once for all versions: a field that a version lacks is left out of the request
//! and passed over in the expectation ([`crate::wire::codec`]). Probes know nothing of the target but
//! what it advertises; what a target is known to refuse stands in its expectations file.

mod case;
mod malformed;
mod outside;
mod probe;
mod reads;
mod stage;

mod configs;
mod consumer_group_describe;
mod consumer_group_heartbeat;

mod acls;

mod add_offsets_to_txn;
mod add_partitions_to_txn;
mod alter_configs;
mod api_versions;
mod create_partitions;
mod create_topics;
mod delete_groups;
mod delete_records;
mod delete_topics;
mod describe_cluster;
mod describe_configs;
mod describe_groups;
mod describe_log_dirs;
mod describe_producers;
mod describe_topic_partitions;
mod describe_transactions;
mod end_txn;
mod fetch;
mod find_coordinator;
mod heartbeat;
mod incremental_alter_configs;
mod init_producer_id;
mod join_group;
mod leave_group;
mod list_groups;
mod list_offsets;
mod list_transactions;
mod metadata;
mod offset_commit;
mod offset_delete;
mod offset_fetch;
mod offset_for_leader_epoch;
mod produce;
mod sasl_authenticate;
mod sasl_handshake;
mod sync_group;
pub(crate) mod transaction;
mod txn_offset_commit;

use kafka_wire::{ApiKey, VersionRange, schema};
use reports::Window;

pub use case::{Api, Case};
pub use probe::{Answer, Probe};
pub use reads::reads;
pub use stage::{Member, Topic, batch, encode_batch};

use serde_json::json;

use crate::cx::{Cx, api_name};
use crate::spec::{Spec, Stop, Verdict, WIRE};

/// Every API that has probes.
pub fn apis() -> Vec<Api> {
    vec![
        acls::describe(),
        acls::create(),
        acls::delete(),
        add_offsets_to_txn::api(),
        add_partitions_to_txn::api(),
        alter_configs::api(),
        api_versions::api(),
        consumer_group_describe::api(),
        consumer_group_heartbeat::api(),
        create_partitions::api(),
        create_topics::api(),
        delete_groups::api(),
        delete_records::api(),
        delete_topics::api(),
        describe_cluster::api(),
        describe_configs::api(),
        describe_groups::api(),
        describe_log_dirs::api(),
        describe_producers::api(),
        describe_topic_partitions::api(),
        describe_transactions::api(),
        end_txn::api(),
        fetch::api(),
        find_coordinator::api(),
        heartbeat::api(),
        incremental_alter_configs::api(),
        init_producer_id::api(),
        join_group::api(),
        leave_group::api(),
        list_groups::api(),
        list_offsets::api(),
        list_transactions::api(),
        metadata::api(),
        offset_commit::api(),
        offset_delete::api(),
        offset_fetch::api(),
        offset_for_leader_epoch::api(),
        produce::api(),
        sasl_authenticate::api(),
        sasl_handshake::api(),
        sync_group::api(),
        txn_offset_commit::api(),
    ]
}

/// Every probe of what a server advertises.
pub fn specs(advertised: &[Window]) -> Vec<Spec> {
    let apis = apis();
    let mut specs = Vec::new();
    for window in advertised {
        let key = ApiKey(window.key);
        match apis.iter().find(|api| api.key == key) {
            Some(api) => specs.extend(of_api(api, window, advertised)),
            None => specs.push(unwritten(key)),
        }
        specs.push(outside::window(window));
    }
    specs.extend(outside::keys(advertised));
    specs
}

fn of_api(api: &Api, window: &Window, advertised: &[Window]) -> Vec<Spec> {
    // Every API with probes is one that the schema knows: a test says so.
    let known = schema::request(api.key).map_or(VersionRange::NONE, |request| request.versions);
    let mut specs = Vec::new();
    for version in window.min..=window.max {
        if version < known.min {
            specs.push(outside::retired(api.key, version));
        } else if version > known.max {
            specs.push(unknown_version(api.key, version, known));
        } else {
            specs.extend(
                api.cases
                    .iter()
                    .filter(|case| case.versions.contains(version))
                    .map(|case| case.spec(api, version, advertised)),
            );
            specs.extend(malformed::specs(api, version, advertised));
        }
    }
    specs
}

/// Topics that one request deletes.
const DELETED_AT_ONCE: usize = 100;

/// Deletes topics that checks have made. One that is gone already is no error.
///
/// # Errors
///
/// What the server says.
pub async fn delete_topics(cx: &Cx, advertised: &[Window], topics: &[String]) -> Verdict {
    let probe = Probe::new(
        cx.for_check(),
        ApiKey::DELETE_TOPICS,
        0,
        &[],
        advertised.into(),
    );
    for some in topics.chunks(DELETED_AT_ONCE) {
        let named: Vec<_> = some.iter().map(|name| json!({"Name": name})).collect();
        probe
            .stage(
                ApiKey::DELETE_TOPICS,
                json!({"Topics": named, "TopicNames": some, "TimeoutMs": 30_000}),
            )
            .await?;
    }
    Ok(())
}

/// The start of the ids of an API's checks: `wire/list-offsets`.
fn id_of(key: ApiKey) -> String {
    let mut id = String::from("wire/");
    for (at, character) in api_name(key).chars().enumerate() {
        if character.is_ascii_uppercase() && at > 0 {
            id.push('-');
        }
        id.push(character.to_ascii_lowercase());
    }
    id
}

fn unwritten(key: ApiKey) -> Spec {
    Spec::new(
        format!("{}/unwritten", id_of(key)),
        format!("{key} behaves as Apache Kafka's does"),
        WIRE,
        |_| async { Err(Stop::skip("no probe is written for this API yet")) },
    )
    .apis([key])
}

fn unknown_version(key: ApiKey, version: i16, known: VersionRange) -> Spec {
    Spec::new(
        format!("{}/v{version}/unknown", id_of(key)),
        format!("{key} v{version} behaves as Apache Kafka's does"),
        WIRE,
        move |_| async move {
            Err(Stop::skip(format!(
                "the schema of this program knows versions {known} only"
            )))
        },
    )
    .apis([key])
}

#[cfg(test)]
mod table_tests;
#[cfg(test)]
mod tests;
