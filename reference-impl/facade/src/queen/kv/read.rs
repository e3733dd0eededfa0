//! Reads of more rows than one operation carries.

use super::{Batch, BatchError, MAX_KEYS, MAX_PAGE_ROWS, OpResult, Outcome, READ_CHUNK_KEYS, Row};
use crate::queen::{Client, Credential, Error, Repeat};

/// How often keys that an answer left unread are asked for again.
const MAX_REREADS: usize = 3;

/// Rows under a prefix that are read in the same call as keys.
const BESIDE_ROWS: usize = 64;
/// Most keys that are read in one call behind the rows under a prefix.
pub const MAX_KEYS_BEHIND: usize = MAX_KEYS - BESIDE_ROWS;

/// Rows of many keys.
#[derive(Clone, Debug, Default)]
pub struct Readout {
    /// Found, in no particular order.
    pub rows: Vec<Row>,
    /// Asked for again and still not read: unknown, not absent.
    pub unread: Vec<String>,
}

/// Rows under a prefix.
#[derive(Clone, Debug, Default)]
pub struct Scan {
    /// Found, in byte order of their keys.
    pub rows: Vec<Row>,
    /// Whether rows beyond the pages allowed were left out.
    pub cut: bool,
}

impl Client {
    /// Reads the rows of `keys`, in as few calls as the limits allow. A key in neither list of the
    /// answer does not exist.
    ///
    /// # Errors
    ///
    /// [`Error::Unsendable`] for a key that no call may carry; else as [`Client::kv`].
    pub async fn kv_read<K: AsRef<str>>(
        &self,
        credential: &Credential,
        keys: &[K],
    ) -> Result<Readout, Error> {
        let mut readout = Readout::default();
        for chunk in keys.chunks(MAX_KEYS) {
            let mut wanted: Vec<String> = chunk.iter().map(|key| key.as_ref().to_owned()).collect();
            for _ in 0..=MAX_REREADS {
                if wanted.is_empty() {
                    break;
                }
                let before = wanted.len();
                wanted = self
                    .read_once(credential, &wanted, &mut readout.rows)
                    .await?;
                if wanted.len() == before {
                    break;
                }
            }
            readout.unread.append(&mut wanted);
        }
        Ok(readout)
    }

    /// One call for at most [`MAX_KEYS`] keys; returns those it left unread.
    async fn read_once(
        &self,
        credential: &Credential,
        keys: &[String],
        rows: &mut Vec<Row>,
    ) -> Result<Vec<String>, Error> {
        let mut batch = Batch::new();
        for chunk in keys.chunks(READ_CHUNK_KEYS) {
            batch.get_many(chunk).map_err(unsendable)?;
        }
        let mut left = Vec::new();
        for result in done(self.kv(credential, &batch, Repeat::Safe).await?)? {
            if let OpResult::Rows {
                rows: mut found,
                mut unread,
                ..
            } = result
            {
                rows.append(&mut found);
                left.append(&mut unread);
            }
        }
        Ok(left)
    }

    /// Reads the rows of `keys` as they are when the rows under `prefix` are read, or later;
    /// usually in one call.
    ///
    /// # Errors
    ///
    /// As [`Client::kv_read`].
    pub async fn kv_read_behind(
        &self,
        credential: &Credential,
        prefix: &str,
        keys: &[String],
        max_pages: usize,
    ) -> Result<(Scan, Readout), Error> {
        let (first, rest) = keys.split_at(keys.len().min(MAX_KEYS_BEHIND));
        let mut batch = Batch::new();
        batch
            .get_prefix(prefix, None, BESIDE_ROWS, false)
            .map_err(unsendable)?;
        for chunk in first.chunks(READ_CHUNK_KEYS) {
            batch.get_many(chunk).map_err(unsendable)?;
        }
        let mut readout = Readout::default();
        let mut scan = Scan::default();
        let mut left = Vec::new();
        for result in done(self.kv(credential, &batch, Repeat::Safe).await?)? {
            match result {
                OpResult::Page { rows, next_after } => {
                    scan.rows = rows;
                    scan.cut = next_after.is_some();
                }
                OpResult::Rows {
                    mut rows,
                    mut unread,
                    ..
                } => {
                    readout.rows.append(&mut rows);
                    left.append(&mut unread);
                }
                OpResult::Applied(_) | OpResult::Lost(..) => {}
            }
        }
        if scan.cut {
            // Too much for one page: all of it, and then the keys again.
            let scan = self.kv_scan(credential, prefix, false, max_pages).await?;
            return Ok((scan, self.kv_read(credential, keys).await?));
        }
        left.extend_from_slice(rest);
        if !left.is_empty() {
            let mut more = self.kv_read(credential, &left).await?;
            readout.rows.append(&mut more.rows);
            readout.unread.append(&mut more.unread);
        }
        Ok((scan, readout))
    }

    /// Reads the rows whose keys begin with `prefix`, at most `max_pages` pages of
    /// [`MAX_PAGE_ROWS`].
    ///
    /// # Errors
    ///
    /// As [`Client::kv_read`].
    pub async fn kv_scan(
        &self,
        credential: &Credential,
        prefix: &str,
        keys_only: bool,
        max_pages: usize,
    ) -> Result<Scan, Error> {
        let mut scan = Scan::default();
        let mut after: Option<String> = None;
        for _ in 0..max_pages {
            let mut batch = Batch::new();
            batch
                .get_prefix(prefix, after.as_deref(), MAX_PAGE_ROWS, keys_only)
                .map_err(unsendable)?;
            let results = done(self.kv(credential, &batch, Repeat::Safe).await?)?;
            let Some(OpResult::Page {
                mut rows,
                next_after,
            }) = results.into_iter().next()
            else {
                return Err(Error::unreadable("a KV page that is none"));
            };
            scan.rows.append(&mut rows);
            match next_after {
                // A page that leads back would never end.
                Some(next) if after.as_ref() < Some(&next) => after = Some(next),
                Some(_) => return Err(Error::unreadable("a KV page that leads back")),
                None => return Ok(scan),
            }
        }
        scan.cut = true;
        Ok(scan)
    }
}

fn done(outcome: Outcome) -> Result<Vec<OpResult>, Error> {
    match outcome {
        Outcome::Done(results) => Ok(results),
        Outcome::Precondition(_) => Err(Error::unreadable("a read lost a precondition")),
    }
}

fn unsendable(error: BatchError) -> Error {
    Error::Unsendable(match error {
        BatchError::KeyTooLong => "a key is too long",
        BatchError::ForeignKey => "a key is not one of the facade's",
        BatchError::BadValue => "a value is too long",
        BatchError::Full => "the call is full",
        BatchError::WrittenTwice => "a key is written twice",
    })
}
