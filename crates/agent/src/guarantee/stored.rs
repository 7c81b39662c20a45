//! The guarantees of an agent as a file, from which it resumes them after it was restarted.

use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use prost::Message;

use crate::contract::agents::GuardRequest;

/// The file. It contains the keys of the host's pairs, so only its owner may read it.
#[derive(Clone, Debug)]
pub struct StateFile(PathBuf);

impl StateFile {
    /// Names the file, which need not exist.
    pub fn at(path: PathBuf) -> Self {
        Self(path)
    }

    /// Returns the request that was written last; `None` if there is none.
    ///
    /// # Errors
    /// If the file cannot be read or is no request.
    pub fn read(&self) -> io::Result<Option<GuardRequest>> {
        match fs::read(&self.0) {
            Ok(bytes) => GuardRequest::decode(bytes.as_slice())
                .map(Some)
                .map_err(io::Error::other),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Replaces the file.
    ///
    /// # Errors
    /// If the file cannot be written. The message names it.
    pub fn write(&self, request: &GuardRequest) -> io::Result<()> {
        let named = |error: io::Error| io::Error::new(error.kind(), format!("{}: {error}", self.0.display()));
        if let Some(folder) = self.0.parent() {
            fs::DirBuilder::new()
                .recursive(true)
                .mode(0o700)
                .create(folder)
                .map_err(named)?;
        }
        let other = self.0.with_extension("new");
        let written = write_new(&other, &request.encode_to_vec()).and_then(|()| fs::rename(&other, &self.0));
        written.map_err(named)
    }

    /// Removes the file, if it exists.
    ///
    /// # Errors
    /// If it cannot be removed.
    pub fn remove(&self) -> io::Result<()> {
        match fs::remove_file(&self.0) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        }
    }
}

fn write_new(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut file = OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(true)
        .mode(0o600)
        .open(path)?;
    file.write_all(bytes)?;
    file.sync_all()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn a_request_is_read_as_it_was_written() {
        let folder = std::env::temp_dir().join(format!("gavotte-kept-{}", std::process::id()));
        let path = folder.join("deep/guarantee");
        let kept = StateFile::at(path.clone());
        assert_eq!(kept.read().unwrap(), None);
        for run_id in ["first", "second"] {
            let request = GuardRequest {
                run_id: run_id.into(),
                ..GuardRequest::default()
            };
            kept.write(&request).unwrap();
            assert_eq!(kept.read().unwrap(), Some(request));
        }
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        fs::write(&path, [0xff; 9]).unwrap();
        assert!(kept.read().is_err());
        kept.remove().unwrap();
        kept.remove().unwrap();
        assert_eq!(kept.read().unwrap(), None);
        fs::remove_dir_all(folder).unwrap();
    }
}
