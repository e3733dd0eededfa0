//! A disk that loses what was not synced: the store's engine runs over it unchanged.

use std::io;
use std::sync::{Arc, Mutex};

use fake_queen::store::Backend;

#[derive(Clone, Debug)]
enum Pending {
    SetLen(u64),
    Write(u64, Vec<u8>),
}

#[derive(Debug, Default)]
struct Contents {
    synced: Vec<u8>,
    pending: Vec<Pending>,
    now: Vec<u8>,
    syncs: u64,
}

/// Clones are the same disk.
#[derive(Clone, Debug, Default)]
pub struct Disk(Arc<Mutex<Contents>>);

fn apply(bytes: &mut Vec<u8>, change: &Pending) {
    match change {
        Pending::SetLen(len) => bytes.resize(usize::try_from(*len).unwrap(), 0),
        Pending::Write(at, data) => {
            let at = usize::try_from(*at).unwrap();
            if bytes.len() < at + data.len() {
                bytes.resize(at + data.len(), 0);
            }
            bytes[at..at + data.len()].copy_from_slice(data);
        }
    }
}

impl Disk {
    /// The disk after a power cut now: what was synced, and of the rest those changes that `keep`
    /// picks by their ordinal.
    pub fn after_power_cut(&self, keep: impl Fn(usize) -> bool) -> Self {
        let contents = self.0.lock().unwrap();
        let mut bytes = contents.synced.clone();
        for (nth, change) in contents.pending.iter().enumerate() {
            if keep(nth) {
                apply(&mut bytes, change);
            }
        }
        Self(Arc::new(Mutex::new(Contents {
            now: bytes.clone(),
            synced: bytes,
            ..Contents::default()
        })))
    }

    pub fn syncs(&self) -> u64 {
        self.0.lock().unwrap().syncs
    }

    fn change(&self, change: Pending) {
        let mut contents = self.0.lock().unwrap();
        apply(&mut contents.now, &change);
        contents.pending.push(change);
    }
}

impl Backend for Disk {
    fn len(&self) -> io::Result<u64> {
        Ok(self.0.lock().unwrap().now.len() as u64)
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        let contents = self.0.lock().unwrap();
        let at = usize::try_from(offset).unwrap();
        let bytes = contents
            .now
            .get(at..at + out.len())
            .ok_or(io::ErrorKind::UnexpectedEof)?;
        out.copy_from_slice(bytes);
        Ok(())
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.change(Pending::SetLen(len));
        Ok(())
    }

    fn sync_data(&self) -> io::Result<()> {
        let mut contents = self.0.lock().unwrap();
        for change in std::mem::take(&mut contents.pending) {
            apply(&mut contents.synced, &change);
        }
        contents.syncs += 1;
        Ok(())
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.change(Pending::Write(offset, data.to_vec()));
        Ok(())
    }
}
