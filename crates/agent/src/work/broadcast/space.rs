//! The size of an object, and the space for its copy. No byte of either is read.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use nix::sys::statvfs::statvfs;

use crate::contract::agents::SpaceReply;
use crate::error::WorkError;
use crate::work::broadcast::disk::{bad, free_bytes};
use crate::work::broadcast::file::{absolute, partial_of};
use crate::work::broadcast::folder;

/// Size of a unit of `st_blocks` in bytes.
const UNIT_BYTES: u64 = 512;

/// The size of a file, or of all files of a folder.
pub(super) fn object(path: &str) -> Result<SpaceReply, WorkError> {
    let path = absolute(path)?;
    let about = fs::metadata(path).map_err(|error| bad(path, error))?;
    let bytes = if about.is_dir() {
        folder::entries(path)?.iter().map(|entry| entry.bytes).sum()
    } else {
        about.len()
    };
    Ok(SpaceReply {
        bytes,
        folder: about.is_dir(),
        ..SpaceReply::default()
    })
}

/// The space where a copy goes, and what an incomplete copy occupies there.
pub(super) fn copy(path: &str) -> Result<SpaceReply, WorkError> {
    let path = absolute(path)?;
    let folder = path.parent().unwrap_or(path);
    let free = statvfs(folder).map_err(|error| bad(folder, error.desc()))?;
    Ok(SpaceReply {
        folder: path.is_dir(),
        free_bytes: free_bytes(&free),
        stored_bytes: occupied_bytes(&partial_of(path)),
        ..SpaceReply::default()
    })
}

/// Bytes that a file, or all files of a folder, occupy; 0 if nothing is at the path. Links are not followed.
fn occupied_bytes(path: &Path) -> u64 {
    let (mut bytes, mut left) = (0, vec![PathBuf::from(path)]);
    while let Some(path) = left.pop() {
        match fs::symlink_metadata(&path) {
            Ok(about) if about.is_file() => bytes += UNIT_BYTES * about.blocks(),
            Ok(about) if about.is_dir() => {
                let entries = fs::read_dir(&path).into_iter().flatten().flatten();
                left.extend(entries.map(|entry| entry.path()));
            }
            _ => {}
        }
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_and_space_are_known_without_reading() {
        let folder = std::env::temp_dir().join(format!("gavotte-space-{}", std::process::id()));
        fs::create_dir_all(folder.join("object/inner")).unwrap();
        fs::write(folder.join("object/one"), vec![1; 3000]).unwrap();
        fs::write(folder.join("object/inner/two"), vec![2; 5000]).unwrap();
        let of = |name: &str| folder.join(name).to_str().unwrap().to_owned();
        let whole = object(&of("object")).unwrap();
        assert_eq!((whole.bytes, whole.folder), (8000, true));
        // A hole is part of the size, and nothing is read of it.
        let hole = fs::File::create(folder.join("hole")).unwrap();
        hole.set_len(1 << 40).unwrap();
        assert_eq!(object(&of("hole")).unwrap().bytes, 1 << 40);
        assert!(object(&of("nothing")).is_err());
        let fresh = copy(&of("copy")).unwrap();
        assert!(fresh.free_bytes > 0 && fresh.stored_bytes == 0 && !fresh.folder);
        fs::write(folder.join("copy.partial"), vec![3; 10_000]).unwrap();
        let begun = copy(&of("copy")).unwrap();
        assert!(begun.stored_bytes >= 10_000, "{begun:?}");
        assert!(copy(&of("object")).unwrap().folder);
        assert!(copy(&of("missing/copy")).is_err());
        fs::remove_dir_all(folder).unwrap();
    }
}
