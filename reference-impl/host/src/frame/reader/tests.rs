use rstest::rstest;
use tokio::io::{AsyncWriteExt, duplex};
use tokio_test::io::Builder;

use super::*;
use crate::budget::BudgetMetrics;

const LIMITS: ReadLimits = ReadLimits {
    max_frame_bytes: 1024 * 1024,
    idle: Duration::from_secs(600),
    stall: Duration::from_secs(30),
};

fn budget(capacity: usize) -> Budget {
    Budget::new(capacity, &BudgetMetrics::default())
}

fn reader<R: AsyncRead + Unpin>(inner: R) -> FrameReader<R> {
    FrameReader::new(inner, LIMITS, budget(16 * 1024 * 1024), Holder::default())
}

fn framed(bytes: &[u8]) -> Vec<u8> {
    let mut frame = u32::try_from(bytes.len()).unwrap().to_be_bytes().to_vec();
    frame.extend_from_slice(bytes);
    frame
}

#[tokio::test(start_paused = true)]
async fn frames_come_out_whole_wherever_the_stream_is_cut() {
    let large: Vec<u8> = (0..100_000_u32).map(|n| n as u8).collect();
    let stream = [framed(b""), framed(b"ab"), framed(&large), framed(b"end")].concat();
    for chunk in [1, 3, 5, 4096, 8192, 20_000, stream.len()] {
        let mut mock = Builder::new();
        stream.chunks(chunk).for_each(|piece| {
            mock.read(piece);
        });
        let mut reader = reader(mock.build());
        for expected in [&b""[..], b"ab", &large, b"end"] {
            let frame = reader.next().await.unwrap().unwrap();
            assert!(frame.bytes == expected, "chunks of {chunk}");
            assert_eq!(frame.reservation.bytes(), expected.len());
        }
        assert!(reader.next().await.unwrap().is_none());
        assert_eq!(reader.carry.capacity(), 0, "an idle reader owns no buffer");
    }
}

#[rstest]
#[case::negative(&[0xff, 0xff, 0xff, 0xff], "negative frame length -1")]
#[case::two_gib(&[0x7f, 0xff, 0xff, 0xff, 1, 2], "frame of 2147483647 bytes is above the limit of 1048576")]
#[case::above(&[0, 0x10, 0, 1], "frame of 1048577 bytes is above the limit of 1048576")]
#[case::half_length(&[0, 0], "closed inside a frame")]
#[case::half_frame(&[0, 0, 0, 3, 1, 2], "closed inside a frame")]
#[tokio::test(start_paused = true)]
async fn bad_streams_are_refused(#[case] stream: &[u8], #[case] error: &str) {
    let mut reader = reader(Builder::new().read(stream).build());
    assert_eq!(reader.next().await.unwrap_err().to_string(), error);
}

#[rstest]
#[case::idle(&[], LIMITS.idle, "idle")]
#[case::in_the_length(&[0], LIMITS.stall, "stalled inside a frame")]
#[case::in_the_frame(&[0, 0, 1, 0, 7], LIMITS.stall, "stalled inside a frame")]
#[tokio::test(start_paused = true)]
async fn silence_ends_the_connection(
    #[case] sent: &[u8],
    #[case] after: Duration,
    #[case] error: &str,
) {
    let (near, mut far) = duplex(1024);
    far.write_all(sent).await.unwrap();
    let mut reader = reader(near);
    let started = Instant::now();
    assert_eq!(reader.next().await.unwrap_err().to_string(), error);
    assert_eq!(started.elapsed(), after);
}

#[tokio::test(start_paused = true)]
async fn a_drip_does_not_last() {
    let (near, mut far) = duplex(1024);
    far.write_all(&[0, 0x10, 0, 0]).await.unwrap();
    let drip = tokio::spawn(async move {
        while far.write_all(&[1]).await.is_ok() {
            tokio::time::sleep(Duration::from_secs(29)).await;
        }
    });
    let mut reader = reader(near);
    let started = Instant::now();
    assert!(matches!(reader.next().await, Err(ReadError::Stalled)));
    assert!(started.elapsed() < LIMITS.stall + Duration::from_secs(1));
    drop(reader);
    drip.await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_frame_that_comes_in_time_after_a_long_idle_is_read() {
    let (near, mut far) = duplex(1024);
    let mut reader = reader(near);
    for _ in 0..3 {
        let send = async {
            tokio::time::sleep(Duration::from_secs(599)).await;
            far.write_all(&framed(b"x")).await.unwrap();
        };
        let (frame, ()) = tokio::join!(reader.next(), send);
        assert_eq!(frame.unwrap().unwrap().bytes, "x");
    }
}

#[tokio::test(start_paused = true)]
async fn an_announced_length_buys_no_memory() {
    let budget = budget(16 * 1024 * 1024);
    let (near, mut far) = duplex(1024 * 1024);
    far.write_all(&[0, 0x10, 0, 0]).await.unwrap();
    far.write_all(&[7; 100]).await.unwrap();
    let mut reader = FrameReader::new(near, LIMITS, budget.clone(), Holder::default());
    let next = tokio::time::timeout(Duration::from_secs(1), reader.next());
    assert!(next.await.is_err());
    assert_eq!(16 * 1024 * 1024 - budget.free_bytes(), FIRST_STEP_BYTES);
    let allocated = reader.partial.as_ref().unwrap().bytes.capacity();
    assert!(allocated <= 2 * FIRST_STEP_BYTES, "{allocated}");
}

#[tokio::test(start_paused = true)]
async fn a_frame_waits_for_room_before_it_is_read_and_is_not_blamed_for_the_wait() {
    let budget = budget(100);
    let held = budget.reservation().grow(95).await;
    let (near, mut far) = duplex(1024);
    far.write_all(&framed(&[7; 50])).await.unwrap();
    let mut reader = FrameReader::new(near, LIMITS, budget.clone(), Holder::default());
    let waited = tokio::time::timeout(Duration::from_secs(3600), reader.next());
    assert!(waited.await.is_err());
    drop(held);
    let frame = reader.next().await.unwrap().unwrap();
    assert_eq!(frame.bytes, [7; 50][..]);
    drop(frame);
    assert_eq!(budget.free_bytes(), 100);
}

#[tokio::test(start_paused = true)]
async fn half_a_frame_is_late_when_others_wait_for_its_room() {
    let budget = budget(16 * 1024);
    let (near, mut far) = duplex(64 * 1024);
    far.write_all(&[0, 0x10, 0, 0]).await.unwrap();
    far.write_all(&[7; 5_000]).await.unwrap();
    let holder = Holder::default();
    let mut reader = FrameReader::new(near, LIMITS, budget.clone(), holder.clone());
    tokio::select! {
        biased;
        _ = reader.next() => panic!("the rest never comes"),
        _ = budget.reservation().grow(100) => panic!("nothing is given back"),
        () = std::future::poll_fn(|cx| holder.poll_evicted(cx)) => {}
    }
    drop(reader);
    assert_eq!(budget.free_bytes(), 16 * 1024);
}

#[tokio::test(start_paused = true)]
async fn reading_ahead_sees_the_peer_close_and_loses_nothing() {
    let (near, mut far) = duplex(1024);
    let mut reader = reader(near);
    far.write_all(&framed(b"behind")).await.unwrap();
    let still_open = tokio::time::timeout(Duration::from_secs(1), reader.closed());
    assert!(still_open.await.is_err());
    drop(far);
    reader.closed().await;
    assert_eq!(reader.next().await.unwrap().unwrap().bytes, "behind");
    assert!(reader.next().await.unwrap().is_none());
}

#[tokio::test(start_paused = true)]
async fn reading_ahead_is_bounded() {
    let (near, mut far) = duplex(1024 * 1024);
    far.write_all(&[0; 100_000]).await.unwrap();
    drop(far);
    let mut reader = reader(near);
    let closed = tokio::time::timeout(Duration::from_secs(1), reader.closed());
    assert!(
        closed.await.is_err(),
        "the end is behind what may be read ahead"
    );
    assert!(reader.carry.len() < 2 * SIP_BYTES);
}
