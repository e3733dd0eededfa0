//! Rows as stored bytes. Pure.

use bytes::Bytes;
use uuid::Uuid;

use super::bytes::{Decoder, Encoder};
use crate::engine::change::{Counters, KvKey, KvRow, LaneRow, QueueRow};
use crate::engine::id_run::IdRun;
use crate::engine::queue_options::QueueOptions;
use crate::engine::segment::{Packed, Segment};
use crate::ids::{LaneUid, MessageId, TenantId};

const EXPLICIT_IDS: u8 = 1;
const COMPRESSED: u8 = 2;
/// Bytes of a header without its ids.
const HEADER_BYTES: usize = 1 + 8 + 16 + 4 + 4 + 8;
/// Stands for more runs than a header takes.
const RUNS_IN_BODY: u8 = 64;
/// `expires_ms` of a row that never ends.
const FOREVER: i64 = i64::MAX;

/// A segment without its records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SegmentHeader {
    /// Offset of the first record.
    pub base_offset: i64,
    /// Append instant.
    pub created_us: i64,
    /// Id of the first record.
    pub first_id: MessageId,
    /// Records.
    pub count: u32,
    /// Their size before compression.
    pub raw_len: u32,
    /// Their stored size.
    pub stored_bytes: u64,
    /// Some record carries its caller's id.
    pub explicit_ids: bool,
    /// The records are compressed.
    pub compressed: bool,
}

impl SegmentHeader {
    /// The offset behind the last record.
    pub fn end_offset(&self) -> i64 {
        self.base_offset + i64::from(self.count)
    }

    /// The segment with its records.
    pub fn segment(&self, body: &[u8]) -> Segment {
        Segment {
            base_offset: self.base_offset,
            created_us: self.created_us,
            first_id: self.first_id,
            packed: Packed {
                count: self.count,
                raw_len: self.raw_len,
                explicit_ids: self.explicit_ids,
                compressed: self.compressed,
                body: Bytes::copy_from_slice(body),
            },
        }
    }

    /// Reads it back.
    pub fn decode(base_offset: i64, value: &[u8]) -> Option<Self> {
        let mut fields = Decoder(value);
        let [flags] = fields.fixed()?;
        Some(Self {
            base_offset,
            explicit_ids: flags & EXPLICIT_IDS != 0,
            compressed: flags & COMPRESSED != 0,
            created_us: fields.i64()?,
            first_id: MessageId(u128::from_le_bytes(fields.fixed()?)),
            count: fields.u32()?,
            raw_len: fields.u32()?,
            stored_bytes: fields.u64()?,
        })
    }
}

/// A segment's header as bytes: what [`SegmentHeader`] holds, then its ids. Its base offset is in
/// the key.
pub fn encode_header(segment: &Segment, id_runs: &[IdRun]) -> Vec<u8> {
    let packed = &segment.packed;
    let flags = if packed.explicit_ids { EXPLICIT_IDS } else { 0 }
        | if packed.compressed { COMPRESSED } else { 0 };
    let header = Encoder::default()
        .fixed([flags])
        .fixed(segment.created_us.to_le_bytes())
        .fixed(segment.first_id.0.to_le_bytes())
        .fixed(packed.count.to_le_bytes())
        .fixed(packed.raw_len.to_le_bytes())
        .fixed((packed.body.len() as u64).to_le_bytes());
    let shown = u8::try_from(id_runs.len())
        .ok()
        .filter(|n| *n < RUNS_IN_BODY);
    let header = header.fixed([shown.unwrap_or(RUNS_IN_BODY)]);
    let runs = id_runs.iter().filter(|_| shown.is_some());
    runs.fold(header, |header, run| {
        header
            .fixed(run.position.to_le_bytes())
            .fixed(run.count.to_le_bytes())
            .bytes(run.first.as_bytes())
    })
    .finish()
}

/// Where a segment's ids are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StoredIds {
    /// In the header.
    Here(Vec<IdRun>),
    /// Only with the records.
    InBody,
}

/// Reads the ids of a header back.
pub fn decode_ids(value: &[u8]) -> Option<StoredIds> {
    let mut fields = Decoder(value.get(HEADER_BYTES..)?);
    let [shown] = fields.fixed()?;
    if shown == RUNS_IN_BODY {
        return Some(StoredIds::InBody);
    }
    (0..shown)
        .map(|_| {
            Some(IdRun {
                position: fields.u32()?,
                count: fields.u32()?,
                first: fields.text()?.into(),
            })
        })
        .collect::<Option<Vec<_>>>()
        .map(StoredIds::Here)
}

/// Counters as bytes.
pub fn encode_counters(counters: &Counters) -> Vec<u8> {
    Encoder::default()
        .fixed(counters.queue_seq.to_le_bytes())
        .fixed(counters.lane_uid.to_le_bytes())
        .fixed(counters.version_block.to_le_bytes())
        .finish()
}

/// Reads them back.
pub fn decode_counters(value: &[u8]) -> Option<Counters> {
    let mut fields = Decoder(value);
    Some(Counters {
        queue_seq: fields.u64()?,
        lane_uid: fields.u64()?,
        version_block: fields.u64()?,
    })
}

/// A queue as bytes; its `seq` is the key.
pub fn encode_queue(row: &QueueRow) -> Vec<u8> {
    Encoder::default()
        .fixed(*row.tenant.0.as_bytes())
        .fixed(*row.id.as_bytes())
        .fixed(row.created_ms.to_le_bytes())
        .bytes(row.name.as_bytes())
        .bytes(&row.options.to_json())
        .finish()
}

/// Reads it back.
pub fn decode_queue(seq: u64, value: &[u8]) -> Option<QueueRow> {
    let mut fields = Decoder(value);
    Some(QueueRow {
        tenant: TenantId(Uuid::from_bytes(fields.fixed()?)),
        id: Uuid::from_bytes(fields.fixed()?),
        seq,
        created_ms: fields.i64()?,
        name: fields.text()?.into(),
        options: QueueOptions::from_json(fields.bytes()?)?,
    })
}

/// A lane as bytes; its uid is the key.
pub fn encode_lane(row: &LaneRow) -> Vec<u8> {
    Encoder::default()
        .fixed(row.queue_seq.to_le_bytes())
        .fixed(*row.id.as_bytes())
        .fixed(row.log_start.to_le_bytes())
        .fixed(row.high_watermark.to_le_bytes())
        .fixed(row.segments.to_le_bytes())
        .fixed(row.bytes.to_le_bytes())
        .fixed(row.last_append_us.to_le_bytes())
        .fixed(row.oldest_us.to_le_bytes())
        .fixed([u8::from(row.explicit_ids)])
        .bytes(row.name.as_bytes())
        .finish()
}

/// Reads it back.
pub fn decode_lane(uid: LaneUid, value: &[u8]) -> Option<LaneRow> {
    let mut fields = Decoder(value);
    Some(LaneRow {
        uid,
        queue_seq: fields.u64()?,
        id: Uuid::from_bytes(fields.fixed()?),
        log_start: fields.i64()?,
        high_watermark: fields.i64()?,
        segments: fields.u64()?,
        bytes: fields.u64()?,
        last_append_us: fields.i64()?,
        oldest_us: fields.i64()?,
        explicit_ids: fields.fixed::<1>()? != [0],
        name: fields.text()?.into(),
    })
}

/// The key of a KV row.
pub fn encode_kv_key(key: &KvKey) -> Vec<u8> {
    Encoder::default()
        .fixed(*key.tenant.0.as_bytes())
        .bytes(key.namespace.as_bytes())
        .bytes(key.key.as_bytes())
        .finish()
}

/// Reads it back.
pub fn decode_kv_key(value: &[u8]) -> Option<KvKey> {
    let mut fields = Decoder(value);
    Some(KvKey {
        tenant: TenantId(Uuid::from_bytes(fields.fixed()?)),
        namespace: fields.text()?.into(),
        key: fields.text()?.into(),
    })
}

/// A KV row as bytes.
pub fn encode_kv(row: &KvRow) -> Vec<u8> {
    Encoder::default()
        .fixed(row.version.to_le_bytes())
        .fixed(row.expires_ms.unwrap_or(FOREVER).to_le_bytes())
        .fixed(row.updated_ms.to_le_bytes())
        .bytes(row.value.as_bytes())
        .finish()
}

/// Reads it back.
pub fn decode_kv(value: &[u8]) -> Option<KvRow> {
    let mut fields = Decoder(value);
    Some(KvRow {
        version: fields.u64()?,
        expires_ms: Some(fields.i64()?).filter(|expires| *expires != FOREVER),
        updated_ms: fields.i64()?,
        value: fields.text()?.into(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_read_back() {
        let queue = QueueRow {
            tenant: TenantId::DEFAULT,
            name: "a.b".into(),
            id: Uuid::from_u128(7),
            seq: 3,
            created_ms: 5,
            options: QueueOptions::of_push("a.b"),
        };
        assert_eq!(decode_queue(3, &encode_queue(&queue)), Some(queue));
        let lane = LaneRow {
            uid: LaneUid(9),
            queue_seq: 3,
            name: "0".into(),
            id: Uuid::from_u128(8),
            log_start: 1,
            high_watermark: 2,
            segments: 3,
            bytes: 4,
            last_append_us: 5,
            oldest_us: 6,
            explicit_ids: true,
        };
        assert_eq!(decode_lane(LaneUid(9), &encode_lane(&lane)), Some(lane));
        for expires_ms in [None, Some(4)] {
            let row = KvRow {
                value: "{}".into(),
                version: 5,
                expires_ms,
                updated_ms: 6,
            };
            assert_eq!(decode_kv(&encode_kv(&row)), Some(row));
        }
        let key = KvKey {
            tenant: TenantId::DEFAULT,
            namespace: "n".into(),
            key: "k".into(),
        };
        assert_eq!(decode_kv_key(&encode_kv_key(&key)), Some(key));
    }

    #[test]
    fn a_header_keeps_its_ids_until_they_are_many() {
        let run = |n: u32| IdRun {
            first: format!("id-{n}").into(),
            position: n,
            count: 2,
        };
        for runs in [0, 1, 63, 64, 300] {
            let id_runs: Vec<IdRun> = (0..runs).map(run).collect();
            let segment = Segment {
                base_offset: 4,
                created_us: 5,
                first_id: MessageId(6),
                packed: Packed {
                    count: 7,
                    raw_len: 8,
                    explicit_ids: runs > 0,
                    compressed: false,
                    body: Bytes::from_static(b"body"),
                },
            };
            let value = encode_header(&segment, &id_runs);
            let header = SegmentHeader::decode(4, &value).unwrap();
            assert_eq!(header.segment(b"body"), segment);
            assert_eq!((header.stored_bytes, header.end_offset()), (4, 11));
            let expected = if runs < 64 {
                StoredIds::Here(id_runs)
            } else {
                StoredIds::InBody
            };
            assert_eq!(decode_ids(&value), Some(expected));
            assert_eq!(SegmentHeader::decode(4, &value[..HEADER_BYTES - 1]), None);
        }
    }
}
