//! Helpers for a broadcast's files and folders: permissions, reservation of disk space, and error messages.

use std::fs::File;
use std::path::Path;

use nix::errno::Errno;
use nix::fcntl::{FallocateFlags, fallocate};

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
    match fallocate(file, FallocateFlags::empty(), 0, bytes as i64) {
        Ok(()) => Ok(()),
        Err(Errno::EOPNOTSUPP | Errno::ENOSYS) => file.set_len(bytes).map_err(|error| bad(path, error)),
        Err(error) => Err(bad(path, format!("no space for {bytes} bytes: {}", error.desc()))),
    }
}
