//! Pops that wait, and records that are held back.

use std::time::Duration;

use serde_json::json;

use super::{ack, data, ints, pop, push_all};
use crate::client::Client;
use crate::world::World;

#[tokio::test(start_paused = true)]
async fn a_waiting_pop_wakes_on_a_push_a_release_and_an_expiry() {
    let client = World::default().await.client;
    push_all(&client, "q", "0", &[0]).await;
    let wait = |client: &Client| {
        let client = client.clone();
        tokio::spawn(async move {
            let started = tokio::time::Instant::now();
            let popped = pop(&client, "queue/q?wait=true&timeout=20000&leaseSeconds=5").await;
            (popped, started.elapsed())
        })
    };
    let first = wait(&client).await.unwrap().0.unwrap();
    // An expiry: exactly then.
    let (again, waited) = wait(&client).await.unwrap();
    assert_eq!((data(&again), waited), (ints(&[0]), Duration::from_secs(5)));
    // A release, at once.
    let waiting = wait(&client);
    tokio::time::sleep(Duration::from_secs(2)).await;
    ack(&client, &again.unwrap()["messages"][0], "retry").await;
    let (third, waited) = waiting.await.unwrap();
    assert_eq!((data(&third), waited), (ints(&[0]), Duration::from_secs(2)));
    ack(&client, &third.unwrap()["messages"][0], "completed").await;
    // A push, at once; to one of two that wait.
    let (a, b) = (wait(&client), wait(&client));
    tokio::time::sleep(Duration::from_secs(1)).await;
    push_all(&client, "q", "0", &[1]).await;
    let mut ends = [a.await.unwrap(), b.await.unwrap()];
    ends.sort_by_key(|(_, waited)| *waited);
    assert_eq!(
        (data(&ends[0].0), ends[0].1),
        (ints(&[1]), Duration::from_secs(1))
    );
    assert_eq!(
        (data(&ends[1].0), ends[1].1),
        (ints(&[1]), Duration::from_secs(6))
    );
    // Nothing, after the time it said.
    let (nothing, waited) = wait(&client).await.unwrap();
    assert_eq!(
        (data(&nothing), waited),
        (ints(&[1]), Duration::from_secs(5))
    );
    ack(&client, &nothing.unwrap()["messages"][0], "completed").await;
    assert_eq!(
        wait(&client).await.unwrap(),
        (None, Duration::from_secs(20))
    );
    drop(first);
}

#[tokio::test(start_paused = true)]
async fn stopping_answers_waiting_pops() {
    let world = World::default().await;
    let client = world.client.clone();
    push_all(&client, "q", "0", &[]).await;
    let waiting = tokio::spawn(async move { pop(&client, "queue/q?wait=true").await });
    tokio::time::sleep(Duration::from_secs(1)).await;
    world.queen.stop().await;
    assert_eq!(waiting.await.unwrap(), None);
}

#[tokio::test(start_paused = true)]
async fn delays_and_windows_hold_records_back() {
    let client = World::default().await.client;
    client
        .post(
            "configure",
            200,
            json!({"queue": "delayed", "delayedProcessing": 10}),
        )
        .await;
    push_all(&client, "delayed", "0", &[1]).await;
    tokio::time::sleep(Duration::from_secs(6)).await;
    push_all(&client, "delayed", "0", &[2]).await;
    assert_eq!(pop(&client, "queue/delayed").await, None);
    let started = tokio::time::Instant::now();
    let first = pop(&client, "queue/delayed?wait=true").await;
    assert_eq!(data(&first), ints(&[1]));
    assert!(
        started.elapsed() <= Duration::from_millis(4002),
        "{:?}",
        started.elapsed()
    );
    client
        .post(
            "configure",
            200,
            json!({"queue": "window", "windowBuffer": 3}),
        )
        .await;
    push_all(&client, "window", "0", &[1]).await;
    tokio::time::sleep(Duration::from_secs(2)).await;
    push_all(&client, "window", "0", &[2]).await;
    let started = tokio::time::Instant::now();
    assert_eq!(
        data(&pop(&client, "queue/window?wait=true").await),
        ints(&[1, 2])
    );
    assert_eq!(started.elapsed(), Duration::from_secs(3));
}

#[tokio::test(start_paused = true)]
async fn an_under_full_batch_may_be_held_back_for_a_moment() {
    let client = World::default().await.client;
    client
        .post(
            "configure",
            200,
            json!({"queue": "q", "minPopWaitTime": 500}),
        )
        .await;
    push_all(&client, "q", "0", &[1]).await;
    let wait = |path: &'static str| {
        let client = client.clone();
        tokio::spawn(async move {
            let started = tokio::time::Instant::now();
            (data(&pop(&client, path).await), started.elapsed())
        })
    };
    let held = wait("queue/q?wait=true&batch=3&leaseSeconds=1");
    assert_eq!(
        held.await.unwrap(),
        (ints(&[1]), Duration::from_millis(500))
    );
    tokio::time::sleep(Duration::from_secs(2)).await;
    let filled = wait("queue/q?wait=true&batch=3&leaseSeconds=1");
    tokio::time::sleep(Duration::from_millis(200)).await;
    push_all(&client, "q", "0", &[2, 3]).await;
    assert_eq!(
        filled.await.unwrap(),
        (ints(&[1, 2, 3]), Duration::from_millis(200))
    );
    tokio::time::sleep(Duration::from_secs(2)).await;
    let single = wait("queue/q?wait=true&batch=1");
    assert_eq!(single.await.unwrap(), (ints(&[1]), Duration::ZERO));
}

#[tokio::test(start_paused = true)]
async fn a_group_that_is_held_back_is_registered_all_the_same() {
    let client = World::default().await.client;
    client
        .post(
            "configure",
            200,
            json!({"queue": "q", "minPopWaitTime": 500}),
        )
        .await;
    push_all(&client, "q", "0", &[1]).await;
    let held = tokio::spawn({
        let client = client.clone();
        async move { pop(&client, "queue/q?wait=true&consumerGroup=g").await }
    });
    tokio::time::sleep(Duration::from_millis(100)).await;
    push_all(&client, "q", "0", &[2]).await;
    assert_eq!(data(&held.await.unwrap()), ints(&[2]));
}
