//! Receives the bursts of a train with kernel timestamps.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV6, UdpSocket};
use std::os::fd::AsFd;
use std::time::Instant;

use super::SocketError;
use super::clock::ClockWatch;
use super::control::Control;
use super::path::INITIAL_TTL;
use super::raw::{self, Batch};

/// Requested receive buffer; it holds a burst of a few thousand packets while the receiver is off its core.
const RECEIVE_BUFFER_BYTES: i32 = 16 << 20;

/// Largest number of packets received in one call.
pub const BATCH: usize = raw::BATCH;

/// Number of hops of a packet as Choreo counts them (routers + 1, section 3.3): 1 on the same link. `None` if the
/// packet cannot have left with [`INITIAL_TTL`].
pub fn hops(ttl: u8) -> Option<u32> {
    INITIAL_TTL
        .checked_sub(ttl)
        .filter(|_| ttl > 0)
        .map(|routers| u32::from(routers) + 1)
}

/// One received packet.
#[derive(Clone, Copy, Debug)]
pub struct Datagram<'a> {
    /// The packet's first bytes, including the whole header if the packet is long enough.
    pub kept: &'a [u8],
    /// Size of the whole UDP payload in bytes.
    pub length: usize,
    /// The sender's address; IPv4-mapped addresses appear as IPv4.
    pub source: IpAddr,
    /// The sender's port.
    pub port: u16,
    /// The interface of a sender with a link-local address, else 0.
    pub scope: u32,
    /// The kernel's receive timestamp, in nanoseconds since 1970.
    pub stamp_ns: Option<u64>,
    /// Remaining time to live (hop limit).
    pub ttl: Option<u8>,
    /// Number of packets that the socket had dropped when this one was queued, if the kernel reported it.
    pub overflow: u32,
}

impl Datagram<'_> {
    /// The address to which an answer goes.
    pub fn from(&self) -> SocketAddr {
        match self.source {
            IpAddr::V6(ip) => SocketAddrV6::new(ip, self.port, 0, self.scope).into(),
            ip @ IpAddr::V4(_) => SocketAddr::new(ip, self.port),
        }
    }
}

/// The socket that receives trains.
pub struct TrainReceiver {
    socket: UdpSocket,
    batch: Batch,
    overflow: u32,
    clock: ClockWatch,
}

impl TrainReceiver {
    /// Binds the socket and requests timestamps, time to live, overflow counts and a large buffer from the kernel.
    ///
    /// # Errors
    /// If the address cannot be bound or the kernel gives no receive timestamps.
    pub fn bind(address: SocketAddr) -> Result<Self, SocketError> {
        let socket = UdpSocket::bind(address).map_err(SocketError::system("bind UDP"))?;
        let set = |level, name| raw::set_option(socket.as_fd(), level, name, &1i32.to_ne_bytes());
        set(libc::SOL_SOCKET, libc::SO_TIMESTAMPNS)
            .or_else(|_| set(libc::SOL_SOCKET, libc::SO_TIMESTAMPNS_NEW))
            .map_err(SocketError::system("ask for kernel receive stamps"))?;
        // A train can be measured without these two: hops are then unknown, and overflow counts as loss.
        let _ = set(libc::SOL_SOCKET, libc::SO_RXQ_OVFL);
        let _ = set(libc::IPPROTO_IP, libc::IP_RECVTTL);
        if address.is_ipv6() {
            let _ = set(libc::IPPROTO_IPV6, libc::IPV6_RECVHOPLIMIT);
        }
        let size = RECEIVE_BUFFER_BYTES.to_ne_bytes();
        // Only a privileged process may exceed the host's limit.
        raw::set_option(socket.as_fd(), libc::SOL_SOCKET, libc::SO_RCVBUFFORCE, &size)
            .or_else(|_| raw::set_option(socket.as_fd(), libc::SOL_SOCKET, libc::SO_RCVBUF, &size))
            .map_err(SocketError::system("set the receive buffer"))?;
        Ok(Self {
            socket,
            batch: Batch::new(),
            overflow: 0,
            clock: ClockWatch::new(),
        })
    }

    /// The address of the socket.
    ///
    /// # Errors
    /// If the system cannot report it.
    pub fn local_addr(&self) -> Result<SocketAddr, SocketError> {
        self.socket
            .local_addr()
            .map_err(SocketError::system("read the UDP address"))
    }

    /// Waits for packets until `until` and passes each packet of one batch, at most [`BATCH`], to `take`. Returns their
    /// number.
    ///
    /// # Errors
    /// If the socket fails.
    pub fn receive(&mut self, until: Instant, mut take: impl FnMut(Datagram<'_>)) -> Result<usize, SocketError> {
        if !raw::wait_readable(self.socket.as_fd(), until).map_err(SocketError::system("wait for a train"))? {
            return Ok(0);
        }
        let count = self
            .batch
            .receive(self.socket.as_fd())
            .map_err(SocketError::system("receive a train"))?;
        self.clock.look();
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
                scope: scope(packet.name),
                stamp_ns: control.stamp_ns,
                ttl: control.ttl,
                overflow: self.overflow,
            });
        }
        Ok(count)
    }

    /// Number of detected steps of the timestamp clock since the socket was bound. A clock that is set and set back
    /// between two successful calls of [`Self::receive`] goes unnoticed.
    pub fn clock_steps(&mut self) -> u32 {
        self.clock.look()
    }

    /// Discards queued packets, such as late ones of an earlier train. The number is bounded, so that a flood cannot
    /// block this call.
    ///
    /// # Errors
    /// If the socket fails.
    pub fn drain(&mut self) -> Result<(), SocketError> {
        for _ in 0..1024 {
            if self.receive(Instant::now(), |_| ())? == 0 {
                break;
            }
        }
        Ok(())
    }

    /// Sends an answer to the sender of a packet. If the system refuses it, it counts as lost.
    pub fn answer(&self, to: SocketAddr, bytes: &[u8]) {
        let mapped = match (self.socket.local_addr(), to.ip()) {
            (Ok(SocketAddr::V6(_)), IpAddr::V4(v4)) => SocketAddr::new(v4.to_ipv6_mapped().into(), to.port()),
            _ => to,
        };
        let _ = self.socket.send_to(bytes, mapped);
    }

    /// Size of the receive buffer as the kernel accounts for it, in bytes: a packet of 1.5 kB takes about 2.3 kB.
    pub fn buffer_bytes(&self) -> u32 {
        let mut size = [0; 4];
        raw::get_option(self.socket.as_fd(), libc::SOL_SOCKET, libc::SO_RCVBUF, &mut size)
            .map_or(0, |_| u32::from_ne_bytes(size))
    }

    /// Number of packets that this socket has dropped since it was bound because its buffer was full; wraps around.
    pub fn overflow(&self) -> u32 {
        // SO_RXQ_OVFL arrives with packets, so it misses drops after the last one; SO_MEMINFO counts all of them.
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
    // The port is at the same place in both families' socket addresses.
    Some(u16::from_be_bytes(name.get(2..4)?.try_into().ok()?))
}

fn scope(name: &[u8]) -> u32 {
    let bytes = name.get(24..28).and_then(|bytes| bytes.try_into().ok());
    bytes.map_or(0, u32::from_ne_bytes)
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
            assert_eq!((source(&name[..cut]), scope(&name[..cut])), (None, 0));
        }
        name.extend(7u32.to_ne_bytes());
        assert_eq!(scope(&name), 7);
    }
}
