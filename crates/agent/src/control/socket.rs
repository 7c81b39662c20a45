//! The Unix socket for a controller: accessible to its owner only, and removed when the agent ends.

use std::fs;
use std::io;
use std::os::unix::fs::FileTypeExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};

use nix::sys::stat::{Mode, umask};
use tracing::debug;

/// A bound socket. Dropping it removes the socket's file.
#[derive(Debug)]
pub struct ControlSocket {
    path: PathBuf,
}

impl ControlSocket {
    /// Binds `path` with mode 0600. A socket that no process serves any more is replaced.
    ///
    /// The process's umask changes for a moment, so call this before other threads create files.
    ///
    /// # Errors
    /// If another agent serves the socket, the path is something else than a socket, or it cannot be created.
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
            debug!(%error, "the socket's file was removed before");
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
            "it exists and is not a socket",
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
