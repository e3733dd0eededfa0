//! The moment between the broker's fork and the facade: this process asks the kernel to be ended
//! with its parent, then becomes the facade. Without `unsafe`, because it is a process of its own.

use std::ffi::OsStr;
use std::io;
use std::os::unix::process::CommandExt;
use std::process::Command;

/// Becomes `bin`. `parent` is the process that asked for it, so that one which died before the
/// kernel knew leaves no child behind.
///
/// The kernel watches the thread that started this process, not only its process: start it from
/// one that lives as long as the broker.
///
/// Returns only when it fails.
pub fn run(parent: u32, bin: &OsStr) -> io::Error {
    if let Err(error) = end_with_parent(parent) {
        return error;
    }
    Command::new(bin).exec()
}

#[cfg(target_os = "linux")]
fn end_with_parent(parent: u32) -> io::Result<()> {
    use rustix::process::{Signal, getppid, set_parent_process_death_signal};

    set_parent_process_death_signal(Some(Signal::KILL))?;
    let now = getppid().map(|pid| pid.as_raw_nonzero().get().unsigned_abs());
    if now == Some(parent) {
        Ok(())
    } else {
        Err(io::Error::other("the broker that asked for this has ended"))
    }
}

/// There is nothing like it: a broker that is killed leaves its facade running.
#[cfg(not(target_os = "linux"))]
fn end_with_parent(_parent: u32) -> io::Result<()> {
    Ok(())
}
