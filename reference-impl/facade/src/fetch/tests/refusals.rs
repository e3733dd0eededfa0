//! Errors of Queen and of the client.

use rstest::rstest;

use super::*;
use crate::scripted_queen::Fault;

#[rstest]
#[case::throttled(Fault::Throttled(7), 0, 7000)]
#[case::unavailable(Fault::Status(503), 6, 0)]
#[case::gateway(Fault::Status(502), 6, 0)]
#[case::failing(Fault::Status(500), 6, 0)]
#[case::forbidden(Fault::Status(403), 29, 0)]
#[case::unauthenticated(Fault::Status(401), 29, 0)]
#[case::not_found(Fault::Status(404), 3, 0)]
#[tokio::test(start_paused = true)]
async fn a_failed_call_has_its_kafka_code(
    #[case] fault: Fault,
    #[case] code: i16,
    #[case] throttle_ms: i32,
) {
    let rig = Rig::new();
    rig.store("orders", 0, &["one"]);
    rig.queen.script("fetch", [fault]);
    let response = rig.fetch(from([(0, 0)])).await;
    assert_eq!(codes(&response), [(0, code)]);
    assert_eq!(response.throttle_time_ms, throttle_ms);
    assert_eq!(partitions(&response)[0].high_watermark, -1);
    assert_eq!(values(partitions(&response)[0]), []);
    let again = rig.fetch(from([(0, 0)])).await;
    assert_eq!(values(partitions(&again)[0]).len(), 1);
}

#[rstest]
#[case::none(-1, 0)]
#[case::the_one(0, 0)]
#[case::of_another_cluster(1, 75)]
#[tokio::test(start_paused = true)]
async fn a_later_leader_epoch_is_unknown(#[case] epoch: i32, #[case] code: i16) {
    let rig = Rig::new();
    rig.store("orders", 0, &["one"]);
    let mut request = from([(0, 0)]);
    request.topics[0].partitions[0].current_leader_epoch = epoch;
    assert_eq!(codes(&rig.fetch(request).await), [(0, code)]);
}

#[tokio::test(start_paused = true)]
async fn a_throttled_session_hears_nothing_false() {
    let rig = Rig::new();
    rig.store("orders", 0, &["one"]);
    let full = rig.fetch(from([(0, 1)]).with_session_epoch(0)).await;
    rig.queen.script("fetch", [Fault::Throttled(1)]);
    let mut next = from([])
        .with_session_id(full.session_id)
        .with_session_epoch(1);
    next.topics.clear();
    let throttled = rig.fetch(next).await;
    assert_eq!(
        (throttled.throttle_time_ms, throttled.responses.len()),
        (1000, 0)
    );
}

#[tokio::test(start_paused = true)]
async fn each_partition_has_its_own_error() {
    let rig = Rig::new();
    rig.store("orders", 0, &["one", "two", "three"]);
    rig.queen.retain_from("orders", 0, 1);
    let cases = [
        (0, 1, 0),
        (0, 3, 0),
        (0, 0, 1),
        (0, 4, 1),
        (0, -1, 1),
        (0, i64::MAX, 1),
        (1023, 0, 0),
        (1023, 1, 1),
        (1024, 0, 3),
        (-1, 0, 3),
    ];
    for (partition, offset, code) in cases {
        let response = rig.fetch(from([(partition, offset)])).await;
        assert_eq!(
            codes(&response),
            [(partition, code)],
            "{partition} {offset}"
        );
    }
    let mut request = from([(0, 0)]);
    for (name, code) in [("absent", 3), ("__hidden", 3), ("no such name", 3)] {
        request.topics[0].topic = wire_name(name);
        let response = rig.fetch(request.clone()).await;
        assert_eq!(codes(&response), [(0, code)], "{name}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_never_pushed_partition_is_an_empty_log() {
    let rig = Rig::new();
    rig.queen.create("orders");
    let response = rig.fetch(from([(7, 0)])).await;
    let partition = partitions(&response)[0];
    let marks = (
        partition.error_code,
        partition.high_watermark,
        partition.log_start_offset,
    );
    assert_eq!(marks, (0, 0, 0));
}

#[tokio::test(start_paused = true)]
async fn an_unreadable_catalogue_only_disables_the_width_check() {
    let rig = Rig::new();
    rig.store("orders", 0, &["one"]);
    rig.queen
        .script("resources/queues", vec![Fault::Status(503); 9]);
    let response = rig.fetch(from([(0, 0)])).await;
    assert_eq!(values(partitions(&response)[0]), [(0, "one".to_owned())]);
}
