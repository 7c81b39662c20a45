//! Removes the incomplete copies that broadcasts have left.

use std::fs::{self, OpenOptions};
use std::io::ErrorKind;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};

use nix::fcntl::{Flock, FlockArg};

use crate::error::WorkError;
use crate::work::broadcast::disk::bad;
use crate::work::broadcast::file::{absolute, partial_of};

/// Removes the incomplete copy of a file or folder. Returns whether one existed.
///
/// A copy to which a broadcast writes at the moment is kept, and so is whatever another user or a link has put in its place.
pub(super) fn discard(path: &str) -> Result<bool, WorkError> {
    let partial = partial_of(absolute(path)?);
    let about = match fs::symlink_metadata(&partial) {
        Ok(about) => about,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(false),
        Err(error) => return Err(bad(&partial, error)),
    };
    let own = about.uid() == nix::unistd::geteuid().as_raw();
    if !own || !(about.is_dir() || about.is_file()) {
        return Err(bad(&partial, "is not a file or folder of the agent's user"));
    }
    let opened = OpenOptions::new()
        .read(true)
        .custom_flags(nix::libc::O_NOFOLLOW | nix::libc::O_NONBLOCK)
        .open(&partial)
        .map_err(|error| bad(&partial, error))?;
    let _lock =
        Flock::lock(opened, FlockArg::LockExclusiveNonblock).map_err(|_| bad(&partial, "a broadcast writes to it"))?;
    let removed = if about.is_dir() {
        fs::remove_dir_all(&partial)
    } else {
        fs::remove_file(&partial)
    };
    removed.map(|()| true).map_err(|error| bad(&partial, error))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::PathBuf;

    fn folder(name: &str) -> PathBuf {
        let folder = std::env::temp_dir().join(format!("gavotte-discard-{name}-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        folder
    }

    #[test]
    fn only_incomplete_copies_are_removed() {
        let folder = folder("only");
        let copy = folder.join("copy");
        fs::write(&copy, b"whole").unwrap();
        fs::write(folder.join("copy.partial"), b"half").unwrap();
        let path = copy.to_str().unwrap();
        assert!(discard(path).unwrap());
        assert!(!discard(path).unwrap());
        assert_eq!(fs::read(&copy).unwrap(), b"whole");
        fs::create_dir_all(folder.join("copy.partial/inner")).unwrap();
        assert!(discard(path).unwrap());
        assert!(!folder.join("copy.partial").exists());
        fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn links_and_copies_that_grow_are_kept() {
        let folder = folder("kept");
        fs::write(folder.join("elsewhere"), b"mine").unwrap();
        std::os::unix::fs::symlink(folder.join("elsewhere"), folder.join("link.partial")).unwrap();
        let error = discard(folder.join("link").to_str().unwrap()).unwrap_err();
        assert!(error.to_string().contains("not a file or folder"), "{error}");
        let growing = fs::File::create(folder.join("copy.partial")).unwrap();
        let lock = Flock::lock(growing, FlockArg::LockExclusiveNonblock)
            .map_err(|(_, error)| error)
            .unwrap();
        let error = discard(folder.join("copy").to_str().unwrap()).unwrap_err();
        assert!(error.to_string().contains("a broadcast writes to it"), "{error}");
        drop(lock);
        assert!(folder.join("elsewhere").exists() && folder.join("copy.partial").exists());
        fs::remove_dir_all(folder).unwrap();
    }
}
