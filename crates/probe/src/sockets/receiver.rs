//! Receives the bursts of a train, with the kernel's stamps.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::os::fd::AsFd;
use std::time::Instant;

use super::SocketError;
use super::control::Control;
use super::raw::{self, Batch};
use super::sender::INITIAL_TTL;

/// Receive buffer asked for; holds a burst of a few thousand packets while the receiver is off the CPU.
const RECEIVE_BUFFER_BYTES: i32 = 16 << 20;

/// Most packets taken in one call.
pub const BATCH: usize = raw::BATCH;

/// Number of hops a packet took, as Choreo counts them (routers + 1, section 3.3): 1 on the same link.
/// `None` when the packet cannot have set out with [`INITIAL_TTL`].
pub fn hops(ttl: u8) -> Option<u32> {
    INITIAL_TTL
        .checked_sub(ttl)
        .filter(|_| ttl > 0)
        .map(|routers| u32::from(routers) + 1)
}

/// One received packet.
#[derive(Clone, Copy, Debug)]
pub struct Datagram<'a> {
    /// Its first bytes: at least the header of a train packet if it is that long.
    pub kept: &'a [u8],
    /// Its full UDP payload, in bytes.
    pub length: usize,
    /// Where it came from; IPv4-mapped addresses are given as IPv4.
    pub source: IpAddr,
    /// The port it came from.
    pub port: u16,
    /// The kernel's receive stamp, nanoseconds since 1970.
    pub stamp_ns: Option<u64>,
    /// Time to live (hop limit) that was left.
    pub ttl: Option<u8>,
    /// Packets the socket had dropped when this one was queued, as far as the kernel told.
    pub overflow: u32,
}

/// The socket that trains arrive at.
pub struct TrainReceiver {
    socket: UdpSocket,
    batch: Batch,
    overflow: u32,
}

impl TrainReceiver {
    /// Binds the socket and asks the kernel for stamps, time to live, overflow counts and a big buffer.
    ///
    /// # Errors
    /// When the address cannot be bound or the kernel gives no receive stamps.
    pub fn bind(address: SocketAddr) -> Result<Self, SocketError> {
        let socket = UdpSocket::bind(address).map_err(SocketError::system("bind UDP"))?;
        let set = |level, name| raw::set_option(socket.as_fd(), level, name, &1i32.to_ne_bytes());
        set(libc::SOL_SOCKET, libc::SO_TIMESTAMPNS)
            .or_else(|_| set(libc::SOL_SOCKET, libc::SO_TIMESTAMPNS_NEW))
            .map_err(SocketError::system("ask for kernel receive stamps"))?;
        // Without these two a train is still measured: hops are then unknown, overflow counts as loss.
        let _ = set(libc::SOL_SOCKET, libc::SO_RXQ_OVFL);
        let _ = set(libc::IPPROTO_IP, libc::IP_RECVTTL);
        if address.is_ipv6() {
            let _ = set(libc::IPPROTO_IPV6, libc::IPV6_RECVHOPLIMIT);
        }
        let size = RECEIVE_BUFFER_BYTES.to_ne_bytes();
        // Only a privileged process may pass the host's limit.
        raw::set_option(socket.as_fd(), libc::SOL_SOCKET, libc::SO_RCVBUFFORCE, &size)
            .or_else(|_| raw::set_option(socket.as_fd(), libc::SOL_SOCKET, libc::SO_RCVBUF, &size))
            .map_err(SocketError::system("set the receive buffer"))?;
        Ok(Self {
            socket,
            batch: Batch::new(),
            overflow: 0,
        })
    }

    /// Where the socket is bound.
    ///
    /// # Errors
    /// When the system cannot tell.
    pub fn local_addr(&self) -> Result<SocketAddr, SocketError> {
        self.socket
            .local_addr()
            .map_err(SocketError::system("read the UDP address"))
    }

    /// Waits until `until` for packets and hands each of one batch, at most [`BATCH`], to `take`. Returns how many there were.
    ///
    /// # Errors
    /// When the socket fails.
    pub fn receive(&mut self, until: Instant, mut take: impl FnMut(Datagram<'_>)) -> Result<usize, SocketError> {
        if !raw::wait_readable(self.socket.as_fd(), until).map_err(SocketError::system("wait for a train"))? {
            return Ok(0);
        }
        let count = self
            .batch
            .receive(self.socket.as_fd())
            .map_err(SocketError::system("receive a train"))?;
        for packet in self.batch.packets(count) {
            let control = Control::parse(packet.control);
            if let Some(overflow) = control.overflow {
                self.overflow = overflow;
            }
            let Some((source, port)) = source(packet.name).zip(port(packet.name)) else {
                continue;
            };
            take(Datagram {
                kept: packet.kept,
                length: packet.length,
                source,
                port,
                stamp_ns: control.stamp_ns,
                ttl: control.ttl,
                overflow: self.overflow,
            });
        }
        Ok(count)
    }

    /// Throws away what is queued, such as the stragglers of an earlier train. Bounded, so that a
    /// flood cannot hold it up.
    ///
    /// # Errors
    /// When the socket fails.
    pub fn drain(&mut self) -> Result<(), SocketError> {
        for _ in 0..1024 {
            if self.receive(Instant::now(), |_| ())? == 0 {
                break;
            }
        }
        Ok(())
    }

    /// Answers one who sent a packet here. An answer that the system does not take is lost, as on any path.
    pub fn answer(&self, to: SocketAddr, bytes: &[u8]) {
        let mapped = match (self.socket.local_addr(), to.ip()) {
            (Ok(SocketAddr::V6(_)), IpAddr::V4(v4)) => SocketAddr::new(v4.to_ipv6_mapped().into(), to.port()),
            _ => to,
        };
        let _ = self.socket.send_to(bytes, mapped);
    }

    /// Size of the receive buffer in bytes as the kernel accounts for it: about 2.3 kB a packet of 1.5 kB.
    pub fn buffer_bytes(&self) -> u32 {
        let mut size = [0; 4];
        raw::get_option(self.socket.as_fd(), libc::SOL_SOCKET, libc::SO_RCVBUF, &mut size)
            .map_or(0, |_| u32::from_ne_bytes(size))
    }

    /// Packets this socket has dropped since it was bound because its buffer was full; wraps around.
    pub fn overflow(&self) -> u32 {
        // SO_RXQ_OVFL rides on packets, so it misses drops after the last one; SO_MEMINFO has them all.
        const DROPS: usize = 8;
        let mut counters = [0; 36];
        match raw::get_option(self.socket.as_fd(), libc::SOL_SOCKET, libc::SO_MEMINFO, &mut counters) {
            Ok(length) if length == counters.len() => {
                let mut drops = [0; 4];
                drops.copy_from_slice(&counters[DROPS * 4..]);
                u32::from_ne_bytes(drops)
            }
            _ => self.overflow,
        }
    }
}

fn port(name: &[u8]) -> Option<u16> {
    // At the same place in both families' socket addresses.
    Some(u16::from_be_bytes(name.get(2..4)?.try_into().ok()?))
}

fn source(name: &[u8]) -> Option<IpAddr> {
    let family = i32::from(u16::from_ne_bytes(name.get(0..2)?.try_into().ok()?));
    match family {
        libc::AF_INET => {
            let octets: [u8; 4] = name.get(4..8)?.try_into().ok()?;
            Some(Ipv4Addr::from(octets).into())
        }
        libc::AF_INET6 => {
            let octets: [u8; 16] = name.get(8..24)?.try_into().ok()?;
            Some(IpAddr::from(Ipv6Addr::from(octets)).to_canonical())
        }
        _ => None,
    }
}

impl std::fmt::Debug for TrainReceiver {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TrainReceiver")
            .field("socket", &self.socket)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn a_full_buffer_is_counted_and_drained() {
        let mut receiver = TrainReceiver::bind("127.0.0.1:0".parse().unwrap()).unwrap();
        let small = 8192i32.to_ne_bytes();
        raw::set_option(receiver.socket.as_fd(), libc::SOL_SOCKET, libc::SO_RCVBUF, &small).unwrap();
        let sender = UdpSocket::bind("127.0.0.1:0").unwrap();
        sender.connect(receiver.local_addr().unwrap()).unwrap();
        for _ in 0..100 {
            sender.send(&[0; 1000]).unwrap();
        }
        let mut came = 0;
        receiver
            .receive(Instant::now() + Duration::from_secs(1), |_| came += 1)
            .unwrap();
        assert!(came > 0 && receiver.overflow() > 0);
        assert_eq!(came + receiver.overflow(), 100);
        receiver.drain().unwrap();
        assert_eq!(receiver.receive(Instant::now(), |_| ()).unwrap(), 0);
    }

    #[test]
    fn hops_count_routers_plus_one() {
        assert_eq!((hops(64), hops(63), hops(57)), (Some(1), Some(2), Some(8)));
        assert_eq!((hops(65), hops(0)), (None, None));
    }

    #[test]
    fn names_of_both_families_are_read() {
        let family = |family: i32| (family as u16).to_ne_bytes();
        let mut name = family(libc::AF_INET).to_vec();
        name.extend([0x1c, 0xf3, 10, 0, 0, 7]);
        assert_eq!(source(&name), Some(IpAddr::from([10, 0, 0, 7])));
        let mut name = family(libc::AF_INET6).to_vec();
        name.extend([0; 6]);
        name.extend(Ipv4Addr::new(10, 0, 0, 7).to_ipv6_mapped().octets());
        assert_eq!(source(&name), Some(IpAddr::from([10, 0, 0, 7])));
        for cut in 0..name.len() {
            assert_eq!(source(&name[..cut]), None);
        }
    }
}
