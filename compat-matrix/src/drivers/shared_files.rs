//! The files that driver programs share say what this crate says.

use std::collections::BTreeMap;
use std::path::Path;

use super::protocol::{Capabilities, Op};

const CAPABILITIES: &str = include_str!("../../drivers/common/capabilities.json");
const ERROR_CODES: &str = include_str!("../../drivers/common/error-codes.json");
const VERSIONS: &str = include_str!("../../drivers/versions.toml");

#[test]
fn capabilities_are_those_of_the_protocol() {
    let shared: Vec<String> = serde_json::from_str(CAPABILITIES).unwrap();
    // Client libraries leave out of it what they lack; none of them is a framework.
    let all = Capabilities::all_but(&Op::FRAMEWORKS).unwrap();
    assert_eq!(shared, all.names().collect::<Vec<_>>());
}

#[test]
fn error_codes_have_kafkas_names() {
    let shared: BTreeMap<i16, String> = serde_json::from_str(ERROR_CODES).unwrap();
    let ours: BTreeMap<i16, String> = kafka_wire::ErrorCode::ALL
        .iter()
        .filter(|code| code.is_error())
        .map(|code| (code.code(), code.name().to_owned()))
        .collect();
    assert_eq!(shared, ours);
}

#[test]
fn every_pinned_client_has_a_folder_that_builds_it() {
    let versions: toml::Table = toml::from_str(VERSIONS).unwrap();
    let drivers = Path::new(env!("CARGO_MANIFEST_DIR")).join("drivers");
    for client in versions["client"].as_array().unwrap() {
        let build = drivers
            .join(client["folder"].as_str().unwrap())
            .join("build");
        assert!(build.is_file(), "{} is missing", build.display());
    }
}
