//! Rows of native consumption as stored bytes, and their tables.

use redb::{ReadOnlyTable, ReadTransaction, WriteTransaction};
use uuid::Uuid;

use super::StoreError;
use super::bytes::{Decoder, Encoder};
use super::tables::{CURSORS, DEAD_LETTERS, SUBSCRIPTIONS};
use crate::engine::change::{Change, LaneKey, QueueRow};
use crate::engine::native::rows::{
    CursorRow, DeadLetterRow, LaneAt, Lease, NativeChange, QueueKey, Start, SubscriptionRow,
};
use crate::ids::{LaneUid, MessageId};

const NO_LEASE: u8 = 0;
const LEASE: u8 = 1;
const CONFLATED_LEASE: u8 = 2;

const START_ALL: u8 = 0;
const START_NEW: u8 = 1;
const START_FROM: u8 = 2;

/// The tables of a write transaction.
pub(super) struct Tables<'t> {
    cursors: redb::Table<'t, (u64, &'static [u8]), &'static [u8]>,
    subscriptions: redb::Table<'t, (u64, &'static [u8]), &'static [u8]>,
    dead_letters: redb::Table<'t, (u64, i64, &'static [u8]), &'static [u8]>,
}

impl<'t> Tables<'t> {
    pub(super) fn open(transaction: &'t WriteTransaction) -> Result<Self, StoreError> {
        Ok(Self {
            cursors: transaction.open_table(CURSORS)?,
            subscriptions: transaction.open_table(SUBSCRIPTIONS)?,
            dead_letters: transaction.open_table(DEAD_LETTERS)?,
        })
    }

    pub(super) fn write(&mut self, change: &NativeChange) -> Result<(), StoreError> {
        match change {
            NativeChange::PutSubscription(queue, group, row) => {
                let value = encode_subscription(row);
                self.subscriptions
                    .insert((queue.seq, group.as_bytes()), value.as_slice())?;
            }
            NativeChange::DropSubscription(queue, group) => {
                self.subscriptions.remove((queue.seq, group.as_bytes()))?;
            }
            NativeChange::PutCursor(at, group, row) => {
                let value = encode_cursor(row);
                self.cursors
                    .insert((at.uid.0, group.as_bytes()), value.as_slice())?;
            }
            NativeChange::DropCursor(at, group) => {
                self.cursors.remove((at.uid.0, group.as_bytes()))?;
            }
            NativeChange::PutDeadLetter(at, row) => {
                let value = encode_dead_letter(row);
                let key = (at.uid.0, row.offset, row.group.as_bytes());
                self.dead_letters.insert(key, value.as_slice())?;
            }
            NativeChange::DropDeadLetter(at, group, offset) => {
                self.dead_letters
                    .remove((at.uid.0, *offset, group.as_bytes()))?;
            }
        }
        Ok(())
    }

    pub(super) fn drop_queue(&mut self, seq: u64) -> Result<(), StoreError> {
        let all = (seq, &b""[..])..(seq + 1, &b""[..]);
        self.subscriptions.retain_in(all, |_, _| false)?;
        Ok(())
    }

    pub(super) fn drop_lane(&mut self, lane: LaneUid) -> Result<(), StoreError> {
        let cursors = (lane.0, &b""[..])..(lane.0 + 1, &b""[..]);
        self.cursors.retain_in(cursors, |_, _| false)?;
        let letters = (lane.0, i64::MIN, &b""[..])..(lane.0 + 1, i64::MIN, &b""[..]);
        self.dead_letters.retain_in(letters, |_, _| false)?;
        Ok(())
    }
}

/// The tables of a start.
pub(super) struct Loading {
    cursors: ReadOnlyTable<(u64, &'static [u8]), &'static [u8]>,
    subscriptions: ReadOnlyTable<(u64, &'static [u8]), &'static [u8]>,
    dead_letters: ReadOnlyTable<(u64, i64, &'static [u8]), &'static [u8]>,
}

impl Loading {
    pub(super) fn open(transaction: &ReadTransaction) -> Result<Self, StoreError> {
        Ok(Self {
            cursors: transaction.open_table(CURSORS)?,
            subscriptions: transaction.open_table(SUBSCRIPTIONS)?,
            dead_letters: transaction.open_table(DEAD_LETTERS)?,
        })
    }

    /// The registrations of a queue.
    pub(super) fn load_queue(
        &self,
        queue: &QueueRow,
        changes: &mut Vec<Change>,
    ) -> Result<(), StoreError> {
        const DAMAGED: StoreError = StoreError::Damaged("subscription");
        let all = (queue.seq, &b""[..])..(queue.seq + 1, &b""[..]);
        for row in self.subscriptions.range(all)? {
            let (key, value) = row?;
            let group = std::str::from_utf8(key.value().1).map_err(|_| DAMAGED)?;
            let row = decode_subscription(value.value()).ok_or(DAMAGED)?;
            let queue = QueueKey {
                tenant: queue.tenant,
                name: queue.name.clone(),
                seq: queue.seq,
            };
            let change = NativeChange::PutSubscription(queue, group.into(), row);
            changes.push(Change::Native(change));
        }
        Ok(())
    }

    /// The cursors and dead letters of a lane.
    pub(super) fn load_lane(
        &self,
        key: &LaneKey,
        uid: LaneUid,
        changes: &mut Vec<Change>,
    ) -> Result<(), StoreError> {
        let at = || LaneAt {
            key: key.clone(),
            uid,
        };
        for row in self
            .cursors
            .range((uid.0, &b""[..])..(uid.0 + 1, &b""[..]))?
        {
            const DAMAGED: StoreError = StoreError::Damaged("cursor");
            let (key, value) = row?;
            let group = std::str::from_utf8(key.value().1).map_err(|_| DAMAGED)?;
            let row = decode_cursor(value.value()).ok_or(DAMAGED)?;
            let change = NativeChange::PutCursor(at(), group.into(), row);
            changes.push(Change::Native(change));
        }
        let letters = (uid.0, i64::MIN, &b""[..])..(uid.0 + 1, i64::MIN, &b""[..]);
        for row in self.dead_letters.range(letters)? {
            const DAMAGED: StoreError = StoreError::Damaged("dead letter");
            let (key, value) = row?;
            let (_, offset, group) = key.value();
            let group = std::str::from_utf8(group).map_err(|_| DAMAGED)?;
            let row = decode_dead_letter(offset, group, value.value()).ok_or(DAMAGED)?;
            changes.push(Change::Native(NativeChange::PutDeadLetter(at(), row)));
        }
        Ok(())
    }
}

fn encode_cursor(row: &CursorRow) -> Vec<u8> {
    let encoder = Encoder::default()
        .fixed(row.committed.to_le_bytes())
        .fixed(row.retries.to_le_bytes())
        .fixed(row.attempts.to_le_bytes())
        .fixed(row.delivered_to.to_le_bytes())
        .fixed(row.total_consumed.to_le_bytes())
        .fixed(row.claimed_ms.to_le_bytes());
    match &row.lease {
        None => encoder.fixed([NO_LEASE]),
        Some(lease) => encoder
            .fixed([if lease.conflated {
                CONFLATED_LEASE
            } else {
                LEASE
            }])
            .fixed(*lease.id.as_bytes())
            .fixed(lease.expires_ms.to_le_bytes())
            .fixed(lease.batch_end.to_le_bytes()),
    }
    .finish()
}

fn decode_cursor(value: &[u8]) -> Option<CursorRow> {
    let mut fields = Decoder(value);
    let mut row = CursorRow {
        committed: fields.i64()?,
        lease: None,
        retries: fields.i64()?,
        attempts: fields.u64()?,
        delivered_to: fields.i64()?,
        total_consumed: fields.u64()?,
        claimed_ms: fields.i64()?,
    };
    let [kind] = fields.fixed()?;
    if kind != NO_LEASE {
        row.lease = Some(Lease {
            id: Uuid::from_bytes(fields.fixed()?),
            expires_ms: fields.i64()?,
            batch_end: fields.i64()?,
            conflated: kind == CONFLATED_LEASE,
        });
    }
    Some(row)
}

fn encode_subscription(row: &SubscriptionRow) -> Vec<u8> {
    let (kind, from_ms) = match row.start {
        Start::All => (START_ALL, 0),
        Start::New => (START_NEW, 0),
        Start::From(ms) => (START_FROM, ms),
    };
    Encoder::default()
        .fixed([kind, u8::from(row.conflation)])
        .fixed(from_ms.to_le_bytes())
        .fixed(row.timestamp_ms.to_le_bytes())
        .fixed(row.created_ms.to_le_bytes())
        .finish()
}

fn decode_subscription(value: &[u8]) -> Option<SubscriptionRow> {
    let mut fields = Decoder(value);
    let [kind, conflation] = fields.fixed()?;
    let from_ms = fields.i64()?;
    Some(SubscriptionRow {
        start: match kind {
            START_ALL => Start::All,
            START_NEW => Start::New,
            START_FROM => Start::From(from_ms),
            _ => return None,
        },
        timestamp_ms: fields.i64()?,
        created_ms: fields.i64()?,
        conflation: conflation != 0,
    })
}

fn encode_dead_letter(row: &DeadLetterRow) -> Vec<u8> {
    Encoder::default()
        .fixed(*row.id.as_bytes())
        .fixed(row.message_id.0.to_le_bytes())
        .fixed(row.retries.to_le_bytes())
        .fixed(row.failed_ms.to_le_bytes())
        .bytes(row.transaction_id.as_bytes())
        .bytes(row.payload.as_bytes())
        .bytes(row.error.as_bytes())
        .finish()
}

fn decode_dead_letter(offset: i64, group: &str, value: &[u8]) -> Option<DeadLetterRow> {
    let mut fields = Decoder(value);
    Some(DeadLetterRow {
        id: Uuid::from_bytes(fields.fixed()?),
        group: group.into(),
        offset,
        message_id: MessageId(u128::from_le_bytes(fields.fixed()?)),
        retries: fields.i64()?,
        failed_ms: fields.i64()?,
        transaction_id: fields.text()?.into(),
        payload: fields.text()?.into(),
        error: fields.text()?.into(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_read_back() {
        for lease in [None, Some(false), Some(true)] {
            let row = CursorRow {
                committed: -1,
                lease: lease.map(|conflated| Lease {
                    id: Uuid::from_u128(9),
                    expires_ms: 4,
                    batch_end: 5,
                    conflated,
                }),
                retries: 2,
                attempts: 3,
                delivered_to: 6,
                total_consumed: 7,
                claimed_ms: 8,
            };
            assert_eq!(decode_cursor(&encode_cursor(&row)), Some(row));
        }
        for start in [Start::All, Start::New, Start::From(11)] {
            let row = SubscriptionRow {
                start,
                timestamp_ms: 1,
                created_ms: 2,
                conflation: start == Start::New,
            };
            assert_eq!(decode_subscription(&encode_subscription(&row)), Some(row));
        }
        let row = DeadLetterRow {
            id: Uuid::from_u128(1),
            group: "g".into(),
            offset: 2,
            message_id: MessageId(3),
            transaction_id: "t".into(),
            payload: "{}".into(),
            error: "why".into(),
            retries: 4,
            failed_ms: 5,
        };
        assert_eq!(
            decode_dead_letter(2, "g", &encode_dead_letter(&row)),
            Some(row)
        );
    }
}
