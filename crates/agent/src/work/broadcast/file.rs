//! The files of a broadcast. What a host receives goes to `PATH.partial`, which gets its name when all of it is there: nobody
//! ever sees half a copy under that name, and what a broken broadcast has left there is not sent again.

use std::ffi::OsString;
use std::fs::{self, File, OpenOptions, Permissions};
use std::io::{self, Read};
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use gavotte_swarm::broadcast::layout::{Layout, MAX_BLOCKS};
use gavotte_swarm::broadcast::replica::{Hash, Replica};
use nix::errno::Errno;
use nix::fcntl::{FallocateFlags, Flock, FlockArg, fallocate};

use crate::contract::agents::ManifestReply;
use crate::error::WorkError;

/// Bytes of a hash.
const HASH_BYTES: usize = size_of::<Hash>();
/// Permissions that a copy may take over: no set-user-id.
const MODE: u32 = 0o777;

#[allow(
    clippy::needless_pass_by_value,
    reason = "an error, or a text made for it, is handed over"
)]
fn bad(path: &Path, problem: impl ToString) -> WorkError {
    WorkError::File {
        path: path.display().to_string(),
        problem: problem.to_string(),
    }
}

fn absolute(path: &str) -> Result<&Path, WorkError> {
    let path = Path::new(path);
    let named = path.is_absolute() && path.file_name().is_some() && !path.as_os_str().is_empty();
    named
        .then_some(path)
        .ok_or_else(|| bad(path, "not the absolute path of a file"))
}

/// Does what may wait for a disk on a thread of its own.
pub(super) async fn apart<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, WorkError> + Send + 'static,
) -> Result<T, WorkError> {
    let done = tokio::task::spawn_blocking(work).await;
    done.unwrap_or_else(|error| Err(WorkError::Request(format!("the work on a file broke off: {error}"))))
}

/// How an object is cut, and the hash of each block.
pub(super) fn cut(manifest: &ManifestReply) -> Result<(Layout, Vec<Hash>), WorkError> {
    let nonsense = || WorkError::Request("manifest: not one hash of 32 bytes a block".into());
    let layout = Layout::new(manifest.bytes, manifest.block_bytes).ok_or_else(nonsense)?;
    let (hashes, rest) = manifest.hashes.as_chunks::<HASH_BYTES>();
    if !rest.is_empty() || hashes.len() != layout.count() as usize {
        return Err(nonsense());
    }
    Ok((layout, hashes.to_vec()))
}

/// Cuts a file into blocks, of a size that suits it for 0.
///
/// # Errors
/// When it is no file, cannot be read, or has too many blocks.
pub(super) fn manifest(path: &str, block_bytes: u32) -> Result<ManifestReply, WorkError> {
    let path = absolute(path)?;
    let (mut file, bytes, mode) = open(path)?;
    let block_bytes = match block_bytes {
        0 => Layout::block_bytes_for(bytes),
        given => given,
    };
    let layout = Layout::new(bytes, block_bytes)
        .ok_or_else(|| bad(path, format!("more than {MAX_BLOCKS} blocks of {block_bytes} bytes")))?;
    let mut hashes = Vec::with_capacity(layout.count() as usize * HASH_BYTES);
    let mut buffer = vec![0; layout.length(0) as usize];
    for block in 0..layout.count() {
        let buffer = &mut buffer[..layout.length(block) as usize];
        file.read_exact(buffer).map_err(|error| bad(path, error))?;
        hashes.extend_from_slice(blake3::hash(buffer).as_bytes());
    }
    Ok(ManifestReply {
        bytes,
        block_bytes,
        hashes,
        mode,
    })
}

fn open(path: &Path) -> Result<(File, u64, u32), WorkError> {
    let file = File::open(path).map_err(|error| bad(path, error))?;
    let about = file.metadata().map_err(|error| bad(path, error))?;
    if !about.is_file() {
        return Err(bad(path, "not a regular file"));
    }
    Ok((file, about.len(), about.mode() & MODE))
}

/// A file with the blocks of an object.
#[derive(Debug)]
pub(super) struct Store {
    file: Flock<File>,
    path: PathBuf,
    partial: Option<PathBuf>,
    mode: u32,
}

impl Store {
    /// The source's own file.
    pub(super) fn source(path: &str, manifest: &ManifestReply) -> Result<Self, WorkError> {
        let path = absolute(path)?;
        let (file, bytes, mode) = open(path)?;
        if bytes != manifest.bytes {
            return Err(bad(path, format!("has {bytes} bytes now, not {}", manifest.bytes)));
        }
        let file = Flock::lock(file, FlockArg::LockSharedNonblock).map_err(|(_, error)| bad(path, error.desc()))?;
        Ok(Self {
            file,
            path: path.to_owned(),
            partial: None,
            mode,
        })
    }

    /// A file for a copy, with room for all of it. Takes into `replica` what an earlier broadcast has left.
    pub(super) fn copy(path: &str, manifest: &ManifestReply, replica: &mut Replica) -> Result<Self, WorkError> {
        let path = absolute(path)?;
        if path.is_dir() {
            return Err(bad(path, "is a directory"));
        }
        let mut partial = OsString::from(path);
        partial.push(".partial");
        let partial = PathBuf::from(partial);
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            // Never through a link that somebody put there; nor wait for a pipe.
            .custom_flags(nix::libc::O_NOFOLLOW | nix::libc::O_NONBLOCK)
            .mode(0o600)
            .open(&partial)
            .map_err(|error| bad(&partial, error))?;
        let about = file.metadata().map_err(|error| bad(&partial, error))?;
        if !about.is_file() || about.nlink() != 1 {
            return Err(bad(&partial, "not a regular file with one name"));
        }
        let file = Flock::lock(file, FlockArg::LockExclusiveNonblock)
            .map_err(|_| bad(&partial, "another broadcast writes to it"))?;
        let store = Self {
            file,
            path: path.to_owned(),
            partial: Some(partial),
            mode: manifest.mode & MODE,
        };
        store.reserve(about.len(), manifest.bytes)?;
        if about.len() > 0 {
            store.scan(replica)?;
        }
        Ok(store)
    }

    /// A full disk is told before a byte is sent.
    fn reserve(&self, old: u64, bytes: u64) -> Result<(), WorkError> {
        if old > bytes {
            self.file.set_len(bytes).map_err(|error| self.bad(error))?;
        }
        if bytes == 0 {
            return Ok(());
        }
        match fallocate(&*self.file, FallocateFlags::empty(), 0, bytes as i64) {
            Ok(()) => Ok(()),
            Err(Errno::EOPNOTSUPP | Errno::ENOSYS) => self.file.set_len(bytes).map_err(|error| self.bad(error)),
            Err(error) => {
                if old == 0 {
                    self.forget();
                }
                Err(self.bad(format!("no room for {bytes} bytes: {}", error.desc())))
            }
        }
    }

    fn scan(&self, replica: &mut Replica) -> Result<(), WorkError> {
        let layout = replica.layout();
        let mut buffer = vec![0; layout.length(0) as usize];
        for block in 0..layout.count() {
            let buffer = &mut buffer[..layout.length(block) as usize];
            self.read(layout.offset(block), buffer)?;
            replica.offer(block, buffer);
        }
        Ok(())
    }

    pub(super) fn is_source(&self) -> bool {
        self.partial.is_none()
    }

    /// Removes a file in which nothing is.
    fn forget(&self) {
        if let Some(partial) = &self.partial {
            // It is only in the way.
            let _ = fs::remove_file(partial);
        }
    }

    pub(super) fn read(&self, offset: u64, buffer: &mut [u8]) -> Result<(), WorkError> {
        self.file
            .read_exact_at(buffer, offset)
            .map_err(|error| match error.kind() {
                io::ErrorKind::UnexpectedEof => self.bad("is shorter than it was"),
                _ => self.bad(error),
            })
    }

    pub(super) fn write(&self, offset: u64, bytes: &[u8]) -> Result<(), WorkError> {
        self.file.write_all_at(bytes, offset).map_err(|error| self.bad(error))
    }

    /// Gives a whole copy its name and its permissions.
    pub(super) fn keep(&self) -> Result<(), WorkError> {
        let Some(partial) = &self.partial else {
            return Ok(());
        };
        let mode = Permissions::from_mode(self.mode);
        self.file.set_permissions(mode).map_err(|error| self.bad(error))?;
        fs::rename(partial, &self.path).map_err(|error| bad(&self.path, error))
    }

    #[allow(
        clippy::needless_pass_by_value,
        reason = "an error, or a text made for it, is handed over"
    )]
    fn bad(&self, problem: impl ToString) -> WorkError {
        bad(self.partial.as_ref().unwrap_or(&self.path), problem)
    }
}
