//! A folder as an object: the bytes of all its files, one after another, ordered by name.

use std::collections::{BTreeMap, VecDeque};
use std::fs::{self, DirBuilder, File, OpenOptions, Permissions};
use std::os::unix::fs::{DirBuilderExt, FileExt, MetadataExt, OpenOptionsExt, PermissionsExt, symlink};
use std::path::{Component, Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use nix::fcntl::{Flock, FlockArg};

use crate::contract::agents::FolderEntry;
use crate::error::WorkError;
use crate::work::broadcast::disk::{MODE, bad, reserve};

/// Largest number of files, folders and links in one object: one message names all of them.
const MAX_ENTRIES: usize = 20_000;
/// Largest number of files that stay open.
const OPEN: usize = 32;

/// Lists the contents of a folder, ordered by name.
///
/// # Errors
/// If an entry cannot be read or copied, or if there are too many.
pub(super) fn entries(root: &Path) -> Result<Vec<FolderEntry>, WorkError> {
    let (mut by_path, mut left) = (BTreeMap::new(), vec![PathBuf::new()]);
    while let Some(inner) = left.pop() {
        let folder = root.join(&inner);
        for each in fs::read_dir(&folder).map_err(|error| bad(&folder, error))? {
            let each = each.map_err(|error| bad(&folder, error))?;
            let (path, about) = (inner.join(each.file_name()), each.metadata());
            let about = about.map_err(|error| bad(&each.path(), error))?;
            let text = |path: &Path| {
                let text = path.to_str().map(str::to_owned);
                text.ok_or_else(|| bad(&each.path(), "its name is not UTF-8"))
            };
            let mut entry = FolderEntry {
                path: text(&path)?,
                mode: about.mode() & MODE,
                ..FolderEntry::default()
            };
            if about.is_dir() {
                entry.folder = true;
                left.push(path);
            } else if about.is_symlink() {
                entry.link = text(&fs::read_link(each.path()).map_err(|error| bad(&each.path(), error))?)?;
            } else if about.is_file() {
                entry.bytes = about.len();
            } else {
                return Err(bad(&each.path(), "is not a file, a folder or a symbolic link"));
            }
            by_path.insert(entry.path.clone(), entry);
            if by_path.len() > MAX_ENTRIES {
                return Err(bad(
                    root,
                    format!("has more than {MAX_ENTRIES} entries: pack them into one file"),
                ));
            }
        }
    }
    Ok(by_path.into_values().collect())
}

/// Whether the entries can be created below any folder: each path stays inside, none appears twice, and folders precede
/// their contents.
pub(super) fn sound(entries: &[FolderEntry], bytes: u64) -> bool {
    let mut seen = BTreeMap::new();
    let mut sum = 0u64;
    for entry in entries {
        let path = Path::new(&entry.path);
        let inside = path.components().all(|part| matches!(part, Component::Normal(_)));
        let parent = path.parent().is_some_and(|parent| {
            parent.as_os_str().is_empty() || seen.get(parent).is_some_and(|entry: &&FolderEntry| entry.folder)
        });
        let kinds = u8::from(entry.folder) + u8::from(!entry.link.is_empty());
        let plain = kinds == 0 || (kinds == 1 && entry.bytes == 0);
        if !inside || !parent || !plain || seen.insert(path, entry).is_some() {
            return false;
        }
        let Some(more) = sum.checked_add(entry.bytes) else {
            return false;
        };
        sum = more;
    }
    sum == bytes && entries.len() <= MAX_ENTRIES
}

/// The files of a folder.
#[derive(Debug)]
pub(super) struct Folder {
    root: PathBuf,
    _lock: Flock<File>,
    files: Vec<Span>,
    open: Mutex<VecDeque<(usize, Arc<File>)>>,
    written: bool,
}

/// The position of a file in the object.
#[derive(Debug)]
struct Span {
    path: PathBuf,
    first: u64,
    bytes: u64,
}

impl Folder {
    /// Opens an existing folder for reading.
    pub(super) fn source(root: &Path, entries: &[FolderEntry]) -> Result<Self, WorkError> {
        Self::new(root, entries, false)
    }

    fn new(root: &Path, entries: &[FolderEntry], written: bool) -> Result<Self, WorkError> {
        let folder = File::open(root).map_err(|error| bad(root, error))?;
        let kind = if written {
            FlockArg::LockExclusiveNonblock
        } else {
            FlockArg::LockSharedNonblock
        };
        let lock = Flock::lock(folder, kind).map_err(|_| bad(root, "another broadcast writes to it"))?;
        let mut first = 0;
        let files = entries.iter().filter(|entry| !entry.folder && entry.link.is_empty());
        let files = files.map(|entry| {
            let span = Span {
                path: root.join(&entry.path),
                first,
                bytes: entry.bytes,
            };
            first += entry.bytes;
            span
        });
        Ok(Self {
            root: root.to_owned(),
            _lock: lock,
            files: files.collect(),
            open: Mutex::default(),
            written,
        })
    }

    /// Creates a folder for a copy, with space for all of it. Also returns whether it had contents before.
    pub(super) fn copy(root: &Path, entries: &[FolderEntry]) -> Result<(Self, bool), WorkError> {
        let mut private = DirBuilder::new();
        private.mode(0o700);
        let made = match private.create(root) {
            Ok(()) => true,
            Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => false,
            Err(error) => return Err(bad(root, error)),
        };
        let about = fs::symlink_metadata(root).map_err(|error| bad(root, error))?;
        if !about.is_dir() || about.uid() != nix::unistd::geteuid().as_raw() {
            return Err(bad(root, "is not a folder of the agent's user"));
        }
        let folder = Self::new(root, entries, true)?;
        if !made {
            folder.clear(entries)?;
        }
        for entry in entries.iter().filter(|entry| entry.folder) {
            let path = root.join(&entry.path);
            match private.create(&path) {
                Err(error) if error.kind() != std::io::ErrorKind::AlreadyExists => return Err(bad(&path, error)),
                _ => {}
            }
        }
        let mut old = false;
        for span in &folder.files {
            let file = folder.file(&span.path)?;
            let length = file.metadata().map_err(|error| bad(&span.path, error))?.len();
            old |= length > 0;
            if let Err(error) = reserve(&file, &span.path, length, span.bytes) {
                if made {
                    // The new folder would only be in the way.
                    let _ = fs::remove_dir_all(root);
                }
                return Err(error);
            }
        }
        Ok((folder, old))
    }

    /// Removes what an earlier broadcast of another object has left.
    fn clear(&self, wanted: &[FolderEntry]) -> Result<(), WorkError> {
        let kinds: BTreeMap<&str, bool> = wanted
            .iter()
            .filter(|entry| entry.link.is_empty())
            .map(|entry| (entry.path.as_str(), entry.folder))
            .collect();
        for entry in entries(&self.root)?.iter().rev() {
            let (path, is_folder) = (self.root.join(&entry.path), entry.folder);
            if entry.link.is_empty() && kinds.get(entry.path.as_str()) == Some(&is_folder) {
                continue;
            }
            let gone = if is_folder {
                fs::remove_dir(&path)
            } else {
                fs::remove_file(&path)
            };
            gone.map_err(|error| bad(&path, error))?;
        }
        Ok(())
    }

    fn file(&self, path: &Path) -> Result<File, WorkError> {
        let file = OpenOptions::new()
            .read(true)
            .write(self.written)
            .create(self.written)
            .truncate(false)
            .custom_flags(nix::libc::O_NOFOLLOW | nix::libc::O_NONBLOCK)
            .mode(0o600)
            .open(path)
            .map_err(|error| bad(path, error))?;
        let about = file.metadata().map_err(|error| bad(path, error))?;
        if !about.is_file() || (self.written && about.nlink() != 1) {
            return Err(bad(path, "is not a regular file, or has several hard links"));
        }
        Ok(file)
    }

    fn opened(&self, number: usize) -> Result<Arc<File>, WorkError> {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, file)) = open.iter().find(|(other, _)| *other == number) {
            return Ok(Arc::clone(file));
        }
        let file = Arc::new(self.file(&self.files[number].path)?);
        open.push_back((number, Arc::clone(&file)));
        if open.len() > OPEN {
            open.pop_front();
        }
        Ok(file)
    }

    /// The files that contain the `length` bytes from `offset` on: the number of each file, the position in it, and the
    /// number of bytes.
    fn spans(&self, offset: u64, length: usize) -> Vec<(usize, u64, usize)> {
        let mut spans = Vec::new();
        let (mut offset, mut left) = (offset, length);
        let mut number = self.files.partition_point(|span| span.first + span.bytes <= offset);
        while left > 0 && number < self.files.len() {
            let span = &self.files[number];
            let inside = offset - span.first;
            let here = usize::try_from(span.bytes - inside).unwrap_or(usize::MAX).min(left);
            if here > 0 {
                spans.push((number, inside, here));
            }
            (offset, left, number) = (offset + here as u64, left - here, number + 1);
        }
        spans
    }

    pub(super) fn read(&self, offset: u64, buffer: &mut [u8]) -> Result<(), WorkError> {
        let mut begin = 0;
        for (number, inside, here) in self.spans(offset, buffer.len()) {
            let part = &mut buffer[begin..begin + here];
            let read = self.opened(number)?.read_exact_at(part, inside);
            read.map_err(|error| bad(&self.files[number].path, error))?;
            begin += here;
        }
        Ok(())
    }

    pub(super) fn write(&self, offset: u64, bytes: &[u8]) -> Result<(), WorkError> {
        let mut begin = 0;
        for (number, inside, here) in self.spans(offset, bytes.len()) {
            let written = self.opened(number)?.write_all_at(&bytes[begin..begin + here], inside);
            written.map_err(|error| bad(&self.files[number].path, error))?;
            begin += here;
        }
        Ok(())
    }

    /// Creates the links, sets all permissions, and gives the folder its name.
    pub(super) fn keep(&self, entries: &[FolderEntry], mode: u32, name: &Path) -> Result<(), WorkError> {
        // Folders last, and inner ones first: their permissions may forbid changes inside.
        for entry in entries.iter().rev() {
            let path = self.root.join(&entry.path);
            let done = if entry.link.is_empty() {
                fs::set_permissions(&path, Permissions::from_mode(entry.mode & MODE))
            } else {
                symlink(&entry.link, &path)
            };
            done.map_err(|error| bad(&path, error))?;
        }
        fs::set_permissions(&self.root, Permissions::from_mode(mode)).map_err(|error| bad(&self.root, error))?;
        fs::rename(&self.root, name).map_err(|error| bad(name, error))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(path: &str, bytes: u64) -> FolderEntry {
        FolderEntry {
            path: path.into(),
            bytes,
            mode: 0o600,
            ..FolderEntry::default()
        }
    }

    fn folder(path: &str) -> FolderEntry {
        FolderEntry {
            folder: true,
            ..entry(path, 0)
        }
    }

    #[test]
    fn nothing_is_made_outside() {
        let link = FolderEntry {
            link: "/etc".into(),
            ..entry("a", 0)
        };
        assert!(sound(&[folder("a"), entry("a/b", 3)], 3));
        assert!(sound(&[], 0) && sound(std::slice::from_ref(&link), 0));
        for wrong in [
            vec![entry("../b", 3)],
            vec![entry("/b", 3)],
            vec![entry("a/b", 3)],
            vec![entry("", 3)],
            vec![link, entry("a/b", 3)],
            vec![entry("a", 0), entry("a/b", 3)],
            vec![entry("b", 3), entry("b", 0)],
            vec![entry("b", 2)],
            vec![folder("a"), entry("a/../b", 3)],
        ] {
            assert!(!sound(&wrong, 3), "{wrong:?}");
        }
    }
}
