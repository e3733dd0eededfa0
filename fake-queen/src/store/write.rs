//! Writing changes within one transaction.

use redb::WriteTransaction;

use super::native;
use super::tables::{BODIES, COUNTERS, HEADERS, KV, LANES, QUEUES};
use super::{StoreError, rows};
use crate::engine::change::Change;
use crate::ids::LaneUid;

/// The tables of a write transaction.
pub(super) struct Tables<'t> {
    counters: redb::Table<'t, (), &'static [u8]>,
    queues: redb::Table<'t, u64, &'static [u8]>,
    lanes: redb::Table<'t, u64, &'static [u8]>,
    headers: redb::Table<'t, (u64, i64), &'static [u8]>,
    bodies: redb::Table<'t, (u64, i64), &'static [u8]>,
    kv: redb::Table<'t, &'static [u8], &'static [u8]>,
    native: native::Tables<'t>,
}

impl<'t> Tables<'t> {
    pub(super) fn open(transaction: &'t WriteTransaction) -> Result<Self, StoreError> {
        Ok(Self {
            counters: transaction.open_table(COUNTERS)?,
            queues: transaction.open_table(QUEUES)?,
            lanes: transaction.open_table(LANES)?,
            headers: transaction.open_table(HEADERS)?,
            bodies: transaction.open_table(BODIES)?,
            kv: transaction.open_table(KV)?,
            native: native::Tables::open(transaction)?,
        })
    }

    pub(super) fn write(&mut self, change: &Change) -> Result<(), StoreError> {
        match change {
            Change::Counters(counters) => {
                self.counters
                    .insert((), rows::encode_counters(counters).as_slice())?;
            }
            Change::PutQueue(row) => {
                self.queues
                    .insert(row.seq, rows::encode_queue(row).as_slice())?;
            }
            Change::DropQueue { seq, lanes, .. } => {
                self.queues.remove(seq)?;
                self.native.drop_queue(*seq)?;
                for lane in lanes {
                    self.drop_lane(*lane)?;
                }
            }
            Change::PutLane(_, row) => {
                self.lanes
                    .insert(row.uid.0, rows::encode_lane(row).as_slice())?;
            }
            Change::DropLane(_, uid) => self.drop_lane(*uid)?,
            Change::Append { uid, segments, .. } => {
                for appending in segments {
                    let segment = &appending.segment;
                    let key = (uid.0, segment.base_offset);
                    let header = rows::encode_header(segment, &appending.id_runs);
                    self.headers.insert(key, header.as_slice())?;
                    self.bodies.insert(key, &*segment.packed.body)?;
                }
            }
            Change::Trim { uid, below, .. } => self.trim(*uid, *below)?,
            Change::PutKv(key, row) => {
                self.kv.insert(
                    rows::encode_kv_key(key).as_slice(),
                    rows::encode_kv(row).as_slice(),
                )?;
            }
            Change::DropKv(key) => {
                self.kv.remove(rows::encode_kv_key(key).as_slice())?;
            }
            Change::Native(change) => self.native.write(change)?,
        }
        Ok(())
    }

    fn drop_lane(&mut self, lane: LaneUid) -> Result<(), StoreError> {
        self.lanes.remove(lane.0)?;
        self.native.drop_lane(lane)?;
        self.trim(lane, i64::MAX)
    }

    fn trim(&mut self, lane: LaneUid, below: i64) -> Result<(), StoreError> {
        let range = (lane.0, i64::MIN)..(lane.0, below);
        self.headers.retain_in(range.clone(), |_, _| false)?;
        self.bodies.retain_in(range, |_, _| false)?;
        Ok(())
    }
}
