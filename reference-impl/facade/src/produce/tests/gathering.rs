//! Group commit: how many pushes, of what.

use std::time::Duration;

use super::*;
use crate::queen::{MAX_PUSH_BYTES, MAX_PUSH_ITEMS};
use crate::scripted_queen::Fault;

#[tokio::test(start_paused = true)]
async fn gathers_from_every_connection_while_a_push_is_in_flight() {
    let world = World::new();
    let topics: Vec<_> = (0..5).map(|n| topic(&format!("topic-{n}"))).collect();
    world
        .queen
        .script("push", [Fault::Slow(Duration::from_secs(1))]);
    let mut admitted = Vec::new();
    for request in 0..100_usize {
        let topic = &topics[request % 5];
        let partition = i32::try_from(request % 7).unwrap();
        let batch = batches::plain(&numbers(request..request + 1));
        admitted.extend(world.admit(vec![(topic, partition, batch)]).await);
    }
    for admitted in admitted {
        outcome(admitted).await.result.expect("stored");
    }
    let sizes: Vec<_> = world
        .queen
        .calls("push")
        .iter()
        .map(|call| call.body["items"].as_array().unwrap().len())
        .collect();
    assert_eq!(sizes, [1, 99], "one push, and all that gathered meanwhile");
}

#[tokio::test(start_paused = true)]
async fn a_request_is_one_push() {
    let world = World::new();
    let orders = topic("orders");
    let request = (0..50).map(|p| (&orders, p, batches::plain(&numbers(0..2))));
    for admitted in world.admit(request.collect()).await {
        assert_eq!(base(&outcome(admitted).await), 0);
    }
    assert_eq!(world.queen.calls("push").len(), 1);
}

#[tokio::test(start_paused = true)]
async fn credentials_are_never_mixed() {
    let mut world = World::new();
    let orders = topic("orders");
    world.queen.script(
        "push",
        [
            Fault::Slow(Duration::from_secs(1)),
            Fault::Slow(Duration::from_secs(1)),
        ],
    );
    let mut admitted = Vec::new();
    for n in 0..6_usize {
        world.credential.bearer = Some(host::Secret::new(format!("key-{}", n % 2)));
        let batch = batches::plain(&[format!("key-{}", n % 2)]);
        let partition = i32::try_from(n).unwrap();
        admitted.extend(world.admit(vec![(&orders, partition, batch)]).await);
    }
    for admitted in admitted {
        outcome(admitted).await.result.expect("stored");
    }
    let calls = world.queen.calls("push");
    assert_eq!(calls.len(), 4);
    for call in calls {
        let bearer = call.bearer.expect("a bearer");
        for item in call.body["items"].as_array().unwrap() {
            let text = item["payload"]["v"].as_str().unwrap();
            let value = base64_simd::STANDARD.decode_to_vec(text).unwrap();
            assert_eq!(bearer.as_bytes(), [b"Bearer ", value.as_slice()].concat());
        }
    }
}

#[tokio::test(start_paused = true)]
async fn bodies_stay_within_what_the_proxy_lets_through() {
    let world = World::new();
    let orders = topic("orders");
    let big = vec!["x".repeat(1 << 20); 5];
    let mut request: Vec<_> = (0..4).map(|p| (&orders, p, batches::plain(&big))).collect();
    let many = numbers(0..4_000);
    request.extend((4..8).map(|p| (&orders, p, batches::plain(&many))));
    for admitted in world.admit(request).await {
        assert_eq!(base(&outcome(admitted).await), 0);
    }
    let calls = world.queen.calls("push");
    assert!(calls.len() >= 2, "27 MiB of JSON and 16,000 records");
    for call in calls {
        assert!(call.bytes <= MAX_PUSH_BYTES);
        assert!(call.body["items"].as_array().unwrap().len() <= MAX_PUSH_ITEMS);
    }
}

#[tokio::test(start_paused = true)]
async fn a_batch_beyond_every_body_goes_alone_and_whole() {
    let world = World::new();
    let orders = topic("orders");
    let request = vec![
        (&orders, 0, batches::plain(&numbers(0..3))),
        (&orders, 1, batches::plain(&numbers(0..12_000))),
        (&orders, 1, batches::plain(&numbers(12_000..12_001))),
    ];
    for admitted in world.admit(request).await {
        outcome(admitted).await.result.expect("stored");
    }
    assert_eq!(world.values(&orders, 1), numbers(0..12_001));
    let sizes: Vec<_> = world
        .queen
        .calls("push")
        .iter()
        .map(|call| call.body["items"].as_array().unwrap().len())
        .collect();
    assert_eq!(sizes, [3, 12_000, 1]);
}

#[tokio::test(start_paused = true)]
async fn a_busy_gatherer_pushes_several_bodies_at_once_but_each_lane_one_by_one() {
    let world = World::new();
    let orders = topic("orders");
    world.queen.script(
        "push",
        (0..40).map(|_| Fault::Slow(Duration::from_millis(500))),
    );
    let mut admitted = Vec::new();
    for n in 0..40_usize {
        let partition = i32::try_from(n % 20).unwrap();
        let values: Vec<_> = (0..700).map(|at| format!("{n}-{at}")).collect();
        admitted.extend(
            world
                .admit(vec![(&orders, partition, batches::plain(&values))])
                .await,
        );
    }
    for admitted in admitted {
        outcome(admitted).await.result.expect("stored");
    }
    assert!((2..=4).contains(&world.queen.pushes_at_once()));
    for partition in 0..20_i32 {
        let expected: Vec<_> = [partition, partition + 20]
            .iter()
            .flat_map(|n| (0..700).map(move |at| format!("{n}-{at}")))
            .collect();
        assert_eq!(world.values(&orders, partition), expected);
    }
}
