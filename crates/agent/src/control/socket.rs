//! The Unix socket that the controller speaks to: for its owner only, and gone when the agent is.

use std::fs;
use std::io;
use std::os::unix::fs::FileTypeExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};

use nix::sys::stat::{Mode, umask};
use tracing::debug;

/// A bound socket; its file is removed when this is dropped.
#[derive(Debug)]
pub struct ControlSocket {
    path: PathBuf,
}

impl ControlSocket {
    /// Binds `path` with mode 0600. A socket that nobody serves any more is replaced.
    ///
    /// The process's file mode mask changes for a moment, so call it before other threads make files.
    ///
    /// # Errors
    /// When another agent serves the socket, something else is in its place, or it cannot be made.
    pub fn bind(path: &Path) -> io::Result<(Self, UnixListener)> {
        remove_stale(path).map_err(|error| named(path, &error))?;
        let before = umask(Mode::from_bits_truncate(0o177));
        let listener = UnixListener::bind(path);
        umask(before);
        let listener = listener.map_err(|error| named(path, &error))?;
        let socket = Self { path: path.to_owned() };
        listener.set_nonblocking(true)?;
        Ok((socket, listener))
    }
}

impl Drop for ControlSocket {
    fn drop(&mut self) {
        if let Err(error) = fs::remove_file(&self.path) {
            debug!(%error, "someone has tidied up already");
        }
    }
}

fn remove_stale(path: &Path) -> io::Result<()> {
    let kind = match fs::symlink_metadata(path) {
        Ok(metadata) => metadata.file_type(),
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(error),
    };
    if !kind.is_socket() {
        return Err(io::Error::new(
            io::ErrorKind::AlreadyExists,
            "there is something else that is not a socket",
        ));
    }
    if UnixStream::connect(path).is_ok() {
        return Err(io::Error::new(io::ErrorKind::AddrInUse, "another agent serves it"));
    }
    fs::remove_file(path)
}

fn named(path: &Path, error: &io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("socket {}: {error}", path.display()))
}
