//! How much a response carries, in which form, and what becomes of the rest.

use kafka_wire::records::BATCH_OVERHEAD_BYTES;

use super::*;

fn hundred(prefix: &str) -> Vec<String> {
    (0..10)
        .map(|n| format!("{prefix}{n}-{}", "x".repeat(97)))
        .collect()
}

fn strs(values: &[String]) -> Vec<&str> {
    values.iter().map(String::as_str).collect()
}

#[tokio::test(start_paused = true)]
async fn what_is_read_beyond_the_response_is_served_next_without_a_call() {
    let rig = Rig::new();
    let stored = hundred("r");
    rig.store("orders", 0, &strs(&stored));
    let mut offset = 0;
    let mut seen = Vec::new();
    while offset < 10 {
        let response = rig.fetch(from([(0, offset)]).with_max_bytes(400)).await;
        let partition = partitions(&response)[0];
        let values = values(partition);
        assert!(!values.is_empty() && values.len() <= 3, "{values:?}");
        assert_eq!(partition.high_watermark, 10);
        assert!(partition.records.as_ref().expect("records").len() <= 400);
        offset = values.last().expect("some").0 + 1;
        seen.extend(values.into_iter().map(|(_, value)| value));
    }
    assert_eq!(seen, stored);
    assert_eq!(rig.fetch_calls(), 1, "one call brought all ten");
}

#[tokio::test(start_paused = true)]
async fn queen_is_asked_for_little_more_than_the_response_may_carry() {
    let rig = Rig::new();
    for partition in 0..4 {
        rig.store("orders", partition, &["x"]);
    }
    let lanes = |count: i32| from((0..count).map(|partition| (partition, 0)));
    let asked = |call: usize| -> Vec<u64> {
        let calls = rig.queen.calls("fetch");
        let entries = calls[call].body["entries"]
            .as_array()
            .cloned()
            .unwrap_or_default();
        let bytes = entries
            .iter()
            .filter_map(|entry| entry["maxBytes"].as_u64());
        bytes.collect()
    };
    rig.fetch(lanes(4).with_max_bytes(2 << 20)).await;
    assert_eq!(asked(0), [1 << 20; 4], "twice what fits");
    rig.fetch(lanes(4).with_max_bytes(1 << 20)).await;
    assert_eq!(asked(1), [1 << 19; 4]);
    rig.fetch(lanes(4).with_max_bytes(1_000)).await;
    assert_eq!(asked(2), [64 << 10; 4], "never too little to be of use");
}

#[tokio::test(start_paused = true)]
async fn a_consumer_that_seeks_gets_what_it_asks_for() {
    let rig = Rig::new();
    let stored = hundred("r");
    rig.store("orders", 0, &strs(&stored));
    rig.fetch(from([(0, 0)]).with_max_bytes(400)).await;
    let response = rig.fetch(from([(0, 7)])).await;
    let offsets: Vec<_> = values(partitions(&response)[0])
        .iter()
        .map(|v| v.0)
        .collect();
    assert_eq!(offsets, [7, 8, 9]);
}

#[tokio::test(start_paused = true)]
async fn surplus_is_not_served_when_it_is_old() {
    let rig = Rig::new();
    rig.store("orders", 0, &strs(&hundred("r")));
    rig.fetch(from([(0, 0)]).with_max_bytes(400)).await;
    tokio::time::sleep(Duration::from_secs(6)).await;
    rig.fetch(from([(0, 3)]).with_max_bytes(400)).await;
    assert_eq!(rig.fetch_calls(), 2);
}

#[tokio::test(start_paused = true)]
async fn the_first_record_comes_whatever_its_size_and_only_the_first() {
    let rig = Rig::new();
    let large = "x".repeat(5000);
    rig.store("orders", 0, &[&large]);
    rig.store("orders", 1, &[&large]);
    let response = rig.fetch(from([(0, 0), (1, 0)]).with_max_bytes(100)).await;
    let partitions = partitions(&response);
    assert_eq!(values(partitions[0]), [(0, large.clone())]);
    assert_eq!(values(partitions[1]), []);
    assert_eq!(
        partitions[1].high_watermark, 1,
        "an empty read with its watermark"
    );
}

#[tokio::test(start_paused = true)]
async fn a_partition_is_bounded_by_its_own_size() {
    let rig = Rig::new();
    rig.store("orders", 0, &strs(&hundred("a")));
    rig.store("orders", 1, &strs(&hundred("b")));
    let mut request = from([(0, 0), (1, 0)]);
    for partition in &mut request.topics[0].partitions {
        partition.partition_max_bytes = i32::try_from(BATCH_OVERHEAD_BYTES).unwrap() + 250;
    }
    let response = rig.fetch(request).await;
    let counts: Vec<_> = partitions(&response)
        .iter()
        .map(|p| values(p).len())
        .collect();
    assert_eq!(counts, [2, 2]);
}

#[tokio::test(start_paused = true)]
async fn every_partition_of_a_session_has_its_turn() {
    let rig = Rig::new();
    for partition in 0..4 {
        rig.store("orders", partition, &strs(&hundred("r")));
    }
    let mut offsets = [0_i64; 4];
    let first = from((0..4).map(|p| (p, 0)))
        .with_session_epoch(0)
        .with_max_bytes(250);
    let mut response = rig.fetch(first).await;
    let mut turns = Vec::new();
    for epoch in 1..20 {
        let mut moved = Vec::new();
        for partition in partitions(&response) {
            if let Some((last, _)) = values(partition).last() {
                offsets[usize::try_from(partition.partition_index).unwrap()] = last + 1;
                turns.push(partition.partition_index);
                moved.push((partition.partition_index, last + 1));
            }
        }
        let next = from(moved)
            .with_session_id(response.session_id)
            .with_session_epoch(epoch)
            .with_max_bytes(250);
        response = rig.fetch(next).await;
    }
    let mut first_round = turns[..4].to_vec();
    first_round.sort_unstable();
    assert_eq!(first_round, [0, 1, 2, 3], "{turns:?}");
    assert!(
        offsets.iter().all(|offset| (3..=6).contains(offset)),
        "{offsets:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn records_keep_the_codec_they_were_produced_with() {
    let mut rig = Rig::new();
    let stored = hundred("r");
    rig.store("orders", 0, &strs(&stored));
    let view = rig
        .node
        .catalogue
        .view(
            &crate::queen::Scope::new(""),
            &crate::queen::Credential::default(),
        )
        .await;
    let id = view.topics.get("orders").expect("a topic").id;
    for expected in [
        Compression::None,
        Compression::Gzip,
        Compression::Lz4,
        Compression::Snappy,
        Compression::Zstd,
    ] {
        rig.node.produce.codecs.seen(id, expected);
        let response = rig.fetch(from([(0, 0)])).await;
        let partition = partitions(&response)[0];
        assert_eq!(codec(partition), expected);
        assert_eq!(values(partition).len(), 10);
    }
    rig.version = 9;
    let response = rig.fetch(from([(0, 0)])).await;
    assert_eq!(
        codec(partitions(&response)[0]),
        Compression::None,
        "zstd came with version 10"
    );
}

#[tokio::test(start_paused = true)]
async fn a_native_payload_is_served_as_its_text() {
    let rig = Rig::new();
    rig.queen.store("orders", 0, json!({"order": 7}));
    rig.queen.store(
        "orders",
        0,
        json!({"k": "aw==", "v": null, "h": [{"k": "n", "v": ""}]}),
    );
    let response = rig.fetch(from([(0, 0)])).await;
    let expected = [(0, "{\"order\":7}".to_owned()), (1, "null".to_owned())];
    assert_eq!(values(partitions(&response)[0]), expected);
}

#[tokio::test(start_paused = true)]
async fn a_response_has_at_most_32_mebibytes() {
    let rig = Rig::new();
    // Forty partitions with a record of almost a mebibyte each, all of which is asked for.
    let value = "x".repeat(1_000_000);
    for partition in 0..40 {
        rig.store("orders", partition, &[&value]);
    }
    let request = from((0..40).map(|partition| (partition, 0))).with_max_bytes(i32::MAX);
    let response = rig.fetch(request).await;
    let partitions = partitions(&response);
    let records = partitions.iter().filter_map(|p| p.records.as_ref());
    let bytes: usize = records.map(|records| records.len()).sum();
    assert!(bytes <= 32 << 20, "{bytes}");
    assert!(bytes > 30 << 20, "{bytes}");
    assert_eq!(partitions.len(), 40);
    for partition in partitions {
        // What had no room is an empty read, and says how much there is.
        assert_eq!((partition.error_code, partition.high_watermark), (0, 1));
    }
}
