//! A UDP socket to one peer, and the MTU of the path to it.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use super::SocketError;
use super::raw;
use crate::mtu::Family;
use crate::mtu::search::{Action, PathMtu, Search};
use crate::mtu::wire::{SIZE_BYTES, Size};
use crate::packet::PacketKey;

/// Time to live of packets when they leave, so that the receiver can count the routers they passed.
pub const INITIAL_TTL: u8 = 64;

const SEND_BUFFER_BYTES: i32 = 1 << 20;
/// A blocked send wakes this often to check whether it is still needed.
const SEND_PATIENCE: Duration = Duration::from_millis(100);

/// A UDP socket for trains: connected to a peer, without fragmentation, with a known time to live and a large buffer.
#[derive(Debug)]
pub struct Path {
    pub(super) socket: UdpSocket,
    family: Family,
}

impl Path {
    /// Connects a socket to `peer`, from the address `local` if one is given.
    ///
    /// # Errors
    /// If the socket cannot be set up.
    pub fn open(local: Option<IpAddr>, peer: SocketAddr) -> Result<Self, SocketError> {
        let family = Family::of(peer.ip());
        let any: IpAddr = match family {
            Family::V4 => Ipv4Addr::UNSPECIFIED.into(),
            Family::V6 => Ipv6Addr::UNSPECIFIED.into(),
        };
        let socket = UdpSocket::bind((local.unwrap_or(any), 0)).map_err(SocketError::system("bind UDP"))?;
        socket.connect(peer).map_err(SocketError::system("connect UDP"))?;
        socket
            .set_write_timeout(Some(SEND_PATIENCE))
            .map_err(SocketError::system("bound UDP sends"))?;
        let set = |level, name, value: i32| {
            raw::set_option(socket.as_fd(), level, name, &value.to_ne_bytes())
                .map_err(SocketError::system("set up the sending socket"))
        };
        let ttl = i32::from(INITIAL_TTL);
        match family {
            Family::V4 => {
                set(libc::IPPROTO_IP, libc::IP_TTL, ttl)?;
                set(libc::IPPROTO_IP, libc::IP_MTU_DISCOVER, libc::IP_PMTUDISC_DO)?;
            }
            Family::V6 => {
                set(libc::IPPROTO_IPV6, libc::IPV6_UNICAST_HOPS, ttl)?;
                set(libc::IPPROTO_IPV6, libc::IPV6_MTU_DISCOVER, libc::IPV6_PMTUDISC_DO)?;
            }
        }
        set(libc::SOL_SOCKET, libc::SO_SNDBUF, SEND_BUFFER_BYTES)?;
        Ok(Self { socket, family })
    }

    /// Address family of the path.
    pub fn family(&self) -> Family {
        self.family
    }

    /// The path's MTU as the kernel knows it: that of its route, or a smaller one that a router has reported.
    ///
    /// # Errors
    /// If the system cannot report it.
    pub fn kernel_mtu_bytes(&self) -> Result<u32, SocketError> {
        kernel_mtu_bytes(&self.socket, self.family)
    }

    /// Finds the largest packet that reaches the peer, whose receiver answers packets of `probe_id`. Stops early when
    /// `wanted` returns false. `known_bytes` is the result of an earlier search on this path.
    ///
    /// # Errors
    /// If the socket fails.
    pub fn find_mtu(
        &self,
        key: &PacketKey,
        probe_id: u64,
        round_trip: Duration,
        known_bytes: Option<u32>,
        wanted: impl Fn() -> bool,
    ) -> Result<PathMtu, SocketError> {
        let bound = |bytes: u32| known_bytes.map_or(bytes, |known| known.min(bytes));
        let mut search = Search::new(self.family, bound(self.kernel_mtu_bytes()?), round_trip);
        loop {
            // A router's ICMP message reaches the kernel, not this socket.
            search.handle_kernel(bound(self.kernel_mtu_bytes()?));
            match search.poll(Instant::now()) {
                Action::Send(mtu_bytes) => {
                    if !self.ask(key, Size { probe_id, mtu_bytes })? {
                        search.handle_refusal(mtu_bytes);
                    }
                }
                Action::WaitUntil(until) => {
                    self.wait(until, |bytes| {
                        if let Ok(size) = Size::read_answer(key, bytes)
                            && size.probe_id == probe_id
                        {
                            search.handle_answer(size.mtu_bytes);
                        }
                    })?;
                }
                Action::Done(path_mtu) => return Ok(path_mtu),
            }
            if !wanted() {
                let bytes = bound(self.kernel_mtu_bytes()?);
                return Ok(PathMtu {
                    bytes,
                    confirmed: false,
                });
            }
        }
    }

    /// Sends one packet. Returns false if the socket's buffer had no room within a tenth of a second.
    ///
    /// # Errors
    /// If the packet does not fit the path, or the socket fails.
    pub fn send(&self, packet: &[u8]) -> Result<bool, SocketError> {
        match self.socket.send(packet) {
            Ok(_) => Ok(true),
            Err(error) => match error.raw_os_error() {
                Some(libc::EAGAIN | libc::EINTR) => Ok(false),
                // The packet counts as lost.
                Some(libc::ECONNREFUSED | libc::ENOBUFS) => Ok(true),
                Some(libc::EMSGSIZE) => Err(SocketError::TooLong {
                    payload_bytes: packet.len(),
                }),
                _ => Err(SocketError::system("send a packet")(error)),
            },
        }
    }

    /// Sends one packet of a search. Returns false if the kernel knows that the packet does not fit.
    fn ask(&self, key: &PacketKey, size: Size) -> Result<bool, SocketError> {
        let payload_bytes = self.family.payload_bytes(size.mtu_bytes).max(SIZE_BYTES as u32);
        let mut packet = vec![0; payload_bytes as usize];
        // The buffer has room for at least the header.
        let _ = size.write(key, &mut packet);
        match self.socket.send(&packet) {
            Ok(_) => Ok(true),
            Err(error) => match error.raw_os_error() {
                Some(libc::EMSGSIZE) => Ok(false),
                // The packet counts as lost.
                Some(libc::EAGAIN | libc::EINTR | libc::ECONNREFUSED | libc::ENOBUFS) => Ok(true),
                _ => Err(SocketError::system("send a packet of the path's MTU")(error)),
            },
        }
    }

    fn wait(&self, until: Instant, mut take: impl FnMut(&[u8])) -> Result<(), SocketError> {
        // Wait briefly, so that the search soon sees what ICMP has reported to the kernel.
        let until = until.min(Instant::now() + Duration::from_millis(20));
        if !raw::wait_readable(self.socket.as_fd(), until).map_err(SocketError::system("wait for an answer"))? {
            return Ok(());
        }
        let mut bytes = [0; SIZE_BYTES];
        match self.socket.recv(&mut bytes) {
            Ok(SIZE_BYTES) => take(&bytes),
            Ok(_) => {}
            Err(error) => match error.raw_os_error() {
                Some(libc::EAGAIN | libc::EINTR | libc::ECONNREFUSED | libc::EMSGSIZE) => {}
                _ => return Err(SocketError::system("receive an answer")(error)),
            },
        }
        Ok(())
    }
}

/// The MTU of a connected socket's route, as the kernel knows it.
pub(super) fn kernel_mtu_bytes(socket: &impl AsFd, family: Family) -> Result<u32, SocketError> {
    let (level, name) = match family {
        Family::V4 => (libc::IPPROTO_IP, libc::IP_MTU),
        Family::V6 => (libc::IPPROTO_IPV6, libc::IPV6_MTU),
    };
    let mut value = [0; 4];
    raw::get_option(socket.as_fd(), level, name, &mut value).map_err(SocketError::system("read the path's MTU"))?;
    Ok(u32::from_ne_bytes(value))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernel_tells_the_mtu_of_both_families() {
        for peer in ["127.0.0.1:9", "[::1]:9"] {
            let Ok(path) = Path::open(None, peer.parse().unwrap()) else {
                continue;
            };
            assert!(path.kernel_mtu_bytes().unwrap() >= crate::mtu::LEAST_V6_BYTES);
        }
    }
}
