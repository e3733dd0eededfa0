//! A disk that outlives its machine's programs and loses, at a power cut, what was not synced. The
//! storage engine runs over it unchanged.

use std::collections::VecDeque;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use fake_queen::store::Backend;

use crate::seed::Numbers;

/// What the engine asked for since the last sync, in order.
#[derive(Debug)]
enum Change {
    SetLen(u64),
    Write(u64, Vec<u8>),
}

#[derive(Debug, Default)]
struct Contents {
    /// What programs read.
    current: Vec<u8>,
    /// What a power cut leaves.
    synced: Vec<u8>,
    unsynced: Vec<Change>,
    /// Syncs that a lying disk confirmed and has not done.
    forgettable: VecDeque<Vec<Change>>,
    /// The handle that may touch the disk.
    handle: u64,
    lying_syncs: usize,
}

/// The disk. Clones are the same one.
#[derive(Clone, Debug, Default)]
pub struct Disk(Arc<Mutex<Contents>>);

impl Disk {
    /// An empty disk that keeps its word.
    pub fn new() -> Self {
        Self::default()
    }

    /// An empty disk whose last `syncs` syncs are lost at a power cut although it confirmed them,
    /// like a drive whose cache has no battery. A planted fault.
    pub fn lying(syncs: usize) -> Self {
        let disk = Self::default();
        disk.lock().lying_syncs = syncs;
        disk
    }

    fn lock(&self) -> MutexGuard<'_, Contents> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A handle for a program that starts. Earlier handles fail from now on.
    pub fn open(&self) -> DiskHandle {
        let mut contents = self.lock();
        contents.handle += 1;
        DiskHandle {
            disk: self.clone(),
            handle: contents.handle,
        }
    }

    /// Kills the program that has it open: what it wrote stays, what it still writes goes nowhere.
    pub fn kill(&self) {
        self.lock().handle += 1;
    }

    /// Cuts the power: open handles fail, what was synced stays, and of the rest each change stays
    /// or goes as the coin falls, for disks reorder. What a dying program still writes goes nowhere.
    pub fn cut_power(&self, numbers: &mut Numbers) {
        let mut contents = self.lock();
        let contents = &mut *contents;
        contents.handle += 1;
        let unsynced = std::mem::take(&mut contents.unsynced);
        if contents.lying_syncs == 0 {
            for change in unsynced.iter().filter(|_| numbers.coin()) {
                apply(&mut contents.synced, change);
            }
        }
        contents.forgettable.clear();
        contents.current.clone_from(&contents.synced);
    }
}

fn apply(bytes: &mut Vec<u8>, change: &Change) {
    // Simulated disks are far smaller than memory, whatever its width.
    let at = |offset: u64| usize::try_from(offset).unwrap_or(usize::MAX);
    match change {
        Change::SetLen(len) => bytes.resize(at(*len), 0),
        Change::Write(offset, data) => {
            let (start, end) = (at(*offset), at(*offset) + data.len());
            if bytes.len() < end {
                bytes.resize(end, 0);
            }
            bytes[start..end].copy_from_slice(data);
        }
    }
}

/// One program's access to a disk, until the power is cut or another program opens it.
#[derive(Debug)]
pub struct DiskHandle {
    disk: Disk,
    handle: u64,
}

impl DiskHandle {
    fn lock(&self) -> io::Result<MutexGuard<'_, Contents>> {
        let contents = self.disk.lock();
        if contents.handle == self.handle {
            Ok(contents)
        } else {
            Err(io::Error::new(io::ErrorKind::NotConnected, "no power"))
        }
    }

    fn change(&self, change: Change) -> io::Result<()> {
        let mut contents = self.lock()?;
        apply(&mut contents.current, &change);
        contents.unsynced.push(change);
        Ok(())
    }
}

impl Backend for DiskHandle {
    fn len(&self) -> io::Result<u64> {
        Ok(self.lock()?.current.len() as u64)
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        let contents = self.lock()?;
        let start = usize::try_from(offset).map_err(io::Error::other)?;
        let end = start.saturating_add(out.len());
        let bytes = contents.current.get(start..end);
        out.copy_from_slice(bytes.ok_or(io::ErrorKind::UnexpectedEof)?);
        Ok(())
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.change(Change::SetLen(len))
    }

    fn sync_data(&self) -> io::Result<()> {
        let mut contents = self.lock()?;
        let contents = &mut *contents;
        let changes = std::mem::take(&mut contents.unsynced);
        contents.forgettable.push_back(changes);
        while contents.forgettable.len() > contents.lying_syncs {
            for change in contents.forgettable.pop_front().into_iter().flatten() {
                apply(&mut contents.synced, &change);
            }
        }
        Ok(())
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.change(Change::Write(offset, data.to_vec()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn contents(disk: &Disk) -> Vec<u8> {
        let handle = disk.open();
        let mut out = vec![0; usize::try_from(handle.len().unwrap()).unwrap()];
        handle.read(0, &mut out).unwrap();
        out
    }

    #[test]
    fn a_power_cut_keeps_what_was_synced_and_any_part_of_the_rest() {
        let (mut kept, mut lost) = (0, 0);
        for seed in 0..32 {
            let disk = Disk::new();
            let handle = disk.open();
            handle.write(0, b"ab").unwrap();
            handle.sync_data().unwrap();
            handle.write(1, b"c").unwrap();
            disk.cut_power(&mut Numbers::new(seed, "disk"));
            match &contents(&disk)[..] {
                b"ac" => kept += 1,
                b"ab" => lost += 1,
                other => panic!("{other:?}"),
            }
        }
        assert!(kept > 0 && lost > 0, "{kept} kept, {lost} lost");
    }

    #[test]
    fn a_killed_program_leaves_what_it_wrote() {
        let disk = Disk::new();
        let handle = disk.open();
        handle.write(0, b"ab").unwrap();
        disk.kill();
        assert!(handle.write(0, b"late").is_err());
        assert_eq!(contents(&disk), b"ab");
    }

    #[test]
    fn a_dying_program_writes_nowhere() {
        let disk = Disk::new();
        let handle = disk.open();
        disk.cut_power(&mut Numbers::new(1, "disk"));
        assert!(handle.write(0, b"late").is_err() && handle.sync_data().is_err());
        assert_eq!(contents(&disk), b"");
    }

    #[test]
    fn a_lying_disk_loses_what_it_confirmed_last() {
        let disk = Disk::lying(1);
        let handle = disk.open();
        for (at, byte) in (0..).zip([b"a", b"b"]) {
            handle.write(at, byte).unwrap();
            handle.sync_data().unwrap();
        }
        assert_eq!(handle.len().unwrap(), 2);
        disk.cut_power(&mut Numbers::new(1, "disk"));
        assert_eq!(contents(&disk), b"a");
    }
}
