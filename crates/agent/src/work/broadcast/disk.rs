//! Helpers for a broadcast's files and folders: permissions, reservation of disk space, and error messages.

use std::fs::File;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use nix::errno::Errno;
use nix::fcntl::{FallocateFlags, fallocate};
use nix::sys::statvfs::{Statvfs, fstatvfs};

use crate::error::WorkError;

/// Permissions that a copy may adopt: no set-user-id.
pub(super) const MODE: u32 = 0o777;

#[allow(
    clippy::needless_pass_by_value,
    reason = "an error, or a text made for it, is handed over"
)]
pub(super) fn bad(path: &Path, problem: impl ToString) -> WorkError {
    WorkError::File {
        path: path.display().to_string(),
        problem: problem.to_string(),
    }
}

/// Reserves space for a file, so that a full disk is reported before any byte is sent.
pub(super) fn reserve(file: &File, path: &Path, old: u64, bytes: u64) -> Result<(), WorkError> {
    if old > bytes {
        file.set_len(bytes).map_err(|error| bad(path, error))?;
    }
    if bytes == 0 {
        return Ok(());
    }
    let Ok(length) = i64::try_from(bytes) else {
        return Err(no_space(path, bytes, "no file is that large"));
    };
    match fallocate(file, FallocateFlags::empty(), 0, length) {
        Ok(()) => Ok(()),
        Err(Errno::EOPNOTSUPP | Errno::ENOSYS) => {
            let free = fstatvfs(file).map_err(|error| bad(path, error.desc()))?;
            let free_bytes = free_bytes(&free);
            let needed_bytes = bytes.saturating_sub(stored_bytes(file));
            if needed_bytes > free_bytes {
                return Err(no_space(path, bytes, &format!("{free_bytes} are free")));
            }
            file.set_len(bytes).map_err(|error| bad(path, error))
        }
        Err(error) => Err(no_space(path, bytes, error.desc())),
    }
}

/// Bytes that an ordinary user may still write on a disk.
pub(super) fn free_bytes(disk: &Statvfs) -> u64 {
    disk.blocks_available().saturating_mul(disk.fragment_size())
}

fn no_space(path: &Path, bytes: u64, why: &str) -> WorkError {
    bad(path, format!("no space for {bytes} bytes: {why}"))
}

/// Bytes that a file takes on its disk.
fn stored_bytes(file: &File) -> u64 {
    file.metadata().map_or(0, |about| 512 * about.blocks())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn more_than_the_disk_holds_is_refused_before_any_byte() {
        let path = std::env::temp_dir().join(format!("gavotte-disk-{}", std::process::id()));
        let file = File::create(&path).unwrap();
        for bytes in [u64::MAX, i64::MAX as u64, 1 << 60] {
            let refused = reserve(&file, &path, 0, bytes).unwrap_err().to_string();
            assert!(refused.contains(&format!("no space for {bytes} bytes")), "{refused}");
        }
        reserve(&file, &path, 0, 4096).unwrap();
        assert!(stored_bytes(&file) <= 1 << 20);
        std::fs::remove_file(&path).unwrap();
    }
}
