//! Blocks that a host keeps of earlier copies, by their hash. Equal blocks of other objects are then not sent again.
//!
//! A block is a file `HH/HASH` in the cache's folder, written under another name and renamed. Every use checks its hash
//! and sets its time. If a new object does not fit, the blocks go first that were used least recently. The folder alone
//! is the cache's state, so it survives restarts, and several agents may share it.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Read, Write as _};
use std::os::unix::fs::{DirBuilderExt, FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use gavotte_swarm::broadcast::replica::Hash;
use tracing::debug;

use crate::error::WorkError;
use crate::work::broadcast::disk::bad;

/// A bounded folder of blocks.
#[derive(Clone, Debug)]
pub(super) struct Cache {
    folder: PathBuf,
    most_bytes: u64,
}

/// A file of the cache.
struct Kept {
    used: SystemTime,
    path: PathBuf,
    bytes: u64,
}

impl Cache {
    /// The cache in this folder, which need not exist: a missing folder is an empty cache.
    ///
    /// # Errors
    /// If the path is not absolute.
    pub(super) fn at(folder: &str, most_bytes: u64) -> Result<Self, WorkError> {
        let folder = PathBuf::from(folder);
        if !folder.is_absolute() {
            return Err(bad(&folder, "not the absolute path of a cache"));
        }
        Ok(Self { folder, most_bytes })
    }

    /// The cache in this folder, which is made if it is missing.
    ///
    /// # Errors
    /// If the path is not absolute or the folder cannot be made.
    pub(super) fn open(folder: &str, most_bytes: u64) -> Result<Self, WorkError> {
        let cache = Self::at(folder, most_bytes)?;
        let made = DirBuilder::new().recursive(true).mode(0o700).create(&cache.folder);
        made.map_err(|error| bad(&cache.folder, error))?;
        Ok(cache)
    }

    fn path(&self, hash: &Hash) -> PathBuf {
        let mut name = String::with_capacity(2 * hash.len());
        for byte in hash {
            // Writing to a string cannot fail.
            let _ = write!(name, "{byte:02x}");
        }
        self.folder.join(&name[..2]).join(name)
    }

    /// The bytes of a block, if the cache has them and their hash is right. A file with a wrong hash is removed.
    pub(super) fn get(&self, hash: &Hash, length: u32) -> Option<Vec<u8>> {
        let path = self.path(hash);
        let file = readable(&path).ok()?;
        let mut bytes = Vec::with_capacity(length as usize);
        (&file).take(u64::from(length) + 1).read_to_end(&mut bytes).ok()?;
        if bytes.len() != length as usize || blake3::hash(&bytes).as_bytes() != hash {
            debug!(path = %path.display(), "removes a damaged block");
            let _ = fs::remove_file(&path);
            return None;
        }
        let _ = file.set_modified(SystemTime::now());
        Some(bytes)
    }

    /// Reads a part of a block that [`Cache::get`] has found.
    pub(super) fn read(&self, hash: &Hash, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
        readable(&self.path(hash))?.read_exact_at(buffer, offset)
    }

    /// Adds the blocks of an object, as many as fit, and makes room for them.
    ///
    /// # Errors
    /// If the object cannot be read or the cache not written.
    pub(super) fn adopt(
        &self,
        blocks: impl Iterator<Item = (Hash, u32)>,
        read: impl Fn(u32) -> Result<Vec<u8>, WorkError>,
    ) -> Result<(), WorkError> {
        let (mut seen, mut missing) = (BTreeSet::new(), Vec::new());
        let (mut all_bytes, mut new_bytes) = (0, 0);
        for (block, (hash, length)) in (0..).zip(blocks) {
            if !seen.insert(hash) {
                continue;
            }
            all_bytes += u64::from(length);
            if all_bytes > self.most_bytes {
                break;
            }
            if let Ok(file) = readable(&self.path(&hash)) {
                let _ = file.set_modified(SystemTime::now());
            } else {
                new_bytes += u64::from(length);
                missing.push((block, hash));
            }
        }
        self.shrink(self.most_bytes - new_bytes);
        for (block, hash) in missing {
            self.put(&hash, &read(block)?)?;
        }
        Ok(())
    }

    fn put(&self, hash: &Hash, bytes: &[u8]) -> Result<(), WorkError> {
        let path = self.path(hash);
        let parent = path.parent().unwrap_or(&self.folder);
        let made = DirBuilder::new().recursive(true).mode(0o700).create(parent);
        made.map_err(|error| bad(parent, error))?;
        let partial = path.with_extension(format!("{:016x}.partial", rand::random::<u64>()));
        let written = OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(&partial)
            .and_then(|mut file| file.write_all(bytes))
            .and_then(|()| fs::rename(&partial, &path));
        written.map_err(|error| {
            let _ = fs::remove_file(&partial);
            bad(&path, error)
        })
    }

    /// Removes the blocks used least recently until at most this many bytes are left.
    fn shrink(&self, most_bytes: u64) {
        let mut kept = self.kept();
        let mut bytes: u64 = kept.iter().map(|each| each.bytes).sum();
        kept.sort_by_key(|each| each.used);
        for each in kept {
            if bytes <= most_bytes {
                break;
            }
            if fs::remove_file(&each.path).is_ok() {
                bytes -= each.bytes;
            }
        }
    }

    fn kept(&self) -> Vec<Kept> {
        let folders = fs::read_dir(&self.folder).into_iter().flatten().flatten();
        let files = folders.flat_map(|folder| fs::read_dir(folder.path()).into_iter().flatten().flatten());
        let kept = files.filter_map(|file| {
            let about = file.metadata().ok().filter(fs::Metadata::is_file)?;
            Some(Kept {
                used: about.modified().unwrap_or(SystemTime::UNIX_EPOCH),
                path: file.path(),
                bytes: about.len(),
            })
        });
        kept.collect()
    }
}

/// Opens a file of the cache, and nothing that another user may have put in its place.
fn readable(path: &Path) -> io::Result<File> {
    OpenOptions::new()
        .read(true)
        .custom_flags(nix::libc::O_NOFOLLOW | nix::libc::O_NONBLOCK)
        .open(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cache(name: &str, most_bytes: u64) -> Cache {
        let folder = std::env::temp_dir().join(format!("gavotte-cache-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&folder);
        Cache::open(folder.to_str().unwrap(), most_bytes).unwrap()
    }

    fn adopt(cache: &Cache, blocks: &[&[u8]]) -> Vec<Hash> {
        let hashes: Vec<Hash> = blocks.iter().map(|block| *blake3::hash(block).as_bytes()).collect();
        let lengths = blocks.iter().map(|block| block.len() as u32);
        let read = |block: u32| Ok(blocks[block as usize].to_vec());
        cache.adopt(hashes.iter().copied().zip(lengths), read).unwrap();
        hashes
    }

    fn age(cache: &Cache, hash: &Hash, seconds: u64) {
        let file = readable(&cache.path(hash)).unwrap();
        let then = SystemTime::now() - std::time::Duration::from_secs(seconds);
        file.set_modified(then).unwrap();
    }

    #[test]
    fn a_block_is_kept_until_others_need_its_place() {
        let cache = cache("lru", 8);
        let first = adopt(&cache, &[b"aaaa", b"bbbb"]);
        assert_eq!(cache.get(&first[0], 4).unwrap(), b"aaaa");
        age(&cache, &first[0], 20);
        age(&cache, &first[1], 10);
        // The older one is used again, so the other goes.
        assert!(cache.get(&first[0], 4).is_some());
        let second = adopt(&cache, &[b"cccc"]);
        assert!(cache.get(&first[0], 4).is_some() && cache.get(&first[1], 4).is_none());
        assert!(cache.get(&second[0], 4).is_some());
        // Opened again, as after a restart.
        let again = Cache::open(cache.folder.to_str().unwrap(), 8).unwrap();
        assert_eq!(again.get(&second[0], 4).unwrap(), b"cccc");
        fs::remove_dir_all(&cache.folder).unwrap();
    }

    #[test]
    fn an_object_larger_than_the_cache_keeps_what_fits() {
        let cache = cache("large", 8);
        let hashes = adopt(&cache, &[b"aaaa", b"aaaa", b"bbbb", b"cccc"]);
        let has: Vec<bool> = hashes.iter().map(|hash| cache.get(hash, 4).is_some()).collect();
        assert_eq!(has, [true, true, true, false]);
        assert_eq!(cache.kept().iter().map(|each| each.bytes).sum::<u64>(), 8);
        fs::remove_dir_all(&cache.folder).unwrap();
    }

    #[test]
    fn a_damaged_block_is_not_used() {
        let cache = cache("damage", 100);
        let hashes = adopt(&cache, &[b"aaaa", b"bbbb"]);
        fs::write(cache.path(&hashes[0]), b"aaab").unwrap();
        assert!(cache.get(&hashes[0], 4).is_none() && !cache.path(&hashes[0]).exists());
        assert!(cache.get(&hashes[1], 5).is_none() && !cache.path(&hashes[1]).exists());
        fs::remove_dir_all(&cache.folder).unwrap();
    }
}
