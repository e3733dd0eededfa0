//! What clients do that mean no good. Raw bytes: no client library would send them.

use std::time::Duration;

use bytes::{BufMut, BytesMut};
use host::{BoxStream, Host};
use kafka_wire::ApiKey;
use kafka_wire::header::put_request_header;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use crate::scenario::stage::Stage;
use crate::seed::Numbers;
use crate::trace::Node;
use crate::world::KAFKA_PORT;

/// Between two tries of one attacker.
const PAUSE: Duration = Duration::from_millis(200);
/// The facade may not answer, and need not.
const WAIT: Duration = Duration::from_secs(2);

/// Runs `attackers` of `attack` for ever, each with its own machine and numbers.
async fn forever<F>(stage: &Stage, attackers: u32, attack: fn(Host, Numbers) -> F)
where
    F: Future<Output = std::io::Result<()>> + Send + 'static,
{
    let mut all = JoinSet::new();
    for number in 0..attackers {
        let name = format!("stranger-{number}");
        let (host, mut numbers) = (stage.clients.host(&name), stage.numbers(&name));
        all.spawn(async move {
            loop {
                let turn = Numbers::new(numbers.draw(), &name);
                // Whatever comes of it, it is tried again.
                let _ = attack(host.clone(), turn).await;
                sleep(PAUSE).await;
            }
        });
    }
    while all.join_next().await.is_some() {}
}

async fn connect(host: &Host) -> std::io::Result<BoxStream> {
    host.net.connect(Node::Facade.name(), KAFKA_PORT).await
}

/// A well-formed request of `api` with `body`.
fn frame(api: ApiKey, version: i16, body: &[u8]) -> Vec<u8> {
    let mut frame = BytesMut::new();
    frame.put_i32(0);
    put_request_header(&mut frame, api, version, 7, Some("stranger"));
    frame.put_slice(body);
    let length = i32::try_from(frame.len() - 4).unwrap_or(i32::MAX);
    frame[..4].copy_from_slice(&length.to_be_bytes());
    frame.to_vec()
}

/// Waits for an answer or the end of the connection, at most for [`WAIT`].
async fn hear(stream: &mut BoxStream) {
    let mut answer = [0; 1024];
    // Silence, an answer and an end are all the same to it.
    let _ = timeout(WAIT, stream.read(&mut answer)).await;
}

/// Thirty connections that each send a frame byte by byte, a byte every half second.
pub(super) async fn slow_loris(stage: Stage) {
    forever(&stage, 30, |host, mut numbers| async move {
        let mut stream = connect(&host).await?;
        let frame = frame(ApiKey::METADATA, 1, &[0, 0, 0, 0]);
        for byte in frame {
            stream.write_all(&[byte]).await?;
            sleep(Duration::from_millis(250 + numbers.below(500))).await;
        }
        Ok(())
    })
    .await;
}

/// Frames that end at any byte, with the connection or without it.
pub(super) async fn half_frames(stage: Stage) {
    forever(&stage, 8, |host, mut numbers| async move {
        let mut stream = connect(&host).await?;
        let whole = frame(
            ApiKey::METADATA,
            4,
            &[0, 0, 0, 1, 0, 6, b'o', b'r', b'd', b'e', b'r', b's', 0],
        );
        let length = u64::try_from(whole.len()).unwrap_or(1);
        let cut = usize::try_from(numbers.below(length)).unwrap_or_default();
        stream.write_all(&whole[..cut]).await?;
        if numbers.coin() {
            hear(&mut stream).await;
        }
        Ok(())
    })
    .await;
}

/// Requests without end, whose answers nobody reads.
pub(super) async fn floods(stage: Stage) {
    forever(&stage, 8, |host, mut numbers| async move {
        let mut stream = connect(&host).await?;
        let request = match numbers.below(3) {
            0 => frame(ApiKey::API_VERSIONS, 0, &[]),
            1 => frame(ApiKey::METADATA, 1, &[255, 255, 255, 255]),
            // A fetch of nothing, which may wait for half a minute.
            _ => frame(
                ApiKey::FETCH,
                4,
                &[
                    255, 255, 255, 255, 0, 0, 0x75, 0x30, 0, 0, 0, 1, 0, 16, 0, 0, 0, 0, 0, 0, 0,
                ],
            ),
        };
        for _ in 0..400 {
            timeout(WAIT, stream.write_all(&request)).await??;
        }
        sleep(Duration::from_secs(3)).await;
        Ok(())
    })
    .await;
}

/// Lengths and counts that ask for more memory than there is, and records that unpack to more.
pub(super) async fn bombs(stage: Stage) {
    forever(&stage, 6, |host, mut numbers| async move {
        let mut stream = connect(&host).await?;
        let bomb = match numbers.below(7) {
            0 => vec![0x7f, 0xff, 0xff, 0xff, 0, 3, 0, 1],
            1 => vec![0xff, 0xff, 0xff, 0xff, 0, 3, 0, 1],
            2 => frame(ApiKey::METADATA, 1, &[0x7f, 0xff, 0xff, 0xff]),
            3 => frame(ApiKey::FETCH, 12, &[0x7f; 64]),
            4 => frame(ApiKey(999), 0, &[0; 16]),
            5 => frame(ApiKey::PRODUCE, 3, &produce(&batch(0, i32::MAX, &[]))),
            _ => frame(ApiKey::PRODUCE, 3, &produce(&batch(1, 1, &gzip_of_zeros()))),
        };
        stream.write_all(&bomb).await?;
        hear(&mut stream).await;
        Ok(())
    })
    .await;
}

/// The body of a Produce v3 of one batch to a topic of the strangers' own.
fn produce(batch: &[u8]) -> Vec<u8> {
    let mut body = Vec::new();
    body.put_i16(-1);
    body.put_i16(-1);
    body.put_i32(1_000);
    body.put_i32(1);
    body.put_i16(5);
    body.put_slice(b"bombs");
    body.put_i32(1);
    body.put_i32(0);
    body.put_i32(i32::try_from(batch.len()).unwrap_or(i32::MAX));
    body.put_slice(batch);
    body
}

/// A record batch v2 with a right checksum, and whatever count and payload are given.
fn batch(attributes: i16, count: i32, payload: &[u8]) -> Vec<u8> {
    let mut summed = Vec::new();
    summed.put_i16(attributes);
    summed.put_i32(count.saturating_sub(1));
    summed.put_i64(0);
    summed.put_i64(0);
    summed.put_i64(-1);
    summed.put_i16(-1);
    summed.put_i32(-1);
    summed.put_i32(count);
    summed.put_slice(payload);
    let mut batch = Vec::new();
    batch.put_i64(0);
    batch.put_i32(i32::try_from(summed.len() + 9).unwrap_or(i32::MAX));
    batch.put_i32(0);
    batch.put_i8(2);
    batch.put_u32(crc32c::crc32c(&summed));
    batch.put_slice(&summed);
    batch
}

/// Gzip that unpacks to 16 GiB of zeros if one lets it: a deflate block of one repeated match,
/// again and again. A few hundred bytes are enough to see whether anybody lets it.
fn gzip_of_zeros() -> Vec<u8> {
    let mut gzip = vec![0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 255];
    // A fixed-code block: literal 0, then matches of length 258 at distance 1 (code 285 is
    // 1100_0101, distance code 0 is 00000), most significant bit of a code first.
    let mut bits = Bits::default();
    bits.put(0b1, 1);
    bits.put(0b01, 2);
    bits.put_code(0b0011_0000, 8);
    for _ in 0..20_000 {
        bits.put_code(0b1100_0101, 8);
        bits.put_code(0, 5);
    }
    bits.put_code(0, 7);
    gzip.extend(bits.bytes());
    gzip
}

/// Bits as deflate packs them: the least significant of a byte first.
#[derive(Default)]
struct Bits {
    bytes: Vec<u8>,
    filled: u32,
}

impl Bits {
    fn put(&mut self, value: u32, bits: u32) {
        for at in 0..bits {
            if self.filled == 0 {
                self.bytes.push(0);
            }
            if let Some(last) = self.bytes.last_mut()
                && value >> at & 1 == 1
            {
                *last |= 1 << self.filled;
            }
            self.filled = (self.filled + 1) % 8;
        }
    }

    /// A Huffman code, which is packed from its most significant bit.
    fn put_code(&mut self, code: u32, bits: u32) {
        self.put(code.reverse_bits() >> (32 - bits), bits);
    }

    fn bytes(self) -> Vec<u8> {
        self.bytes
    }
}

#[cfg(test)]
mod tests {
    use kafka_wire::records::{Batches, Budget};

    use super::*;

    #[test]
    fn the_bombs_are_what_they_seem() {
        let counted = batch(0, i32::MAX, &[]);
        let read = Batches::new(counted.into()).next().expect("a batch");
        read.map(|batch| assert_eq!(batch.header().count, i32::MAX))
            .expect("a right checksum");
        let zeros = batch(1, 1, &gzip_of_zeros());
        assert!(zeros.len() < 40_000);
        let read = Batches::new(zeros.into()).next().expect("a batch");
        let read = read.expect("a right checksum");
        let refused = read.records(&mut Budget::new(1 << 20, 10)).unwrap_err();
        assert!(refused.to_string().contains("budget"), "{refused}");
    }
}
