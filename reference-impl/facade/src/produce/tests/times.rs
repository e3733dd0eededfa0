//! Timestamps far from the clock (KIP-937): refused with the records that have them.

use kafka_wire::records::{BatchOptions, Compression};
use rstest::rstest;

use super::*;

const HOUR_MS: i64 = 3_600_000;

fn at(timestamps: &[i64], compression: Compression) -> Bytes {
    let options = BatchOptions {
        compression,
        ..BatchOptions::default()
    };
    batches::build_at(&numbers(0..timestamps.len()), timestamps, options)
}

fn tolerant(before_ms: i64, after_ms: i64) -> Topic {
    Topic {
        timestamps: Tolerance {
            before_ms,
            after_ms,
        },
        ..topic("orders")
    }
}

#[rstest]
#[case::an_hour_ahead(&[HOUR_MS], &[])]
#[case::more_than_an_hour_ahead(&[HOUR_MS + 1], &[0])]
#[case::some_of_a_batch(&[0, 2 * HOUR_MS, -5, 3 * HOUR_MS, HOUR_MS], &[1, 3])]
#[case::long_ago(&[-1_000_000_000_000], &[])]
#[tokio::test(start_paused = true)]
async fn the_default_takes_what_is_an_hour_ahead(
    #[case] from_now_ms: &[i64],
    #[case] refused: &[i32],
    #[values(Compression::None, Compression::Zstd)] compression: Compression,
) {
    let world = World::new();
    let now = world.host.clock.wall().epoch_ms();
    let timestamps: Vec<i64> = from_now_ms.iter().map(|ms| now + ms).collect();
    let orders = tolerant(i64::MAX, HOUR_MS);
    let outcome = world.produce(&orders, at(&timestamps, compression)).await;
    if refused.is_empty() {
        assert_eq!(base(&outcome), 0);
        return;
    }
    let failure = outcome.result.expect_err("refused");
    assert_eq!(failure.code, ErrorCode::InvalidTimestamp);
    let told: Vec<i32> = failure.records.iter().map(|record| record.index).collect();
    assert_eq!(told, refused);
    let first = &failure.records[0].message;
    assert!(first.contains(&format!("{}]", now + HOUR_MS)), "{first}");
    assert!(
        world.queen.calls("push").is_empty(),
        "nothing of it is stored"
    );
}

#[tokio::test(start_paused = true)]
async fn a_topic_may_refuse_what_is_old_but_not_what_has_no_time() {
    let world = World::new();
    let now = world.host.clock.wall().epoch_ms();
    let orders = tolerant(1_000, 1_000);
    let refused = world
        .produce(&orders, at(&[-1, now - 1_001, now], Compression::None))
        .await;
    assert_eq!(code(&refused), ErrorCode::InvalidTimestamp);
    assert_eq!(refused.result.expect_err("refused").records[0].index, 1);
    let taken = at(&[-1, now - 1_000, now + 1_000], Compression::None);
    assert_eq!(base(&world.produce(&orders, taken).await), 0);
}

#[tokio::test(start_paused = true)]
async fn an_answer_tells_of_a_hundred_records() {
    let world = World::new();
    let far = world.host.clock.wall().epoch_ms() + 2 * HOUR_MS;
    let batch = at(&vec![far; 150], Compression::None);
    let refused = world.produce(&tolerant(i64::MAX, HOUR_MS), batch).await;
    assert_eq!(refused.result.expect_err("refused").records.len(), 100);
}
