//! Answers times with offsets: walks the index, reads what it doesn't know.

use futures::future::BoxFuture;

use super::{Block, PartitionKey, Stretch, TimeIndex};

/// Unknown records that one lookup reads; beyond that it searches as if timestamps rose.
pub const MAX_SCANNED_RECORDS: i64 = 1_000_000;

/// The time of one record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TimedOffset {
    /// Its offset.
    pub offset: i64,
    /// Its timestamp in milliseconds since the Unix epoch.
    pub timestamp: i64,
}

/// Reads the times of one partition's records.
pub trait ReadTimes: Send + Sync {
    /// Why it couldn't.
    type Error: Send;

    /// Some records from `offset` on, in order; `most` wants as many as a call gives, otherwise
    /// one is enough. None means that the log ends there.
    fn read(&self, offset: i64, most: bool)
    -> BoxFuture<'_, Result<Vec<TimedOffset>, Self::Error>>;
}

/// A partition and the bounds of its log when they were asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Log {
    /// Which.
    pub partition: PartitionKey,
    /// The first offset that can be read.
    pub start: i64,
    /// The high watermark.
    pub end: i64,
}

/// What a lookup found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Found {
    /// The record; `None` when the log has none like it.
    pub record: Option<TimedOffset>,
    /// Whether so much was unknown that the answer supposes rising timestamps.
    pub guessed: bool,
}

/// The first record of `log`, in offset order, whose timestamp is at least `timestamp`.
///
/// # Errors
///
/// Those of `reader`; what was read until then is kept in the index.
pub async fn first_at_or_after<R: ReadTimes>(
    index: &TimeIndex,
    reader: &R,
    log: Log,
    timestamp: i64,
) -> Result<Found, R::Error> {
    let stretches = index.stretches(log.partition, log.start, log.end);
    if unknown(&stretches) > MAX_SCANNED_RECORDS {
        let record = search(reader, log, timestamp).await?;
        return Ok(Found {
            record,
            guessed: true,
        });
    }
    for stretch in stretches {
        let (first, end) = match stretch {
            Stretch::Known(block) if block.max_timestamp < timestamp => continue,
            Stretch::Known(block) => (block.first.max(log.start), block.end),
            Stretch::Unknown { first, end } => (first, end),
        };
        let hit = |record: &TimedOffset| record.timestamp >= timestamp;
        if let Some(record) = scan(index, reader, log, first, end, hit).await? {
            return Ok(Found {
                record: Some(record),
                guessed: false,
            });
        }
    }
    Ok(Found {
        record: None,
        guessed: false,
    })
}

/// The first record of `log` with its largest timestamp (`MAX_TIMESTAMP`, KIP-734).
///
/// # Errors
///
/// Those of `reader`.
pub async fn largest<R: ReadTimes>(
    index: &TimeIndex,
    reader: &R,
    log: Log,
) -> Result<Found, R::Error> {
    let stretches = index.stretches(log.partition, log.start, log.end);
    if unknown(&stretches) > MAX_SCANNED_RECORDS {
        let last = reader.read(log.end - 1, false).await?;
        return Ok(Found {
            record: last.first().copied(),
            guessed: true,
        });
    }
    let mut best: Option<TimedOffset> = None;
    for stretch in stretches {
        let candidate = match stretch {
            Stretch::Known(block) if block.max_timestamp_at >= log.start => Some(TimedOffset {
                offset: block.max_timestamp_at,
                timestamp: block.max_timestamp,
            }),
            // Its largest is below the start: what of it is left has another one.
            Stretch::Known(block) => largest_of(index, reader, log, log.start, block.end).await?,
            Stretch::Unknown { first, end } => largest_of(index, reader, log, first, end).await?,
        };
        if let Some(candidate) = candidate
            && best.is_none_or(|best| candidate.timestamp > best.timestamp)
        {
            best = Some(candidate);
        }
    }
    Ok(Found {
        record: best,
        guessed: false,
    })
}

fn unknown(stretches: &[Stretch]) -> i64 {
    let unknown = stretches.iter().map(|stretch| match stretch {
        Stretch::Known(_) => 0,
        Stretch::Unknown { first, end } => end - first,
    });
    unknown.sum()
}

async fn largest_of<R: ReadTimes>(
    index: &TimeIndex,
    reader: &R,
    log: Log,
    first: i64,
    end: i64,
) -> Result<Option<TimedOffset>, R::Error> {
    let mut best: Option<TimedOffset> = None;
    scan(index, reader, log, first, end, |record| {
        if best.is_none_or(|best| record.timestamp > best.timestamp) {
            best = Some(*record);
        }
        false
    })
    .await?;
    Ok(best)
}

/// Reads `first..end` up to the first record that `hit` names, and lets the index learn of it.
async fn scan<R: ReadTimes>(
    index: &TimeIndex,
    reader: &R,
    log: Log,
    first: i64,
    end: i64,
    mut hit: impl FnMut(&TimedOffset) -> bool,
) -> Result<Option<TimedOffset>, R::Error> {
    let mut at = first;
    while at < end {
        let records = reader.read(at, true).await?;
        let mut found = None;
        let mut learnt: Option<Block> = None;
        for record in records.iter().filter(|r| r.offset >= at && r.offset < end) {
            if found.is_none() && hit(record) {
                found = Some(*record);
            }
            let block = learnt.get_or_insert(Block {
                first: at,
                end: record.offset + 1,
                max_timestamp: record.timestamp,
                max_timestamp_at: record.offset,
            });
            block.end = record.offset + 1;
            if record.timestamp > block.max_timestamp {
                block.max_timestamp = record.timestamp;
                block.max_timestamp_at = record.offset;
            }
        }
        let Some(block) = learnt else {
            // Removed since its bounds were asked for: nothing to be found there.
            return Ok(None);
        };
        at = block.end;
        learn(index, log.partition, block, &records);
        if found.is_some() {
            return Ok(found);
        }
    }
    Ok(None)
}

/// Keeps what one call read in blocks of the usual size.
fn learn(index: &TimeIndex, partition: PartitionKey, read: Block, records: &[TimedOffset]) {
    const CHUNK: usize = 1024;
    let inside = records
        .iter()
        .filter(|r| r.offset >= read.first && r.offset < read.end);
    let inside: Vec<_> = inside.copied().collect();
    let mut first = read.first;
    for chunk in inside.chunks(CHUNK) {
        let Some(largest) = chunk.iter().rev().max_by_key(|record| record.timestamp) else {
            continue;
        };
        let end = chunk.last().map_or(first, |record| record.offset + 1);
        index.learn(
            partition,
            Block {
                first,
                end,
                max_timestamp: largest.timestamp,
                max_timestamp_at: largest.offset,
            },
        );
        first = end;
    }
}

/// Binary search, as if timestamps rose with offsets.
async fn search<R: ReadTimes>(
    reader: &R,
    log: Log,
    timestamp: i64,
) -> Result<Option<TimedOffset>, R::Error> {
    let (mut low, mut high) = (log.start, log.end);
    let mut found = None;
    while low < high {
        let middle = low + (high - low) / 2;
        let Some(record) = reader.read(middle, false).await?.first().copied() else {
            high = middle;
            continue;
        };
        if record.timestamp >= timestamp {
            found = Some(record);
            high = middle;
        } else {
            low = record.offset.max(middle) + 1;
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests;
