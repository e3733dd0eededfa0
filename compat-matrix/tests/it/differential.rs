//! The facade against the recorded answers of Apache Kafka, family by family: no Kafka is needed.

use std::path::Path;
use std::process::Command;

use rstest::rstest;

#[rstest]
#[case("wire")]
#[case("classic-group")]
#[case("consumer-group")]
#[case("producer")]
#[case("transaction")]
fn every_difference_is_listed_and_every_listed_one_occurs(#[case] family: &str) {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let done = Command::new(env!("CARGO_BIN_EXE_compat-matrix"))
        .args(["differential", "--family", family])
        .current_dir(root)
        .output()
        .unwrap();
    let told = String::from_utf8_lossy(&done.stdout);
    assert!(
        done.status.success(),
        "{told}{}",
        String::from_utf8_lossy(&done.stderr)
    );
    assert!(told.contains("checks compared"), "{told}");
}
