//! The kernel's counters of each TCP connection, and the inode of each socket (`sock_diag`).

use std::io;
use std::net::{IpAddr, Ipv6Addr, SocketAddr};

use gavotte_kernel::netlink::{Hearing, Message, Netlink, attribute, u32_at, u64_at};

const BY_FAMILY: u16 = 20;
/// The older question about TCP. Its answer has both families after one walk over the kernel's table of connections.
const TCP: u16 = 18;
const WITH_INFO: u8 = 1 << 1;
const INFO: u16 = 2;
const LISTEN: u32 = 10;
/// Multicast groups for TCP sockets over IPv4 and IPv6 that end.
const ENDED: u32 = (1 << 0) | (1 << 2);
/// Size of `inet_diag_msg`.
const FIXED_BYTES: usize = 72;
/// Offset in `tcp_info` of the bytes that the other end acknowledged, including its SYN, followed by the bytes received
/// in order.
const ACKED: usize = 120;
const RECEIVED: usize = 128;
/// Offsets in `tcp_info` of the bytes that wait in the socket, and of the microseconds in which the receiver's window
/// was closed.
const WAITING: usize = 144;
const CLOSED: usize = 176;
// States in which a FIN has used up a sequence number.
const FIN_WAIT_2: u8 = 5;
const CLOSE_WAIT: u8 = 8;
const LAST_ACK: u8 = 9;
const CLOSING: u8 = 11;

/// One socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Socket {
    /// The kernel's unique identifier of the socket.
    pub(crate) cookie: u64,
    /// The socket's inode; 0 if it no longer has an owner.
    pub(crate) inode: u32,
    pub(crate) here: SocketAddr,
    pub(crate) there: SocketAddr,
    /// Payload that the other end has acknowledged, and payload that arrived in order. `None` for UDP.
    pub(crate) bytes: Option<(u64, u64)>,
    /// Payload that was not sent yet, and how long the receiver's window was closed so far, in microseconds.
    pub(crate) waiting: Option<(u32, u64)>,
}

/// The kernel's answers.
#[derive(Debug)]
pub(crate) struct Diag {
    asking: Netlink,
    hearing: Option<Hearing>,
}

impl Diag {
    pub(crate) fn open() -> io::Result<Self> {
        let asking = Netlink::sockets()?;
        let hearing = Hearing::sockets(ENDED).ok();
        Ok(Self { asking, hearing })
    }

    /// Only for reading counters.
    pub(crate) fn asking() -> io::Result<Self> {
        Ok(Self {
            asking: Netlink::sockets()?,
            hearing: None,
        })
    }

    /// Whether the kernel reports the last counts of a connection when it ends.
    pub(crate) fn tells_ends(&self) -> bool {
        self.hearing.is_some()
    }

    /// All TCP connections in their present state.
    pub(crate) fn connections(&mut self) -> io::Result<Vec<Socket>> {
        let states: u32 = 0xfff & !(1 << LISTEN);
        let mut fixed = vec![0, 0, 0, WITH_INFO];
        // No end is asked for in particular: 48 bytes.
        fixed.resize(52, 0);
        fixed.extend_from_slice(&states.to_ne_bytes());
        fixed.extend_from_slice(&[0; 4]);
        let mut rows = Vec::new();
        self.asking
            .dump(Message::new(TCP, 0, &fixed), |body| rows.extend(socket(body, false)))
            .map_err(named)?;
        Ok(rows)
    }

    /// All UDP sockets.
    pub(crate) fn datagram_sockets(&mut self) -> io::Result<Vec<Socket>> {
        let mut rows = Vec::new();
        for family in [libc::AF_INET, libc::AF_INET6] {
            let mut fixed = vec![family as u8, libc::IPPROTO_UDP as u8, 0, 0];
            fixed.extend_from_slice(&u32::MAX.to_ne_bytes());
            fixed.resize(56, 0);
            self.asking
                .dump(Message::new(BY_FAMILY, 0, &fixed), |body| {
                    rows.extend(socket(body, false));
                })
                .map_err(named)?;
        }
        Ok(rows)
    }

    /// Connections that ended since the last call, with their last counts.
    pub(crate) fn ended(&self) -> Vec<Socket> {
        let mut rows = Vec::new();
        if let Some(hearing) = &self.hearing {
            hearing.heard(|body| rows.extend(socket(body, true)));
        }
        rows
    }
}

/// Names the kernel modules if the kernel lacks them: it says only that there is no such file.
fn named(error: io::Error) -> io::Error {
    if error.kind() == io::ErrorKind::NotFound {
        io::Error::new(
            error.kind(),
            "the kernel lacks tcp_diag or udp_diag; run `modprobe -a tcp_diag udp_diag`",
        )
    } else {
        error
    }
}

/// Reads an `inet_diag_msg` with its attributes; `ended` if both FINs have used up a sequence number.
fn socket(body: &[u8], ended: bool) -> Option<Socket> {
    let (family, state) = (*body.first()?, *body.get(1)?);
    let end = |port: usize, address: usize| {
        let port = u16::from_be_bytes(body.get(port..port + 2)?.try_into().ok()?);
        let bytes: [u8; 16] = body.get(address..address + 16)?.try_into().ok()?;
        Some(SocketAddr::new(
            self::address(bytes, i32::from(family) == libc::AF_INET),
            port,
        ))
    };
    let rest = body.get(FIXED_BYTES..)?;
    let info = attribute(rest, INFO);
    let bytes = info.and_then(|info| Some((u64_at(info, ACKED)?, u64_at(info, RECEIVED)?)));
    Some(Socket {
        cookie: u64::from(u32_at(body, 44)?) | u64::from(u32_at(body, 48)?) << 32,
        inode: u32_at(body, 68)?,
        waiting: info.and_then(|info| Some((u32_at(info, WAITING)?, u64_at(info, CLOSED)?))),
        here: end(4, 8)?,
        there: end(6, 24)?,
        bytes: bytes.map(|(acked, received)| {
            let own_fin = ended || state == FIN_WAIT_2;
            let other_fin = ended || [CLOSE_WAIT, LAST_ACK, CLOSING].contains(&state);
            let sent = acked.saturating_sub(1 + u64::from(own_fin));
            (sent, received.saturating_sub(u64::from(other_fin)))
        }),
    })
}

/// Converts an address from the kernel's 16 bytes; an IPv4 address that is mapped into IPv6 becomes IPv4.
pub(crate) fn address(bytes: [u8; 16], version_4: bool) -> IpAddr {
    if version_4 {
        let [a, b, c, d, ..] = bytes;
        return IpAddr::from([a, b, c, d]);
    }
    IpAddr::V6(Ipv6Addr::from(bytes)).to_canonical()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};
    use std::net::{TcpListener, TcpStream};

    use proptest::prelude::*;

    #[test]
    fn missing_modules_are_named() {
        let message = |kind: io::ErrorKind| named(kind.into()).to_string();
        assert!(message(io::ErrorKind::NotFound).contains("modprobe -a tcp_diag udp_diag"));
        assert!(!message(io::ErrorKind::PermissionDenied).contains("modprobe"));
    }

    #[test]
    fn both_ends_of_a_connection_are_told() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (mut server, _) = listener.accept().unwrap();
        client.write_all(&[1; 700]).unwrap();
        server.read_exact(&mut [0; 700]).unwrap();
        let ends = (client.local_addr().unwrap(), client.peer_addr().unwrap());
        let all = Diag::open().unwrap().connections().unwrap();
        let of = |here, there| {
            all.iter()
                .find(|each| (each.here, each.there) == (here, there))
                .unwrap()
        };
        assert_eq!(of(ends.0, ends.1).bytes, Some((700, 0)));
        assert_eq!(of(ends.1, ends.0).bytes.unwrap().1, 700);
        assert_ne!(of(ends.0, ends.1).cookie, of(ends.1, ends.0).cookie);
    }

    #[test]
    fn one_question_finds_both_families() {
        let Ok(six) = TcpListener::bind("[::1]:0") else { return };
        let four = TcpListener::bind("127.0.0.1:0").unwrap();
        let ends: Vec<_> = [&four, &six]
            .map(|each| TcpStream::connect(each.local_addr().unwrap()).unwrap())
            .into();
        let all = Diag::open().unwrap().connections().unwrap();
        for end in &ends {
            let here = end.local_addr().unwrap();
            assert_eq!(all.iter().filter(|each| each.here == here).count(), 1, "{here}");
        }
        assert!(
            all.iter()
                .all(|each| each.here != four.local_addr().unwrap() || each.there.port() != 0)
        );
    }

    proptest! {
        #[test]
        fn any_bytes_are_safe(bytes in proptest::collection::vec(any::<u8>(), 0..400), ended: bool) {
            let _ = socket(&bytes, ended);
        }
    }
}
