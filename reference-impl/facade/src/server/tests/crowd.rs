//! Crowds that ask for much and read little, beside a client that does neither.

use super::*;

const MIB: usize = 1024 * 1024;
/// Of which three eighths are for answers.
const ALL_BYTES: usize = 64 * MIB;
const CROWD: usize = 100;

/// The longest wait of an honest client that asks again and again for `script`, while the crowd is
/// there.
async fn longest_wait(rig: &Rig, script: &str, asks: usize) -> Duration {
    let mut longest = Duration::ZERO;
    let mut client = rig.client().await;
    for _ in 0..asks {
        let began = Instant::now();
        client.send(ApiKey::METADATA, 0, 7, script).await;
        assert_eq!(client.answered().await, Some(7));
        longest = longest.max(began.elapsed());
        sleep(Duration::from_millis(50)).await;
    }
    longest
}

fn crowded_rig() -> Rig {
    Rig::with(serve_with, |config| {
        config.listener.max_in_flight_bytes = ALL_BYTES;
    })
}

async fn crowd(rig: &Rig, script: &str) -> Vec<Client> {
    let mut crowd = Vec::new();
    for _ in 0..CROWD {
        let mut client = rig.client().await;
        client.send(ApiKey::METADATA, 0, 1, script).await;
        crowd.push(client);
    }
    crowd
}

fn held_bytes(rig: &Rig) -> usize {
    let text = rig.node.metrics.registry.render();
    let mut lines = text.lines();
    let line = lines.find_map(|line| line.strip_prefix("queen_kafka_in_flight_bytes "));
    line.unwrap().parse().unwrap()
}

#[rstest]
#[case::large_beside_small("crowd-a:room:26000000", "honest-a:room:1000")]
#[case::large_beside_medium("crowd-b:room:26000000", "honest-b:room:1500000")]
#[case::medium_beside_small("crowd-c:room:2000000", "honest-c:room:60000")]
#[case::small_beside_small("crowd-d:room:65000", "honest-d:room:60000")]
#[tokio::test(start_paused = true)]
async fn a_crowd_that_does_not_read_keeps_nobody_waiting(#[case] theirs: &str, #[case] ours: &str) {
    let rig = crowded_rig();
    let crowd = crowd(&rig, theirs).await;
    let longest = longest_wait(&rig, ours, 100).await;
    assert!(longest < Duration::from_secs(1), "{longest:?}");
    assert!(held_bytes(&rig) < ALL_BYTES);
    drop(crowd);
}

#[tokio::test(start_paused = true)]
async fn a_crowd_that_reads_a_byte_now_and_then_is_ended_early() {
    let rig = crowded_rig();
    let began = Instant::now();
    let drips = crowd(&rig, "drip:room:8000000").await.into_iter();
    let drips = drips.map(|mut client| {
        tokio::spawn(async move {
            let mut byte = [0];
            while client.0.read(&mut byte).await.is_ok_and(|read| read > 0) {
                sleep(Duration::from_millis(500)).await;
            }
        })
    });
    let drips: Vec<_> = drips.collect();
    let longest = longest_wait(&rig, "drip-honest:room:1500000", 100).await;
    assert!(longest < Duration::from_secs(1), "{longest:?}");
    while rig.node.metrics.in_flight.get() > 0 {
        sleep(Duration::from_millis(100)).await;
    }
    assert!(
        began.elapsed() < Duration::from_secs(60),
        "{:?}",
        began.elapsed()
    );
    assert!(!rig.metric("queen_kafka_in_flight_evictions_total 0"));
    for drip in drips {
        drip.abort();
    }
}

#[tokio::test(start_paused = true)]
async fn half_frames_of_a_crowd_do_not_hold_up_a_large_request() {
    let rig = crowded_rig();
    let mut crowd = Vec::new();
    for _ in 0..CROWD {
        let mut client = rig.client().await;
        let mut half = BytesMut::new();
        half.put_u32(u32::try_from(MIB).unwrap());
        half.put_bytes(0, MIB / 2);
        let sending = tokio::spawn(async move {
            // Until it is ended.
            let _ = client.0.write_all(&half).await;
            client
        });
        crowd.push(sending);
    }
    sleep(Duration::from_millis(100)).await;
    let mut honest = rig.client().await;
    let mut frame = request(ApiKey::METADATA, 0, 7, "large-honest:room:10");
    frame.put_bytes(0, MIB);
    let size = u32::try_from(frame.len() - 4).unwrap();
    frame[..4].copy_from_slice(&size.to_be_bytes());
    let began = Instant::now();
    honest.raw(&frame).await;
    assert_eq!(honest.answered().await, Some(7));
    assert!(
        began.elapsed() < Duration::from_secs(3),
        "{:?}",
        began.elapsed()
    );
    for client in crowd {
        client.abort();
    }
}
