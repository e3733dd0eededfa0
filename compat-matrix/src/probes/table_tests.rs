//! The tables of the probes themselves.

use std::collections::BTreeSet;

use kafka_wire::{ApiKey, schema};

use super::{apis, id_of, specs};
use crate::testing::all_that_the_schema_knows;

#[test]
fn ids_are_unique_and_readable() {
    assert_eq!(
        id_of(ApiKey::OFFSET_FOR_LEADER_EPOCH),
        "wire/offset-for-leader-epoch"
    );
    let specs = specs(&all_that_the_schema_knows());
    let ids: BTreeSet<&str> = specs.iter().map(|spec| spec.id.as_str()).collect();
    assert_eq!(ids.len(), specs.len());
}

#[test]
fn every_sample_fits_every_version_it_is_sent_in() {
    for api in apis() {
        let request = schema::request(api.key).expect("a probe's API is in the schema");
        for version in request.versions.iter() {
            crate::wire::codec::encode(request, version, &(api.sample)())
                .unwrap_or_else(|error| panic!("{} v{version}: {error}", api.key));
        }
    }
}

#[test]
fn every_case_has_versions_to_run_in() {
    for api in apis() {
        let request = schema::request(api.key).expect("a probe's API is in the schema");
        for case in &api.cases {
            assert!(
                case.versions.intersect(request.versions).is_some(),
                "{} {} never runs",
                api.key,
                case.name
            );
        }
    }
}
