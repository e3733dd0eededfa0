//! One wait for the whole assignment.

use super::*;

#[tokio::test(start_paused = true)]
async fn a_parked_fetch_is_one_call_and_wakes_with_the_record() {
    let rig = Rig::new();
    rig.queen.create("orders");
    let fetch = rig.fetch(from((0..100).map(|p| (p, 0))).with_max_wait_ms(20_000));
    let push = async {
        tokio::time::sleep(Duration::from_secs(7)).await;
        rig.store("orders", 42, &["late"]);
    };
    let (response, ()) = tokio::join!(fetch, push);
    assert_eq!(now(&rig).as_secs(), 7);
    let with_records: Vec<_> = partitions(&response)
        .into_iter()
        .filter(|partition| !values(partition).is_empty())
        .map(|partition| partition.partition_index)
        .collect();
    assert_eq!(with_records, [42]);
    assert_eq!(rig.fetch_calls(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_wide_assignment_waits_for_all_its_chunks_together() {
    let rig = Rig::new();
    rig.queen.create("orders");
    let (node, _stop) = node(&rig.queen, |config| {
        config.default_partitions = crate::config::PartitionCount::MAX;
    });
    let rig = Rig { node, ..rig };
    let fetch = rig.fetch(from((0..3000).map(|p| (p, 0))).with_max_wait_ms(20_000));
    let push = async {
        tokio::time::sleep(Duration::from_secs(3)).await;
        rig.store("orders", 2999, &["at the far end"]);
    };
    let (response, ()) = tokio::join!(fetch, push);
    assert_eq!(
        now(&rig).as_secs(),
        3,
        "the last chunk's record ends the wait"
    );
    assert_eq!(response.responses.len(), 1);
    let partitions = partitions(&response);
    assert_eq!(partitions.len(), 3000);
    assert_eq!(values(partitions[2999]), [(0, "at the far end".to_owned())]);
    assert!(
        partitions
            .iter()
            .all(|p| p.error_code == 0 && p.high_watermark >= 0)
    );
    let calls = rig.queen.calls("fetch");
    assert_eq!(
        calls.len(),
        6,
        "three chunks at once, then the three parked"
    );
    let waits = calls
        .iter()
        .filter(|call| call.body["maxWaitMs"] != 0)
        .count();
    assert_eq!(waits, 3);
}

#[tokio::test(start_paused = true)]
async fn a_wide_assignment_with_records_does_not_park() {
    let rig = Rig::new();
    rig.queen.create("orders");
    let (node, _stop) = node(&rig.queen, |config| {
        config.default_partitions = crate::config::PartitionCount::MAX;
    });
    let rig = Rig { node, ..rig };
    rig.store("orders", 2000, &["here"]);
    let response = rig.fetch(from((0..3000).map(|p| (p, 0)))).await;
    assert_eq!(
        values(partitions(&response)[2000]),
        [(0, "here".to_owned())]
    );
    assert_eq!(rig.fetch_calls(), 3);
}

#[tokio::test(start_paused = true)]
async fn an_idle_fetch_ends_with_its_wait() {
    let rig = Rig::new();
    rig.queen.create("orders");
    let response = rig.fetch(from([(0, 0)]).with_max_wait_ms(1500)).await;
    assert_eq!(now(&rig).as_millis(), 1500);
    assert_eq!(codes(&response), [(0, 0)]);
    let before = now(&rig);
    rig.fetch(from([(0, 0)]).with_min_bytes(0)).await;
    rig.fetch(from([(0, 0)]).with_max_wait_ms(0)).await;
    rig.fetch(from([(0, 0)]).with_max_wait_ms(-1)).await;
    assert_eq!(now(&rig), before, "nothing to wait for");
}

#[tokio::test(start_paused = true)]
async fn an_error_is_not_kept_waiting() {
    let rig = Rig::new();
    rig.queen.create("orders");
    let response = rig.fetch(from([(0, 0), (100_000, 0)])).await;
    assert_eq!(codes(&response), [(0, 0), (100_000, 3)]);
    assert_eq!(now(&rig), Duration::ZERO);
}

#[tokio::test(start_paused = true)]
async fn a_drain_ends_the_wait() {
    let mut rig = Rig::new();
    rig.queen.create("orders");
    let stop = rig.stop.take().expect("not stopped yet");
    let fetch = rig.fetch(from([(0, 0)]).with_max_wait_ms(30_000));
    let drain = async {
        tokio::time::sleep(Duration::from_secs(2)).await;
        tokio::spawn(stop.stop(Duration::from_secs(20)));
    };
    let (response, ()) = tokio::join!(fetch, drain);
    assert_eq!(now(&rig).as_secs(), 2);
    assert_eq!(codes(&response), [(0, 0)]);
}
