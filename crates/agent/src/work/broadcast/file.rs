//! The files and folders of a broadcast.
//!
//! A host receives a file as `PATH.partial` and renames it when it is complete. Thus no program ever sees an incomplete
//! copy under the final name. The remains of an interrupted broadcast are not sent again. The same applies to a folder.

use std::ffi::OsString;
use std::fs::{self, File, OpenOptions, Permissions};
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use gavotte_swarm::broadcast::layout::{Layout, MAX_BLOCKS};
use gavotte_swarm::broadcast::replica::{Hash, Replica};
use nix::fcntl::{Flock, FlockArg};

use crate::contract::agents::{FolderEntry, ManifestReply};
use crate::error::WorkError;
use crate::work::broadcast::cache::Cache;
use crate::work::broadcast::disk::{MODE, bad, reserve};
use crate::work::broadcast::folder::{self, Folder};

/// Size of a hash in bytes.
const HASH_BYTES: usize = size_of::<Hash>();
pub(super) fn absolute(path: &str) -> Result<&Path, WorkError> {
    let path = Path::new(path);
    let named = path.is_absolute() && path.file_name().is_some() && !path.as_os_str().is_empty();
    named
        .then_some(path)
        .ok_or_else(|| bad(path, "not the absolute path of a file or folder"))
}

/// The place of a copy that is not complete.
pub(super) fn partial_of(path: &Path) -> PathBuf {
    let mut partial = OsString::from(path);
    partial.push(".partial");
    PathBuf::from(partial)
}

/// Runs work that may wait for a disk on a blocking thread.
pub(super) async fn apart<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, WorkError> + Send + 'static,
) -> Result<T, WorkError> {
    let done = tokio::task::spawn_blocking(work).await;
    done.unwrap_or_else(|error| {
        Err(WorkError::Request(format!(
            "the work on a file was interrupted: {error}"
        )))
    })
}

/// Checks a manifest. Returns the layout of the object and the hash of each block.
pub(super) fn cut(manifest: &ManifestReply) -> Result<(Layout, Vec<Hash>), WorkError> {
    let nonsense = || WorkError::Request("manifest: it needs one hash of 32 bytes per block".into());
    let layout = Layout::new(manifest.bytes, manifest.block_bytes).ok_or_else(nonsense)?;
    let (hashes, rest) = manifest.hashes.as_chunks::<HASH_BYTES>();
    if !rest.is_empty() || hashes.len() != layout.count() as usize {
        return Err(nonsense());
    }
    let fitting = if manifest.folder {
        folder::sound(&manifest.entries, manifest.bytes)
    } else {
        manifest.entries.is_empty()
    };
    if !fitting {
        return Err(WorkError::Request("manifest: its entries do not form a folder".into()));
    }
    Ok((layout, hashes.to_vec()))
}

/// Reads a file or a folder and hashes its blocks. With 0 the block size is chosen to suit the object, and is at most
/// `most_block_bytes` unless that is 0 too or makes too many blocks.
///
/// # Errors
/// If the path is neither a file nor a folder, cannot be read, or has too many blocks.
pub(super) fn manifest(path: &str, block_bytes: u32, most_block_bytes: u32) -> Result<ManifestReply, WorkError> {
    let path = absolute(path)?;
    let about = fs::metadata(path).map_err(|error| bad(path, error))?;
    let mut manifest = ManifestReply {
        mode: about.mode() & MODE,
        folder: about.is_dir(),
        ..ManifestReply::default()
    };
    let files = if manifest.folder {
        manifest.entries = folder::entries(path)?;
        manifest.bytes = manifest.entries.iter().map(|entry| entry.bytes).sum();
        Files::Many(Folder::source(path, &manifest.entries)?)
    } else {
        let (file, bytes, _) = open(path)?;
        manifest.bytes = bytes;
        let file = Flock::lock(file, FlockArg::LockSharedNonblock).map_err(|(_, error)| bad(path, error.desc()))?;
        Files::One(file)
    };
    manifest.block_bytes = match block_bytes {
        0 if most_block_bytes > 0 => Layout::block_bytes_up_to(manifest.bytes, most_block_bytes),
        0 => Layout::block_bytes_for(manifest.bytes),
        given => given,
    };
    let layout = Layout::new(manifest.bytes, manifest.block_bytes)
        .ok_or_else(|| bad(path, format!("more than {MAX_BLOCKS} blocks of {block_bytes} bytes")))?;
    let mut buffer = vec![0; layout.length(0) as usize];
    for block in 0..layout.count() {
        let buffer = &mut buffer[..layout.length(block) as usize];
        files
            .read(layout.offset(block), buffer)
            .map_err(|error| with_path(path, error))?;
        manifest.hashes.extend_from_slice(blake3::hash(buffer).as_bytes());
    }
    Ok(manifest)
}

/// Adds the path to a disk error.
fn with_path(path: &Path, error: Trouble) -> WorkError {
    match error {
        Trouble::Named(error) => error,
        Trouble::Raw(error) if error.kind() == io::ErrorKind::UnexpectedEof => bad(path, "has become shorter"),
        Trouble::Raw(error) => bad(path, error),
    }
}

/// A disk error, with or without the name of its file.
enum Trouble {
    Named(WorkError),
    Raw(io::Error),
}

/// The files that hold the object's bytes.
#[derive(Debug)]
enum Files {
    One(Flock<File>),
    Many(Folder),
    /// Blocks in a cache, which are only read.
    Cached(Cache, Layout, Vec<Hash>),
}

impl Files {
    fn read(&self, offset: u64, buffer: &mut [u8]) -> Result<(), Trouble> {
        match self {
            Self::One(file) => file.read_exact_at(buffer, offset).map_err(Trouble::Raw),
            Self::Many(folder) => folder.read(offset, buffer).map_err(Trouble::Named),
            Self::Cached(cache, layout, hashes) => {
                let block = offset / u64::from(layout.block_bytes());
                let within = offset % u64::from(layout.block_bytes());
                cache
                    .read(&hashes[block as usize], within, buffer)
                    .map_err(Trouble::Raw)
            }
        }
    }

    fn write(&self, offset: u64, bytes: &[u8]) -> Result<(), Trouble> {
        match self {
            Self::One(file) => file.write_all_at(bytes, offset).map_err(Trouble::Raw),
            Self::Many(folder) => folder.write(offset, bytes).map_err(Trouble::Named),
            Self::Cached(..) => Err(Trouble::Raw(io::ErrorKind::ReadOnlyFilesystem.into())),
        }
    }
}

fn open(path: &Path) -> Result<(File, u64, u32), WorkError> {
    let file = File::open(path).map_err(|error| bad(path, error))?;
    let about = file.metadata().map_err(|error| bad(path, error))?;
    if !about.is_file() {
        return Err(bad(path, "not a regular file"));
    }
    Ok((file, about.len(), about.mode() & MODE))
}

/// The file or folder that holds the blocks of an object.
#[derive(Debug)]
pub(super) struct Store {
    files: Files,
    path: PathBuf,
    partial: Option<PathBuf>,
    mode: u32,
    entries: Vec<FolderEntry>,
    source: bool,
}

impl Store {
    /// Opens the source's own file or folder.
    pub(super) fn source(path: &str, manifest: &ManifestReply) -> Result<Self, WorkError> {
        let path = absolute(path)?;
        let files = if manifest.folder {
            if folder::entries(path)? != manifest.entries {
                return Err(bad(path, "its contents have changed"));
            }
            Files::Many(Folder::source(path, &manifest.entries)?)
        } else {
            let (file, bytes, _) = open(path)?;
            if bytes != manifest.bytes {
                return Err(bad(path, format!("has {bytes} bytes now, not {}", manifest.bytes)));
            }
            let lock = Flock::lock(file, FlockArg::LockSharedNonblock);
            Files::One(lock.map_err(|(_, error)| bad(path, error.desc()))?)
        };
        Ok(Self {
            files,
            path: path.to_owned(),
            partial: None,
            mode: manifest.mode,
            entries: Vec::new(),
            source: true,
        })
    }

    /// Opens the place of a copy, with space for all of it. Blocks that an earlier broadcast has left are added to
    /// `replica`.
    pub(super) fn copy(path: &str, manifest: &ManifestReply, replica: &mut Replica) -> Result<Self, WorkError> {
        let path = absolute(path)?;
        let partial = partial_of(path);
        let store = |files: Files, partial: Option<PathBuf>| Self {
            files,
            path: path.to_owned(),
            partial,
            mode: manifest.mode & MODE,
            entries: manifest.entries.clone(),
            source: false,
        };
        if manifest.folder && fs::symlink_metadata(path).is_ok() {
            // An identical folder is kept, but no folder is ever overwritten.
            if path.is_dir() && folder::entries(path)? == manifest.entries {
                let store = store(Files::Many(Folder::source(path, &manifest.entries)?), None);
                store.scan(replica)?;
                if replica.is_whole() {
                    return Ok(store);
                }
            }
            return Err(bad(
                path,
                "exists already and differs: remove it, or choose another path",
            ));
        }
        if manifest.folder {
            let (folder, old) = Folder::copy(&partial, &manifest.entries)?;
            let store = store(Files::Many(folder), Some(partial));
            if old {
                store.scan(replica)?;
            }
            return Ok(store);
        }
        if path.is_dir() {
            return Err(bad(path, "is a directory"));
        }
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            // Never follow a link that another user created, and never wait for a pipe.
            .custom_flags(nix::libc::O_NOFOLLOW | nix::libc::O_NONBLOCK)
            .mode(0o600)
            .open(&partial)
            .map_err(|error| bad(&partial, error))?;
        let about = file.metadata().map_err(|error| bad(&partial, error))?;
        if !about.is_file() || about.nlink() != 1 {
            return Err(bad(&partial, "is not a regular file, or has several hard links"));
        }
        let file = Flock::lock(file, FlockArg::LockExclusiveNonblock)
            .map_err(|_| bad(&partial, "another broadcast writes to it"))?;
        if let Err(error) = reserve(&file, &partial, about.len(), manifest.bytes) {
            if about.len() == 0 {
                // The empty file would only be in the way.
                let _ = fs::remove_file(&partial);
            }
            return Err(error);
        }
        let store = store(Files::One(file), Some(partial));
        if about.len() > 0 {
            store.scan(replica)?;
        }
        Ok(store)
    }

    /// Opens the blocks of an object that a cache has, and adds them to `replica`.
    pub(super) fn cached(cache: &Cache, hashes: &[Hash], replica: &mut Replica) -> Self {
        let layout = replica.layout();
        for (block, hash) in (0..).zip(hashes) {
            if let Some(bytes) = cache.get(hash, layout.length(block)) {
                replica.offer(block, &bytes);
            }
        }
        Self {
            files: Files::Cached(cache.clone(), layout, hashes.to_vec()),
            path: PathBuf::new(),
            partial: None,
            mode: 0,
            entries: Vec::new(),
            source: false,
        }
    }

    /// Copies the missing blocks that a cache has, and adds them to `replica`. Returns their bytes.
    pub(super) fn fill(&self, cache: &Cache, hashes: &[Hash], replica: &mut Replica) -> Result<u64, WorkError> {
        let (layout, before) = (replica.layout(), replica.whole_bytes());
        for (block, hash) in (0..).zip(hashes) {
            if replica.have().contains(block) {
                continue;
            }
            if let Some(bytes) = cache.get(hash, layout.length(block)) {
                self.write(layout.offset(block), &bytes)?;
                replica.offer(block, &bytes);
            }
        }
        Ok(replica.whole_bytes() - before)
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
        self.source
    }

    pub(super) fn read(&self, offset: u64, buffer: &mut [u8]) -> Result<(), WorkError> {
        let read = self.files.read(offset, buffer);
        read.map_err(|error| with_path(self.partial.as_ref().unwrap_or(&self.path), error))
    }

    pub(super) fn write(&self, offset: u64, bytes: &[u8]) -> Result<(), WorkError> {
        let written = self.files.write(offset, bytes);
        written.map_err(|error| with_path(self.partial.as_ref().unwrap_or(&self.path), error))
    }

    /// Gives a complete copy its name and permissions.
    pub(super) fn keep(&self) -> Result<(), WorkError> {
        let Some(partial) = &self.partial else {
            return Ok(());
        };
        match &self.files {
            Files::Cached(..) => Ok(()),
            Files::Many(folder) => folder.keep(&self.entries, self.mode, &self.path),
            Files::One(file) => {
                let mode = Permissions::from_mode(self.mode);
                file.set_permissions(mode).map_err(|error| bad(partial, error))?;
                fs::rename(partial, &self.path).map_err(|error| bad(&self.path, error))
            }
        }
    }
}
