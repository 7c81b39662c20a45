//! Sends the bursts of a train.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::os::fd::AsFd;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use super::SocketError;
use super::raw;
use crate::packet::{Packet, PacketKey};
use crate::train::Shape;

/// Time to live that trains set out with, so that the receiver can count the routers they passed.
pub const INITIAL_TTL: u8 = 64;

const SEND_BUFFER_BYTES: i32 = 1 << 20;
/// A blocked send wakes this often to see whether it is still wanted.
const SEND_PATIENCE: Duration = Duration::from_millis(100);

/// The socket that one train leaves from.
pub struct TrainSender {
    socket: UdpSocket,
    key: PacketKey,
    probe_id: u64,
    shape: Shape,
    buffer: Vec<u8>,
}

impl TrainSender {
    /// Connects a socket to `peer`, from the address `local` if one is given.
    ///
    /// # Errors
    /// When the socket cannot be set up.
    pub fn connect(
        local: Option<IpAddr>,
        peer: SocketAddr,
        key: PacketKey,
        probe_id: u64,
        shape: Shape,
    ) -> Result<Self, SocketError> {
        let socket = connected(local, peer)?;
        let buffer = vec![0; shape.packets() as usize * shape.payload_bytes() as usize];
        Ok(Self {
            socket,
            key,
            probe_id,
            shape,
            buffer,
        })
    }

    /// Makes burst number `burst` ready: all its packets, sealed and stamped with the present time.
    pub fn prepare(&mut self, burst: u32) {
        let sent_ns = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .map_or(0, |now| now.as_nanos() as u64);
        for (seq, bytes) in (0..).zip(self.buffer.chunks_exact_mut(self.shape.payload_bytes() as usize)) {
            let packet = Packet {
                probe_id: self.probe_id,
                burst,
                seq,
                sent_ns,
            };
            // A Shape's payload always has room for a header.
            let _ = packet.write(&self.key, bytes);
        }
    }

    /// Sends the burst made ready last, back to back. Stops early when `wanted` turns false. Returns the
    /// number of packets that left, also beside an error.
    pub fn send(&self, wanted: impl Fn() -> bool) -> (u64, Result<(), SocketError>) {
        let payload_bytes = self.shape.payload_bytes() as usize;
        let mut left = self.buffer.as_slice();
        let mut sent = 0;
        while !left.is_empty() && wanted() {
            match raw::send_many(self.socket.as_fd(), left, payload_bytes) {
                Ok(count) => {
                    sent += count as u64;
                    left = left.get(count * payload_bytes..).unwrap_or_default();
                }
                Err(error) => match error.raw_os_error() {
                    Some(libc::EAGAIN | libc::EINTR) => {}
                    Some(libc::EMSGSIZE) => {
                        return (sent, Err(SocketError::TooLong { payload_bytes }));
                    }
                    _ => return (sent, Err(SocketError::system("send a burst")(error))),
                },
            }
        }
        (sent, Ok(()))
    }
}

/// A UDP socket connected to `peer` as trains need it: never fragmenting, with a known time to live and a big buffer.
pub(super) fn connected(local: Option<IpAddr>, peer: SocketAddr) -> Result<UdpSocket, SocketError> {
    let any: IpAddr = if peer.is_ipv4() {
        Ipv4Addr::UNSPECIFIED.into()
    } else {
        Ipv6Addr::UNSPECIFIED.into()
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
    if peer.is_ipv4() {
        set(libc::IPPROTO_IP, libc::IP_TTL, ttl)?;
        set(libc::IPPROTO_IP, libc::IP_MTU_DISCOVER, libc::IP_PMTUDISC_DO)?;
    } else {
        set(libc::IPPROTO_IPV6, libc::IPV6_UNICAST_HOPS, ttl)?;
        set(libc::IPPROTO_IPV6, libc::IPV6_MTU_DISCOVER, libc::IPV6_PMTUDISC_DO)?;
    }
    set(libc::SOL_SOCKET, libc::SO_SNDBUF, SEND_BUFFER_BYTES)?;
    Ok(socket)
}
