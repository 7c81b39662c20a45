//! The ports on which controllers connect: a Unix socket, TCP with mutual TLS, or both.

use std::fs;
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::time::Duration;

use tonic::transport::{Certificate, Identity, ServerTlsConfig};

/// How long an unknown client may take for the TLS handshake.
const HANDSHAKE_LIMIT: Duration = Duration::from_secs(10);

/// The bound ports of one agent; without any port the agent serves no controller.
#[derive(Debug, Default)]
pub struct Doors {
    /// For a controller on this host or at the other end of an SSH connection.
    pub socket: Option<UnixListener>,
    /// For a controller with a certificate.
    pub tls: Option<TlsDoor>,
}

impl From<UnixListener> for Doors {
    fn from(socket: UnixListener) -> Self {
        Self {
            socket: Some(socket),
            tls: None,
        }
    }
}

/// The PEM files of one host, as `gavotte hosts keys` creates them.
#[derive(Clone, Debug)]
pub struct KeyFiles {
    /// The authority that signed the controller's certificate.
    pub ca: PathBuf,
    /// This host's certificate.
    pub cert: PathBuf,
    /// This host's private key.
    pub key: PathBuf,
}

/// A bound TCP port that accepts only clients with a certificate of the authority.
#[derive(Debug)]
pub struct TlsDoor {
    pub(crate) listener: TcpListener,
    pub(crate) config: ServerTlsConfig,
}

impl TlsDoor {
    /// Reads the keys and binds `address`.
    ///
    /// # Errors
    /// If a file cannot be read or the address cannot be bound.
    pub fn bind(address: SocketAddr, files: &KeyFiles) -> io::Result<Self> {
        let config = ServerTlsConfig::new()
            .identity(Identity::from_pem(read(&files.cert)?, read(&files.key)?))
            .client_ca_root(Certificate::from_pem(read(&files.ca)?))
            .client_auth_optional(false)
            .timeout(HANDSHAKE_LIMIT);
        let listener = TcpListener::bind(address)
            .map_err(|error| io::Error::new(error.kind(), format!("control port {address}: {error}")))?;
        listener.set_nonblocking(true)?;
        Ok(Self { listener, config })
    }

    /// The bound address.
    ///
    /// # Errors
    /// If the kernel does not report the address.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }
}

fn read(path: &Path) -> io::Result<Vec<u8>> {
    fs::read(path).map_err(|error| io::Error::new(error.kind(), format!("{}: {error}", path.display())))
}
