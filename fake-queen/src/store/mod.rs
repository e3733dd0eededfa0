//! Durable rows in one redb database. One write transaction per commit, one sync per transaction:
//! after a crash a commit is there whole or not at all. Everything here blocks; callers reach it
//! through `host.blocking`.

pub mod bytes;
mod load;
mod native;
mod read;
pub mod rows;
mod tables;
mod write;

use std::path::Path;
use std::sync::{PoisonError, RwLock};

use redb::Database;

use self::write::Tables;
use crate::engine::change::Change;

pub use self::load::Loaded;

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
