//! The ports on which controllers connect: a Unix socket, TCP with mutual TLS, or both.

use std::fs;
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::time::Duration;

use gavotte_probe::mtu::{Family, LEAST_V6_BYTES};
use gavotte_probe::sockets::tcp;
use tonic::transport::{Certificate, Identity, ServerTlsConfig};
use tracing::debug;

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
    /// Reads the keys and binds `address`. Connections to it have IP packets of at most 1280 bytes, which every path
    /// carries: they continue where a path's MTU shrinks and firewalls drop ICMP.
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
        // Connections inherit the size, and a client sends no larger segments than its server accepts.
        if let Err(error) = tcp::set_mtu(&listener, Family::V6, LEAST_V6_BYTES) {
            debug!(%error, "long replies may not cross a path that drops long packets");
        }
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

#[cfg(test)]
mod tests {
    use std::net::TcpStream;

    use super::*;

    #[test]
    fn packets_of_control_connections_fit_every_path() {
        let file = std::env::temp_dir().join(format!("gavotte-door-{}", std::process::id()));
        fs::write(&file, "").unwrap();
        let [ca, cert, key] = [(); 3].map(|()| file.clone());
        let door = TlsDoor::bind("127.0.0.1:0".parse().unwrap(), &KeyFiles { ca, cert, key }).unwrap();
        fs::remove_file(&file).unwrap();
        let near = TcpStream::connect(door.local_addr().unwrap()).unwrap();
        door.listener.set_nonblocking(false).unwrap();
        let far = door.listener.accept().unwrap().0;
        for side in [&near, &far] {
            let bytes = tcp::info(side).unwrap().mtu_bytes;
            assert!((1000..=LEAST_V6_BYTES).contains(&bytes), "{bytes}");
        }
    }
}
