//! Durable rows in one redb database. One write transaction per commit, one sync per transaction:
//! after a crash a commit is there whole or not at all. Everything here blocks; callers reach it
//! through `host.blocking`.

pub mod bytes;
pub mod rows;
mod tables;

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, PoisonError, RwLock};

use redb::{Database, ReadableDatabase, ReadableTable, WriteTransaction};

use self::rows::SegmentHeader;
use self::tables::{BODIES, COUNTERS, HEADERS, KV, LANES, QUEUES};
use crate::engine::change::{Change, Counters, LaneKey, QueueRow};
use crate::engine::dedup::{Appended, Dedup};
use crate::engine::segment::{Segment, records};
use crate::ids::LaneUid;

pub use redb::StorageBackend as Backend;

/// The database's file in a data directory.
pub const FILE_NAME: &str = "queen.redb";

/// Why the store doesn't answer.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The directory can't be made.
    #[error("the data directory can't be made: {0}")]
    Directory(std::io::Error),
    /// The engine refused, or the disk did.
    #[error("storage engine: {0}")]
    Engine(Box<redb::Error>),
    /// A row doesn't read back.
    #[error("a stored {0} is damaged")]
    Damaged(&'static str),
    /// The store is closed.
    #[error("the store is closed")]
    Closed,
}

impl<E: Into<redb::Error>> From<E> for StoreError {
    fn from(error: E) -> Self {
        Self::Engine(Box::new(error.into()))
    }
}

/// What a start reads.
#[derive(Debug, Default)]
pub struct Loaded {
    /// To be applied to an empty state, in order.
    pub state_changes: Vec<Change>,
    /// Numbers drawn so far.
    pub counters: Counters,
}

/// An open database.
#[derive(Debug)]
pub struct Store {
    database: RwLock<Option<Database>>,
}

impl Store {
    /// Opens the database of `directory`, making both when they are absent.
    ///
    /// # Errors
    /// The disk, a damaged file, or another process that has it open.
    pub fn open(directory: &Path, cache_bytes: usize) -> Result<Self, StoreError> {
        std::fs::create_dir_all(directory).map_err(StoreError::Directory)?;
        let database = Database::builder()
            .set_cache_size(cache_bytes)
            .create(directory.join(FILE_NAME))?;
        Self::with(database)
    }

    /// Opens the database that `backend` holds, making it when the backend is empty.
    ///
    /// # Errors
    /// The backend, or damaged contents.
    pub fn open_backend(backend: Box<dyn Backend>, cache_bytes: usize) -> Result<Self, StoreError> {
        let database = Database::builder()
            .set_cache_size(cache_bytes)
            .create_with_backend(Boxed(backend))?;
        Self::with(database)
    }

    fn with(database: Database) -> Result<Self, StoreError> {
        let transaction = database.begin_write()?;
        // Tables come to be when they are opened for writing; readers can't make them.
        Tables::open(&transaction)?;
        transaction.commit()?;
        Ok(Self {
            database: RwLock::new(Some(database)),
        })
    }

    /// Closes the database. Later calls answer [`StoreError::Closed`].
    pub fn close(&self) {
        let mut database = self
            .database
            .write()
            .unwrap_or_else(PoisonError::into_inner);
        *database = None;
    }

    fn using<T>(
        &self,
        work: impl FnOnce(&Database) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        let database = self.database.read().unwrap_or_else(PoisonError::into_inner);
        work(database.as_ref().ok_or(StoreError::Closed)?)
    }

    /// Makes `changes` durable, all or none.
    ///
    /// # Errors
    /// After one, whether they are durable shows when the database is opened again.
    pub fn commit(&self, changes: &[Change]) -> Result<(), StoreError> {
        self.using(|database| {
            let transaction = database.begin_write()?;
            {
                let mut tables = Tables::open(&transaction)?;
                for change in changes {
                    tables.write(change)?;
                }
            }
            transaction.commit()?;
            Ok(())
        })
    }

    /// Segments of a lane from the one that holds `offset` on, below `end_offset`, until
    /// `max_bytes` are crossed. Empty when nothing is there any more.
    ///
    /// # Errors
    /// The disk, or a damaged row.
    pub fn segments(
        &self,
        lane: LaneUid,
        offset: i64,
        end_offset: i64,
        max_bytes: usize,
    ) -> Result<Vec<Arc<Segment>>, StoreError> {
        self.using(|database| {
            let transaction = database.begin_read()?;
            let headers = transaction.open_table(HEADERS)?;
            let bodies = transaction.open_table(BODIES)?;
            let from = headers
                .range((lane.0, i64::MIN)..=(lane.0, offset))?
                .next_back()
                .transpose()?
                .map_or(offset, |(key, _)| key.value().1);
            let mut segments = Vec::new();
            let mut spent = 0;
            for header in headers.range((lane.0, from)..(lane.0, end_offset))? {
                let (key, header) = header?;
                let header = SegmentHeader::decode(key.value().1, header.value())
                    .ok_or(StoreError::Damaged("segment"))?;
                if header.end_offset() <= offset {
                    continue;
                }
                let body = bodies
                    .get(key.value())?
                    .ok_or(StoreError::Damaged("segment"))?;
                segments.push(Arc::new(header.segment(body.value())));
                spent += body.value().len();
                if spent >= max_bytes {
                    break;
                }
            }
            Ok(segments)
        })
    }

    /// Shows a lane's segments, oldest first, without their records, until `visit` is false.
    ///
    /// # Errors
    /// The disk, or a damaged row.
    pub fn visit_headers(
        &self,
        lane: LaneUid,
        visit: &mut dyn FnMut(SegmentHeader) -> bool,
    ) -> Result<(), StoreError> {
        self.using(|database| {
            let transaction = database.begin_read()?;
            let headers = transaction.open_table(HEADERS)?;
            for header in headers.range((lane.0, i64::MIN)..=(lane.0, i64::MAX))? {
                let (key, header) = header?;
                let header = SegmentHeader::decode(key.value().1, header.value())
                    .ok_or(StoreError::Damaged("segment"))?;
                if !visit(header) {
                    break;
                }
            }
            Ok(())
        })
    }

    /// The first segment of a lane appended at or after `instant_us`, found by halving the range
    /// of offsets: append instants never fall within a lane.
    ///
    /// # Errors
    /// The disk, or a damaged row.
    pub fn first_since(
        &self,
        lane: LaneUid,
        log_start: i64,
        end_offset: i64,
        instant_us: i64,
    ) -> Result<Option<SegmentHeader>, StoreError> {
        self.using(|database| {
            let transaction = database.begin_read()?;
            let headers = transaction.open_table(HEADERS)?;
            let (mut low, mut high, mut found) = (log_start, end_offset, None);
            while low < high {
                let middle = low + (high - low) / 2;
                let Some(header) = headers
                    .range((lane.0, i64::MIN)..=(lane.0, middle))?
                    .next_back()
                    .transpose()?
                else {
                    low = middle + 1;
                    continue;
                };
                let header = SegmentHeader::decode(header.0.value().1, header.1.value())
                    .ok_or(StoreError::Damaged("segment"))?;
                if header.created_us >= instant_us {
                    high = header.base_offset;
                    found = Some(header);
                } else {
                    low = header.end_offset();
                }
            }
            Ok(found)
        })
    }

    /// Everything but the records, and the deduplication windows as of `now_ms`.
    ///
    /// # Errors
    /// The disk, or a damaged row.
    pub fn load(&self, now_ms: i64) -> Result<Loaded, StoreError> {
        self.using(|database| {
            let transaction = database.begin_read()?;
            let mut loaded = Loaded::default();
            if let Some(counters) = transaction.open_table(COUNTERS)?.get(())? {
                loaded.counters = rows::decode_counters(counters.value())
                    .ok_or(StoreError::Damaged("counter"))?;
            }
            let mut queues: BTreeMap<u64, QueueRow> = BTreeMap::new();
            for row in transaction.open_table(QUEUES)?.iter()? {
                let (seq, row) = row?;
                let row = rows::decode_queue(seq.value(), row.value())
                    .ok_or(StoreError::Damaged("queue"))?;
                loaded.state_changes.push(Change::PutQueue(row.clone()));
                queues.insert(row.seq, row);
            }
            let headers = transaction.open_table(HEADERS)?;
            let bodies = transaction.open_table(BODIES)?;
            for row in transaction.open_table(LANES)?.iter()? {
                let (uid, row) = row?;
                let row = rows::decode_lane(LaneUid(uid.value()), row.value())
                    .ok_or(StoreError::Damaged("lane"))?;
                let queue = queues
                    .get(&row.queue_seq)
                    .ok_or(StoreError::Damaged("lane"))?;
                let key = LaneKey {
                    tenant: queue.tenant,
                    queue: queue.name.clone(),
                    lane: row.name.clone(),
                };
                let (uid, explicit_ids) = (row.uid, row.explicit_ids);
                loaded.state_changes.push(Change::PutLane(key.clone(), row));
                let window = queue.options.dedup_window_seconds;
                if explicit_ids && window > 0 {
                    let since_us = now_ms
                        .saturating_sub(window.saturating_mul(1000))
                        .saturating_mul(1000);
                    loaded.state_changes.push(Change::Append {
                        lane: key,
                        uid,
                        segments: Vec::new(),
                        dedup: load_dedup(&headers, &bodies, uid, since_us)?,
                        dedup_since_us: since_us,
                    });
                }
            }
            for row in transaction.open_table(KV)?.iter()? {
                let (key, row) = row?;
                let key = rows::decode_kv_key(key.value()).ok_or(StoreError::Damaged("KV key"))?;
                let row = rows::decode_kv(row.value()).ok_or(StoreError::Damaged("KV row"))?;
                loaded.state_changes.push(Change::PutKv(key, row));
            }
            Ok(loaded)
        })
    }
}

fn load_dedup(
    headers: &impl ReadableTable<(u64, i64), &'static [u8]>,
    bodies: &impl ReadableTable<(u64, i64), &'static [u8]>,
    lane: LaneUid,
    since_us: i64,
) -> Result<Dedup, StoreError> {
    let mut recent = Vec::new();
    for header in headers
        .range((lane.0, i64::MIN)..=(lane.0, i64::MAX))?
        .rev()
    {
        let (key, header) = header?;
        let header = SegmentHeader::decode(key.value().1, header.value())
            .ok_or(StoreError::Damaged("segment"))?;
        if header.created_us < since_us {
            break;
        }
        if header.explicit_ids {
            recent.push(header);
        }
    }
    let mut dedup = Dedup::default();
    for header in recent.into_iter().rev() {
        let body = bodies
            .get((lane.0, header.base_offset))?
            .ok_or(StoreError::Damaged("segment"))?;
        let segment = header.segment(body.value());
        let raw = segment
            .packed
            .unpack()
            .map_err(|_| StoreError::Damaged("segment"))?;
        for (record, offset) in records(&raw).zip(segment.base_offset..) {
            let record = record.map_err(|_| StoreError::Damaged("record"))?;
            if let Some(id) = record.transaction_id {
                let at = Appended {
                    offset,
                    message_id: segment.message_id(offset),
                };
                dedup.insert(id, at, segment.created_us);
            }
        }
    }
    Ok(dedup)
}

/// The tables of a write transaction.
struct Tables<'t> {
    counters: redb::Table<'t, (), &'static [u8]>,
    queues: redb::Table<'t, u64, &'static [u8]>,
    lanes: redb::Table<'t, u64, &'static [u8]>,
    headers: redb::Table<'t, (u64, i64), &'static [u8]>,
    bodies: redb::Table<'t, (u64, i64), &'static [u8]>,
    kv: redb::Table<'t, &'static [u8], &'static [u8]>,
}

impl<'t> Tables<'t> {
    fn open(transaction: &'t WriteTransaction) -> Result<Self, StoreError> {
        Ok(Self {
            counters: transaction.open_table(COUNTERS)?,
            queues: transaction.open_table(QUEUES)?,
            lanes: transaction.open_table(LANES)?,
            headers: transaction.open_table(HEADERS)?,
            bodies: transaction.open_table(BODIES)?,
            kv: transaction.open_table(KV)?,
        })
    }

    fn write(&mut self, change: &Change) -> Result<(), StoreError> {
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
                for segment in segments {
                    let key = (uid.0, segment.base_offset);
                    let header = SegmentHeader::of(segment).encode();
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
        }
        Ok(())
    }

    fn drop_lane(&mut self, lane: LaneUid) -> Result<(), StoreError> {
        self.lanes.remove(lane.0)?;
        self.trim(lane, i64::MAX)
    }

    fn trim(&mut self, lane: LaneUid, below: i64) -> Result<(), StoreError> {
        let range = (lane.0, i64::MIN)..(lane.0, below);
        self.headers.retain_in(range.clone(), |_, _| false)?;
        self.bodies.retain_in(range, |_, _| false)?;
        Ok(())
    }
}

/// A backend behind a pointer.
#[derive(Debug)]
struct Boxed(Box<dyn Backend>);

impl Backend for Boxed {
    fn len(&self) -> Result<u64, std::io::Error> {
        self.0.len()
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> Result<(), std::io::Error> {
        self.0.read(offset, out)
    }

    fn set_len(&self, len: u64) -> Result<(), std::io::Error> {
        self.0.set_len(len)
    }

    fn sync_data(&self) -> Result<(), std::io::Error> {
        self.0.sync_data()
    }

    fn write(&self, offset: u64, data: &[u8]) -> Result<(), std::io::Error> {
        self.0.write(offset, data)
    }

    fn close(&self) -> Result<(), std::io::Error> {
        self.0.close()
    }
}
